"""Real programs: how long they take natively, recorded, replayed, and under other tools; and how large their demos are.

Runs in: python -m bench. May call: what is listed here and installed.
Owns: the list, and what the programs are fed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.kit import ROOT, Bench, Row, only, record, replay, run
from bench.ways import AGAIN, PARALLEL, PEERS, SERIAL, SERIAL_AGAIN, STRACE, VALGRIND

TABLE = "programs: time"
PYTHON = "/usr/bin/python3"  # on PATH there may be a shim that executes another program

COMPUTE = "import json; print(sum(len(json.dumps([n, str(n), {n: n * 1.5}])) for n in range({rounds})))"
THREADS = """
import queue, threading
give, take = queue.Queue(8), queue.Queue(8)
def work():
    while (n := give.get()) is not None: take.put(n * n)
threads = [threading.Thread(target=work) for _ in range(2)]
[t.start() for t in threads]
def feed():
    for n in range({rounds}): give.put(n)
    for _ in threads: give.put(None)
threading.Thread(target=feed).start()
print(sum(take.get() for _ in range({rounds})))
"""
SQL = (
    "pragma journal_mode=wal; create table t(a integer primary key, b, c);"
    "with recursive n(x) as (select 1 union all select x + 1 from n where x < {rounds})"
    " insert into t select x, random() % 100000, hex(randomblob(8)) from n;"
    "create index i on t(b); select count(*), sum(a) from t where b % 7 = 3; select c from t order by c limit 1;"
)


@dataclass(frozen=True)
class Program:
    name: str
    words: tuple[str, ...]
    """{here} is a scratch directory with the files `small` and `large`, {rounds} is `work`."""
    work: int = 0
    before: tuple[str, ...] = ()
    """Files in {here} that must not be there."""


PROGRAMS = (
    Program("xz -T2", ("xz", "-1", "-T2", "-kf", "--block-size=256KiB", "{here}/small")),
    Program("pbzip2 -p2", ("pbzip2", "-p2", "-b1", "-kf", "{here}/small")),
    Program("zstd -T2", ("zstd", "-q", "-9", "-T2", "-kf", "{here}/large")),
    Program("pigz -p2", ("pigz", "-p2", "-kf", "{here}/large")),
    Program("sqlite3, a file", ("sqlite3", "{here}/db", SQL), work=60_000, before=("db", "db-wal", "db-shm")),
    Program("python3, computing", (PYTHON, "-c", COMPUTE), work=60_000),
    Program("python3, a queue", (PYTHON, "-c", THREADS), work=4_000),
    Program("git log --stat", ("git", "-C", "{root}", "log", "--stat", "-n", "150")),
    Program("ls -lR", ("ls", "-lR", "/usr/include", "/usr/lib/python3")),
)


class Case:
    def __init__(self, bench: Bench, program: Program, here: Path) -> None:
        self.program, self.here, self.bench = program, here, bench
        places = {"here": str(here), "root": str(ROOT), "rounds": str(bench.scaled(program.work))}
        self.words = list(program.words)
        for place, value in places.items():
            self.words = [word.replace("{" + place + "}", value) for word in self.words]
        self.sizes: list[float] = []

    def clean(self) -> None:
        for name in self.program.before:
            (self.here / name).unlink(missing_ok=True)

    def demo(self, order: str) -> Path:
        return self.bench.scratch / f"program-{order}.demo"

    def run(self, *before: str, core: int | None = None) -> float:
        self.clean()
        return run([*before, *self.words], core=core).seconds * 1e3

    def recorded(self, order: str) -> float:
        self.clean()
        done = record(self.demo(order), (f"order={order}",), self.words)
        if order == PARALLEL:
            self.sizes.append(self.demo(order).stat().st_size / 1000)
        return done.seconds * 1e3

    def replayed(self, order: str) -> float:
        return replay(self.demo(order)).seconds * 1e3

    def ways(self) -> dict[str, Callable[[], float]]:
        found: dict[str, Callable[[], float]] = {"native": self.run, "native, one core": partial(self.run, core=0)}
        found[PARALLEL] = partial(self.recorded, PARALLEL)
        found[AGAIN] = partial(self.replayed, PARALLEL)
        found[SERIAL] = partial(self.recorded, SERIAL)
        found[SERIAL_AGAIN] = partial(self.replayed, SERIAL)
        tools = {STRACE: ("strace", "-f", "-o", "/dev/null"), VALGRIND: ("valgrind", "--tool=none", "-q")}
        for way, words in tools.items():
            if self.bench.has(PEERS[way], way):
                found[way] = partial(self.run, *words)
        return found


def rows(bench: Bench) -> Iterator[Row]:
    here = bench.scratch / "programs"
    here.mkdir()
    numbers = "".join(f"{i * 7919 % 1000003}\n" for i in range(bench.scaled(500_000)))
    (here / "large").write_text(numbers)
    (here / "small").write_text(numbers[: len(numbers) // 3])
    for program in PROGRAMS:
        if bench.has(program.words[0], program.name):
            case = Case(bench, program, here)
            found = bench.interleaved(case.ways(), bench.rounds(2), once=(STRACE, VALGRIND), name=program.name)
            yield Row(TABLE, program.name, "ms", found, {"demo, kB": case.sizes})


if __name__ == "__main__":
    only(rows)
