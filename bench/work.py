"""Small pieces of work in every way that can run here: computing, calls, allocation, hand-over, locks, shared counters.

Runs in: python -m bench. May call: bench/ways.py.
Owns: the pieces, and the knobs of the shared-counter program.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bench.kit import Bench, Row, only
from bench.ways import GDB, PEERS, Work

PIECES, COUNTER, DEMO = "work: small pieces", "work: shared counters", "demo, bytes a round"
HAND_OVER, MODERATE = "one hand-over: each yields", "computing with moderate locking"


@dataclass(frozen=True)
class Piece:
    name: str
    source: str
    words: tuple[str, ...]
    rounds: int
    gdb: int = 0
    """Rounds under GDB's recorder; none where there are threads: it does not know `clone3`."""
    threads: int = 1


SMALL = (
    Piece("computing", "door", ("compute", "real"), 100_000_000, gdb=2000),
    Piece("a call that asks", "door", ("getppid", "real"), 300_000, gdb=500),
    Piece("read of 64 bytes", "door", ("read", "real"), 1 << 18, gdb=1024),
    Piece("open and close", "door", ("open", "real"), 100_000, gdb=100),
    Piece("pipe ping-pong of two threads", "door", ("threads",), 20_000),
    Piece("token through a condition", "handover", (), 20_000),
    Piece(HAND_OVER, "handover", ("yield",), 100_000),
    Piece(MODERATE, "counter", ("2", "8", "2", "0", "2000"), 100_000, threads=2),
)


@dataclass(frozen=True)
class Knobs:
    """What the shared-counter program of the literature turns: one at a time, from a middle position."""

    threads: int = 2
    counters: int = 8
    fields: int = 2
    reads: int = 0
    work: int = 20

    def words(self) -> tuple[str, ...]:
        return tuple(str(value) for value in (self.threads, self.counters, self.fields, self.reads, self.work))


MIDDLE = Knobs()
TURNED = {
    "2 threads, 8 counters of 2 fields": MIDDLE,
    "4 threads": Knobs(threads=4),
    "1 counter": Knobs(counters=1),
    "1,000 counters": Knobs(counters=1000),
    "8 fields a counter": Knobs(fields=8),
    "90 of 100 accesses read": Knobs(reads=90),
    "no locks: a data race": Knobs(reads=-1),
    "500 steps of computing between": Knobs(work=500),
}


def rows(bench: Bench) -> Iterator[Row]:
    bench.left_out.append(f"{GDB} of programs with threads: it does not know clone3, and gives up")
    for piece in SMALL:
        work = Work(bench, piece.source, piece.words, bench.scaled(piece.rounds), piece.name, piece.gdb, piece.threads)
        found = work.measure(bench.rounds(3), [peer for peer in PEERS if peer != GDB or piece.gdb])
        yield Row(PIECES, piece.name, "ns", found, {DEMO: work.sizes})
    for name, knobs in TURNED.items():
        rounds = 200_000 // max(1, knobs.threads // 2) // (1 if knobs.work < 100 else 4)
        work = Work(bench, "counter", knobs.words(), bench.scaled(rounds), name, threads=knobs.threads)
        peers = [peer for peer in PEERS if peer != GDB] if knobs is MIDDLE else []
        yield Row(COUNTER, name, "ns", work.measure(bench.rounds(3), peers), {DEMO: work.sizes})


if __name__ == "__main__":
    only(rows)
