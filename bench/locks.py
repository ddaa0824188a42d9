"""What a pair of lock and unlock, or wait and post, costs, for each way to write the order down (--order-log).

Runs in: python -m bench. May call: gcc, gdbrr.
Owns: the cases of bench/c/locks.c.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from bench.kit import Bench, Row, only, record, run

WAYS = ("clock", "object", "reduced", "transitive")
TIME, REAL, SIZE = "locks: processor time a pair", "locks: real time a pair", "locks: bytes of demo an operation"
CASES = (
    ("a lock of its own, 2 threads", "private", 2, 2_000_000),
    ("a lock of its own, 4 threads", "private", 4, 1_000_000),
    ("one lock, 2 threads", "shared", 2, 1_000_000),
    ("one lock, 4 threads", "shared", 4, 500_000),
    ("computing, one lock, 2 threads", "compute", 2, 50_000),
    ("computing, one lock, 4 threads", "compute", 4, 25_000),
    ("a spinlock of its own, 2 threads", "spin", 2, 1_000_000),
    ("a semaphore of its own, 2 threads", "sem", 2, 1_000_000),
    ("reading under one lock, 2 threads", "read", 2, 1_000_000),
)


class Pair:
    """One case; collects what comes beside the processor's time."""

    def __init__(self, words: Sequence[str | Path], demo: Path) -> None:
        self.words, self.demo = words, demo
        self.real: dict[str, list[float]] = {way: [] for way in ("native", *WAYS)}
        self.sizes: dict[str, list[float]] = {way: [] for way in WAYS}

    def time_of(self, way: str, out: str) -> float:
        used, passed = (float(word) for word in out.split())
        self.real[way].append(passed)
        return used

    def native(self) -> float:
        return self.time_of("native", run(self.words).out)

    def recorded(self, way: str) -> float:
        done = record(self.demo, (f"order_log={way}",), self.words)
        operations = re.search(r"recorded ([\d,]+) operations", done.err)
        assert operations, done.err
        self.sizes[way].append(self.demo.stat().st_size / int(operations[1].replace(",", "")))
        return self.time_of(way, done.out)


def rows(bench: Bench) -> Iterator[Row]:
    program, demo = bench.compile("locks"), bench.scratch / "locks.demo"
    for title, what, threads, rounds in CASES:
        pair = Pair([program, what, str(threads), str(bench.scaled(rounds))], demo)
        ways: dict[str, Callable[[], float]] = {"native": pair.native}
        ways.update({way: partial(pair.recorded, way) for way in WAYS})
        used = bench.interleaved(ways, bench.rounds(3))
        yield Row(TIME, title, "ns", used)
        yield Row(REAL, title, "ns", pair.real)
        yield Row(SIZE, title, "bytes", pair.sizes, compared=False)


if __name__ == "__main__":
    only(rows)
