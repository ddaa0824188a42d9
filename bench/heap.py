"""What allocating costs when it is recorded, in time and in memory, against the C library's allocator.

Runs in: python -m bench. May call: gcc, gdbrr.
Owns: the cases of bench/c/heap.c.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench.kit import Bench, Row, only, record, run

TIME, MEMORY = "heap: processor time a block", "heap: peak of resident memory"
CASES = [
    ("private", 1, 2_000_000),
    ("private", 2, 2_000_000),
    ("private", 4, 1_000_000),
    ("mixed", 2, 1_000_000),
    ("handed", 2, 2_000_000),
    ("handed", 4, 1_000_000),
    ("pair", 2, 500_000),
    ("churn", 4, 2_000_000),
]


def rows(bench: Bench) -> Iterator[Row]:
    program, demo = bench.compile("heap"), bench.scratch / "heap.demo"
    for what, threads, rounds in CASES:
        words: list[str | Path] = [program, what, str(threads), str(bench.scaled(rounds))]
        peaks: dict[str, list[float]] = {"glibc": [], "recorded": []}

        def time_of(way: str, out: str, peaks: dict[str, list[float]] = peaks) -> float:
            ns, peak = out.split()
            peaks[way].append(int(peak) / 1000)
            return float(ns)

        ways = {
            "glibc": lambda words=words, time_of=time_of: time_of("glibc", run(words).out),
            "recorded": lambda words=words, time_of=time_of: time_of("recorded", record(demo, (), words).out),
        }
        found = bench.interleaved(ways, bench.rounds(3))
        yield Row(TIME, f"{what}, {threads} threads", "ns", found)
        yield Row(MEMORY, f"{what}, {threads} threads", "MB", peaks)


if __name__ == "__main__":
    only(rows)
