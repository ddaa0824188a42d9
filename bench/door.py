"""What a system call costs when it is recorded, against native; and what starting costs.

Runs in: python -m bench. May call: gcc, gdbrr.
Owns: the cases of bench/c/door.c.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.kit import GDBRR, Bench, Done, Row, only, record, replay, run

CALLS, START, LARGE = "door: calls", "door: the start", "door: large reads"
WHOLE = "door: a run as a whole"
DEMO = "demo, bytes a round"


@dataclass(frozen=True)
class Case:
    name: str
    what: str
    rounds: int
    settings: tuple[str, ...] = ()
    replays: bool = True
    """False: the call gives something else on replay, as a native class may."""


CASES = [
    Case("getppid, ignored class", "getppid", 1_000_000, settings=("classes.proc=ignore",)),
    Case("getppid, native class", "getppid", 1_000_000, settings=("classes.proc=native",), replays=False),
    Case("getppid, recorded", "getppid", 1_000_000),
    Case("getppid, recorded, trapped", "getppid", 100_000, settings=("engine.patch=off",)),
    Case("clock_gettime, recorded", "clock", 3_000_000),
    Case("read of 64 bytes from a pipe", "read", 1_000_000),
    Case("open and close", "open", 150_000),
    Case("one thread, pipe, two calls", "alone", 500_000),
    Case("two threads, pipe ping-pong", "threads", 100_000),
    Case("rdtsc, recorded", "counter", 50_000, settings=("tsc=record",)),
    Case("computing", "compute", 1_000_000_000),
]


class Call:
    """One case at so many rounds; collects the sizes of demos."""

    def __init__(self, case: Case, rounds: int, program: Path, demo: Path) -> None:
        self.case, self.rounds, self.demo = case, rounds, demo
        self.words = [str(program), case.what, str(rounds)]
        self.sizes: list[float] = []
        self.start = 0.0
        if case.replays:  # what a replay of one round takes is not the rounds'
            record(demo, case.settings, [program, case.what, "1"])
            self.start = min(replay(demo).seconds for _ in range(3))

    def native(self) -> float:
        return float(run(self.words).out)

    def recorded(self) -> float:
        out = record(self.demo, self.case.settings, self.words).out
        self.sizes.append(self.demo.stat().st_size / self.rounds)
        return float(out)

    def replayed(self) -> float:
        return max(0.0, replay(self.demo).seconds - self.start) * 1e9 / self.rounds


def calls(bench: Bench) -> Iterator[Row]:
    """Of processor time, the ping-pong of real time; replays of real time, less what a replay of one round takes."""
    program, demo = bench.compile("door"), bench.scratch / "door.demo"
    for case in CASES:
        call = Call(case, bench.scaled(case.rounds), program, demo)
        ways = {"native": call.native, "recorded": call.recorded}
        if case.replays:
            ways["replayed"] = call.replayed
        yield Row(CALLS, case.name, "ns", bench.interleaved(ways, bench.rounds(3)), {DEMO: call.sizes})


def whole(bench: Bench) -> Iterator[Row]:
    """From the command to the demo, less what a run of one round takes: with the packing."""
    program, demo = bench.compile("door"), bench.scratch / "whole.demo"
    rounds = bench.scaled(200_000)

    def net(measure: Callable[[Sequence[str | Path]], Done]) -> float:
        some, one = (measure([program, "alone", str(count)]).seconds for count in (rounds, 1))
        return (some - one) * 1e3

    ways = {"native": lambda: net(run), "recorded": lambda: net(lambda words: record(demo, (), words))}
    yield Row(WHOLE, "one thread, 400,000 pipe calls", "ms", bench.interleaved(ways, bench.rounds(5)))


def large(bench: Bench) -> Iterator[Row]:
    """Reads of 1 MiB: what is recorded must be copied into the log, and its pages be found."""
    program, demo = bench.compile("door"), bench.scratch / "large.demo"
    rounds = bench.scaled(2000)  # more would not fit the log that a recording may have
    words = [str(program), "large", str(rounds)]

    def speed(done: Done) -> float:
        return (1 << 20) / float(done.out)

    ways = {
        "native": lambda: speed(run(words)),
        "recorded": lambda: speed(record(demo, (), words)),
    }
    yield Row(LARGE, "pread of 1 MiB", "GB/s", bench.interleaved(ways, bench.rounds(3)))


def start(bench: Bench) -> Iterator[Row]:
    """Of a program that does nothing: real time, and of the processor."""
    demo, times = bench.scratch / "true.demo", 3 if bench.quick else 12
    record(demo, (), ["/bin/true"])  # what is imported is compiled by now
    used: dict[str, list[float]] = {}

    def measured(way: str, done: Done) -> float:
        used.setdefault(f"{way}, of a processor", []).append(done.used * 1e3)
        return done.seconds * 1e3

    ways = {
        "native": lambda: measured("native", run(["/bin/true"])),
        "this Python alone": lambda: measured("this Python alone", run([sys.executable, "-c", "pass"])),
        "recorded": lambda: measured("recorded", record(demo, (), ["/bin/true"])),
        "replayed": lambda: measured("replayed", replay(demo)),
        "gdbrr --version": lambda: measured("gdbrr --version", run([*GDBRR, "--version"])),
    }
    found = bench.interleaved(ways, times)
    for way, values in found.items():
        yield Row(
            START, way, "ms", {"real time": values, "of a processor": used[f"{way}, of a processor"]}, compared=False
        )


def rows(bench: Bench) -> Iterator[Row]:
    yield from start(bench)
    yield from calls(bench)
    yield from whole(bench)
    yield from large(bench)


if __name__ == "__main__":
    only(rows)
