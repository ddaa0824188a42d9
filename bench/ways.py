"""The same work natively, recorded, replayed, and under other tools that could answer the same questions.

Runs in: python -m bench. May call: gdbrr, strace, gdb, valgrind, a program made with gcc's thread sanitizer.
Owns: how each tool is called, and how much less work the slow ones get.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.kit import Bench, Failed, record, replay, run

PARALLEL, SERIAL, AGAIN, SERIAL_AGAIN = "parallel", "serial", "replay", "serial's replay"
STRACE, VALGRIND, SANITIZER, GDB = "strace -f", "valgrind --tool=none", "gcc -fsanitize=thread", "gdb record full"
PEERS = {STRACE: "strace", VALGRIND: "valgrind", SANITIZER: "gcc", GDB: "gdb"}
LESS = {STRACE: 20, VALGRIND: 10, SANITIZER: 4}
"""By so much the rounds of a slow tool are fewer; figures are for a round."""

# GDB 13 records neither AVX instructions nor xsave: the C library is told not to use them.
NO_VECTORS = ",".join(
    f"-{name}"
    for name in "AVX AVX_Fast_Unaligned_Load AVX2 AVX512F AVX512VL AVX512BW ERMS FSRM XSAVE XSAVEC RTM".split()
)
GDB_WORDS = [
    "set pagination off",
    f"set environment GLIBC_TUNABLES=glibc.cpu.hwcaps={NO_VECTORS}",
    "set environment LD_BIND_NOW=1",
    "set record full stop-at-limit off",
    "break main",
    "run",
    "record full",
    "continue",
]
FIGURE = re.compile(r"^(\d+\.\d+)$", re.MULTILINE)


@dataclass
class Work:
    """A program of bench/c that takes its rounds last and prints nanoseconds of real time a round."""

    bench: Bench
    source: str
    words: Sequence[str]
    rounds: int
    name: str = ""
    gdb: int = 0
    """Rounds under GDB, which takes a hundred microseconds for each instruction."""
    threads: int = 1
    """That do these rounds each, where the program prints the time of one round of one of them."""
    starts: dict[str, float] = field(default_factory=dict)
    sizes: list[float] = field(default_factory=list)

    def program(self, sanitized: bool = False) -> Path:
        if sanitized:
            return self.bench.compile(self.source, "-fsanitize=thread", name=f"{self.source}.tsan")
        return self.bench.compile(self.source)

    def command(self, way: str = "") -> list[str]:
        rounds = self.gdb if way == GDB else max(1, self.rounds // LESS.get(way, 1))
        return [str(self.program(way == SANITIZER)), *self.words, str(rounds)]

    def demo(self, order: str) -> Path:
        return self.bench.scratch / f"work-{order}.demo"

    def recorded(self, order: str) -> float:
        demo = self.demo(order)
        if order not in self.starts:  # what a replay of one round takes is not the rounds'
            record(demo, (f"order={order}",), [*self.command()[:-1], "1"])
            self.starts[order] = min(replay(demo).seconds for _ in range(2))
        out = record(demo, (f"order={order}",), self.command()).out
        if order == PARALLEL:
            self.sizes.append(demo.stat().st_size / self.rounds / self.threads)
        return figure(out)

    def replayed(self, order: str) -> float:
        return max(0.0, replay(self.demo(order)).seconds - self.starts[order]) * 1e9 / self.rounds / self.threads

    def under(self, peer: str) -> float:
        before = {
            STRACE: ["strace", "-f", "-o", "/dev/null"],
            VALGRIND: ["valgrind", "--tool=none", "-q"],
            SANITIZER: ["setarch", "-R"],  # it cannot place its memory where the kernel's choice is too random
            GDB: ["gdb", "-nx", "-batch", *(word for line in GDB_WORDS for word in ("-ex", line)), "--args"],
        }[peer]
        return figure(run([*before, *self.command(peer)]).out)

    def ways(self, peers: Sequence[str], pinned: bool = True) -> dict[str, Callable[[], float]]:
        found: dict[str, Callable[[], float]] = {"native": lambda: figure(run(self.command()).out)}
        if pinned:
            found["native, one core"] = lambda: figure(run(self.command(), core=0).out)
        found[PARALLEL] = lambda: self.recorded(PARALLEL)
        found[AGAIN] = lambda: self.replayed(PARALLEL)
        found[SERIAL] = lambda: self.recorded(SERIAL)
        found[SERIAL_AGAIN] = lambda: self.replayed(SERIAL)
        for peer in peers:
            if self.bench.has(PEERS[peer], peer):
                found[peer] = lambda peer=peer: self.under(peer)  # type: ignore[misc]
        return found

    def measure(self, rounds: int, peers: Sequence[str], pinned: bool = True) -> Mapping[str, Sequence[float]]:
        return self.bench.interleaved(self.ways(peers, pinned), rounds, once=(*LESS, GDB), name=self.name)


def figure(out: str) -> float:
    found = FIGURE.findall(out)
    if not found:
        raise Failed(f"no figure in what was printed:\n{out[-1000:]}")
    return float(found[-1])
