"""What going back costs: a checkpoint against a bare fork, landing, histories, the last of many writes, how far back.

Runs in: python -m bench. May call: gcc, gdbrr and its timeline, GDB where it is installed.
Owns: the programs of bench/c/timeline.c.
"""

from __future__ import annotations

import contextlib
import re
import signal
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from bench.kit import Bench, Done, Failed, Row, only, record, run

COST, MEMORY, LAND = "timeline: a checkpoint", "timeline: an idle checkpoint", "timeline: landing on a known moment"
HITS, LAST = "timeline: a hit of a history", "timeline: the last of many writes"
CORES, OCCUPIED = "timeline: a search over all epochs", "cores that have work, of all"
LENGTH, BEHIND = "timeline: the last write, by seconds of run", "timeline: the last write, far back"
GDB_WRITES = 20_000
REPLAYS = "a bare clone of the replay"
IN_A_ROW = 5
PERF_STARTS = 10.0
"""Seconds that it may take."""
EPOCHS = 60


def program(bench: Bench) -> Path:
    return bench.compile("timeline", "-O1", "-no-pie", name="timeline-program")


def symbol(path: Path, name: str) -> int:
    rows = (line.split() for line in run(["nm", path]).out.splitlines())
    return next(int(row[0], 16) for row in rows if row[-1] == name)


def opened(bench: Bench, words: tuple[str, ...], *settings: str) -> Any:
    from gdbrr.timeline.timeline import open_demo

    bench.progress(" ".join(words))
    demo = bench.scratch / "timeline.demo"
    record(demo, settings, [program(bench), *words])
    return open_demo(demo)


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def written(bench: Bench) -> Any:
    from gdbrr.timeline.model import Point, PointKind

    return Point(PointKind.WRITE, symbol(program(bench), "watched"), 8)


# ---------------------------------------------------------------- checkpoints and landing
def checkpoints(bench: Bench) -> Iterator[Row]:
    from gdbrr.timeline.model import Moment

    for size in (10, 100) if bench.quick else (10, 100, 1000):
        rounds = bench.rounds(9)
        forks: list[float] = []
        with opened(bench, ("stay", str(size)), "epochs.ticks=16") as timeline:
            timeline.seek(timeline.end).drop()
            kept = timeline._checkpoints
            made, whole = [], []
            tables: list[float] = []
            own: list[float] = []
            worker = kept.worker_at(timeline.end.tick - 3)
            for _ in range(rounds):
                some = run([program(bench), "fork", str(size), str(IN_A_ROW)]).out.split()
                forks.append(statistics.median(float(one) for one in some))
                made.append(statistics.median(checkpoint(worker, own, tables) for _ in range(IN_A_ROW)))
            clones = clones_of(bench, worker, rounds)
            worker.drop()
            tick = timeline.checkpoints[-2] + 2
            timeline.seek(Moment(tick)).drop()
            for _ in range(rounds):
                start = time.perf_counter()
                leaf = timeline.seek(Moment(tick))
                whole.append((time.perf_counter() - start) * 1e3)
                leaf.drop()
        ways = {"bare fork": forks, REPLAYS: clones, "checkpoint": made}
        yield Row(COST, f"{size} MB resident", "ms", {way: some for way, some in ways.items() if some}, x=size)
        yield Row(MEMORY, f"{size} MB resident", "MB", {"its own pages": own, "page tables": tables}, compared=False)
        yield Row(LAND, f"{size} MB resident", "ms", {"landing": whole}, x=size)


def checkpoint(worker: Any, own: list[float], tables: list[float]) -> float:
    """Milliseconds that one takes; what it has for itself goes into OWN and TABLES."""
    start = time.perf_counter()
    copy = worker.freeze()
    spent = time.perf_counter() - start
    own.append(copy.private() / 1e6)
    status = Path(f"/proc/{copy.pid}/status").read_text()
    tables.append(int(re.findall(r"VmPTE:\s+(\d+)", status)[0]) / 1e3)
    copy.drop()
    return spent * 1e3


def clones_of(bench: Bench, worker: Any, rounds: int) -> list[float]:
    """What the kernel takes to clone the replay itself, each time that a checkpoint is made of it; ms."""
    told = bench.scratch / "clones"
    if not bench.has("perf", "the clone of a replayed process"):
        return []
    words = ["perf", "trace", "-e", "clone", "-p", str(worker.pid), "-o", str(told)]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as perf:
        until = time.monotonic() + PERF_STARTS
        for _ in range(rounds):
            worker.freeze().drop()
            while perf.poll() is None and time.monotonic() < until and not (told.exists() and told.stat().st_size):
                worker.freeze().drop()
        perf.send_signal(signal.SIGINT)
    found = re.findall(r"\(\s*([0-9.]+) ms\)", told.read_text() if told.exists() else "")
    if not found:
        bench.left_out.append("the clone of a replayed process: perf trace is refused here")
    return [float(one) for one in found[-rounds:]]


# ---------------------------------------------------------------- hits
def hits(bench: Bench) -> Iterator[Row]:
    number = bench.scaled(100_000) // 64 * 64
    try:
        bare = [float(run([program(bench), "traps", str(number)]).out) for _ in range(bench.rounds(3))]
    except Failed:
        bench.left_out.append("the cost of a bare trap: perf_event_open is refused here")
        return
    with opened(bench, ("writes", str(number))) as timeline:
        timeline.seek(timeline.end).drop()
        point, found = written(bench), {"bare trap": bare, "operations only": [], "every instruction": []}
        for _ in range(bench.rounds(3)):
            for way, exact in (("operations only", False), ("every instruction", True)):
                spent = seconds(partial(timeline.all_hits, [point], exact=exact))
                found[way].append(spent / number * 1e6)
    yield Row(HITS, f"{number:,} writes", "us", found)


