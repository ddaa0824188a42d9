"""Kernels of the shapes of PARSEC, SPLASH-2 and Phoenix, and compressors of theirs, against one core and two.

Runs in: python -m bench. May call: bench/net.py, pbzip2.
Owns: how much each of them does: 0.3 s or more.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.kit import Bench, Row, only
from bench.net import Net

SHAPES = {"cells": 600, "grid": 8000, "fork": 100, "pipeline": 6000, "tasks": 300_000, "reduce": 300, "rotate": 2500,
          "sweep": 1000}  # fmt: skip
IDLE = ("reduce", "0")
"""Makes threads, joins them, and does nothing else."""
SAID = {
    "cells": "cells: a lock for each of 4,096",
    "grid": "grid: a barrier a step",
    "fork": "fork: threads for each phase",
    "pipeline": "pipeline: bounded queues",
    "tasks": "tasks: one queue of work",
    "reduce": "reduce: own counts, then a lock",
    "rotate": "rotate: a condition hands the phase on",
    "sweep": "sweep: a semaphore for each row",
}
THREADS = "4"
LOCKS = ("locks: 8 million operations of 4 threads", ("private", THREADS, "1000000"))
PBZIP2 = 40_000_000
"""Bytes; the published figure is of ten times as many."""


def rows(bench: Bench) -> Iterator[Row]:
    program, locks = bench.compile("kernels"), bench.compile("locks")
    idle = [program, IDLE[0], THREADS, IDLE[1]]
    for name, work in SHAPES.items():
        words = [program, name, THREADS, str(bench.scaled(work))]
        yield from Net(bench, SAID[name], words, idle).rows("kernels", bench.rounds(5))
    yield from Net(bench, LOCKS[0], [locks, *LOCKS[1]], idle).rows("kernels, apart", bench.rounds(5))
    if bench.has("pbzip2"):
        file = bench.scratch / "pbzip2.txt"
        numbers = "".join(f"{i * 7919 % 1000003}\n" for i in range(100_000))
        file.write_text(numbers * (bench.scaled(PBZIP2) // len(numbers)))
        words = ["pbzip2", "-p2", "-kf", file]
        yield from Net(bench, "pbzip2 -p2 of 40 MB", words, idle).rows("kernels, apart", bench.rounds(2))


if __name__ == "__main__":
    only(rows)
