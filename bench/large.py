"""Programs that read or map a large file, to which a demo refers.

Runs in: python -m bench. May call: bench/net.py, wc.
Owns: the file.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from bench.kit import Bench, Row, only
from bench.net import Net

SIZE = 100_000_000
SETTLED = 0.2
"""Seconds behind which the file counts as one that does not change any more."""
WAYS = {
    "words of 100 MB, read in 64 KiB": ("read", "1"),
    "words of 100 MB, read in 4 KiB": ("stdio", "1"),
    "words of 100 MB, mapped": ("map", "1"),
    "words of 100 MB, 4 threads that share a mapping": ("share", "4"),
    "words of 100 MB, 4 threads with a mapping each": ("each", "4"),
}


def rows(bench: Bench) -> Iterator[Row]:
    program, file = bench.compile("words"), bench.scratch / "words.txt"
    line = " ".join(f"{n * 7919 % 1000003:x}" for n in range(2000)) + "\n"
    file.write_text(line * (bench.scaled(SIZE) // len(line)))
    time.sleep(SETTLED)
    nets = [(Net(bench, "wc of 100 MB", ["wc", file]))] if bench.has("wc") else []
    empty = bench.scratch / "empty.txt"
    empty.write_text("\n")
    nets += [Net(bench, name, [program, *words, file], [program, *words, empty]) for name, words in WAYS.items()]
    for net in nets:
        yield from net.rows("large files", bench.rounds(5))


if __name__ == "__main__":
    only(rows)