def last(bench: Bench) -> Iterator[Row]:
    number = bench.scaled(1_000_000) // 64 * 64
    found: dict[str, list[float]] = {}
    if bench.has("gdb", "GDB's own counting of writes"):
        some = min(GDB_WRITES, number)
        spent = seconds(lambda: counted_by_gdb(program(bench), some)) - seconds(
            lambda: counted_by_gdb(program(bench), 64)
        )
        found["GDB counts them, projected"] = [spent / (some - 64) * number]
    with opened(bench, ("writes", str(number)), "epochs.ticks=16") as timeline:
        timeline.seek(timeline.end).drop()
        point = written(bench)
        for cores, way in ((1, "gdbrr, one core"), (timeline._search.at_once, "gdbrr, all cores")):
            timeline._search.at_once = cores
            found[way] = [seconds(partial(timeline.last_hit, [point])) for _ in range(bench.rounds(3))]
    yield Row(LAST, f"the last of {number:,}", "s", found)


def cores(bench: Bench) -> Iterator[Row]:
    """A condition that only the first write meets: every epoch is run, and every write of it looked at."""
    number = bench.scaled(200_000) // 64 * 64
    with opened(bench, ("writes", str(number)), "epochs.ticks=16") as timeline:
        timeline.seek(timeline.end).drop()
        point, search = written(bench), timeline._search
        all_of_them = search.at_once
        busy: list[float] = []

        def sought(workers: int) -> float:
            search.at_once = workers
            with runnable() as spent:
                real = seconds(partial(timeline.last_hit, [point], condition=is_one(point.addr)))
            if workers > 1:
                busy.append(spent[0] / real / workers)
            return real

        ways = {"one worker": partial(sought, 1), "a worker for each core": partial(sought, all_of_them)}
        found = bench.interleaved(ways, bench.rounds(3), name="the first write")
    yield Row(CORES, f"the first of {number:,}", "s", found, {OCCUPIED: busy} if busy else {})


@contextlib.contextmanager
def runnable() -> Iterator[list[float]]:
    """Seconds that workers ran or waited for a processor: what they would have had where nobody else wanted one."""
    from gdbrr.timeline.worker import Worker

    drop, spent = Worker.drop, [0.0]

    def counted(process: Worker) -> None:
        if process.alive:
            times = Path(f"/proc/{process.pid}/schedstat").read_text().split()
            spent[0] += (int(times[0]) + int(times[1])) / 1e9
        drop(process)

    try:
        Worker.drop = counted  # type: ignore[method-assign, assignment]
        yield spent
    finally:
        Worker.drop = drop  # type: ignore[method-assign]


def is_one(addr: int) -> bytes:
    """Agent bytecode, as GDB compiles `*(int *) ADDR == 1`."""
    return b"\x25" + addr.to_bytes(8, "big") + b"\x19\x22\x01\x13\x27"


def counted_by_gdb(path: Path, number: int) -> Done:
    commands = ["set confirm off", "set pagination off", "break main", "run", "watch *(long *)&watched"]
    commands += [f"ignore 2 {number * 2}", "continue"]
    words = [word for command in commands for word in ("-ex", command)]
    return run(["gdb", "-nx", "-batch", *words, "--args", path, "writes", str(number)])


# ---------------------------------------------------------------- how long, and how far back
def lengths(bench: Bench) -> Iterator[Row]:
    for length in (1,) if bench.quick else (1, 10, 100) if bench.alone else (1, 10):
        with opened(bench, ("runs", str(length))) as timeline:
            first = seconds(lambda: timeline.seek(timeline.end).drop())
            point = written(bench)
            found = [seconds(partial(timeline.last_hit, [point])) * 1e3 for _ in range(bench.rounds(5))]
        others = {"first visit of the end, s": [first]}
        yield Row(LENGTH, f"{length} s", "ms", {"search": found}, others, x=length)


def behind(bench: Bench) -> Iterator[Row]:
    from gdbrr.timeline.checkpoints import Checkpoints

    epochs = EPOCHS // (6 if bench.quick else 1)
    with opened(bench, ("once", str(epochs)), "epochs.ticks=16", f"limits.checkpoints={epochs + 4}") as timeline:
        timeline.seek(timeline.end).drop()
        point, untouched = written(bench), Checkpoints.untouched
        found: dict[str, list[float]] = {"every epoch run": [], "epochs left out": []}
        for _ in range(bench.rounds(3)):
            try:
                Checkpoints.untouched = lambda *_: False  # type: ignore[method-assign]
                found["every epoch run"].append(seconds(partial(timeline.last_hit, [point])) * 1e3)
            finally:
                Checkpoints.untouched = untouched  # type: ignore[method-assign]
            found["epochs left out"].append(seconds(partial(timeline.last_hit, [point])) * 1e3)
    yield Row(BEHIND, f"in epoch 1 of {len(timeline.epochs)}", "ms", found)


def rows(bench: Bench) -> Iterator[Row]:
    for part in (checkpoints, hits, last, cores, lengths, behind):
        yield from part(bench)


if __name__ == "__main__":
    only(rows)
