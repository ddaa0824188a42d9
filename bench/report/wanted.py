"""What the figures were meant to be, and whether they are: the table of docs/performance.md is made from here.

Runs in: python -m bench, pytest. May call: figures.py.
Owns: the limits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import geometric_mean

from bench.report.figures import Results, median, number, ratio, times

HEAD = ["wanted", "is", ""]
Figure = Callable[[Results], "float | None"]


@dataclass(frozen=True)
class Wanted:
    text: str
    figure: Figure
    limit: float
    unit: str = ""
    least: bool = False
    """The limit is one from below."""
    why: str = ""
    """Shown where it is missed."""

    def line(self, results: Results) -> list[str] | None:
        found = self.figure(results)
        if found is None:
            return None
        reached = found >= self.limit if self.least else found <= self.limit
        text = f"{times(found)}\N{MULTIPLICATION SIGN}" if not self.unit else f"{number(found)} {self.unit}"
        return [self.text, text, "reached" if reached else f"not reached{': ' if self.why else ''}{self.why}"]


def times_of(table: str, name: str, way: str, base: str | None = None) -> Figure:
    """How many times BASE's (the first way's) WAY takes."""

    def find(results: Results) -> float | None:
        row = results.row(table, name)
        return ratio(row, way, base) if row else None

    return find


def figure(table: str, name: str, way: str) -> Figure:
    def find(results: Results) -> float | None:
        row = results.row(table, name)
        some = {**row.values, **row.others}.get(way) if row else None
        return median(some) if some else None

    return find


def either(*figures: Figure) -> Figure:
    """The first one that there is."""
    return lambda results: next((found for each in figures if (found := each(results)) is not None), None)


def more(table: str, name: str, way: str) -> Figure:
    """By how much WAY is above the first way."""

    def find(results: Results) -> float | None:
        row = results.row(table, name)
        if not row or not row.values.get(way):
            return None
        return median(row.values[way]) - median(next(iter(row.values.values())))

    return find


def grown(table: str, name: str, larger: str, way: str) -> Figure:
    """How many times the WAY of row NAME that of row LARGER is."""

    def find(results: Results) -> float | None:
        both = [figure(table, each, way)(results) for each in (name, larger)]
        return both[1] / both[0] if both[0] and both[1] else None

    return find


CALLS, START, LARGE = "door: calls", "door: the start", "door: large reads"
PAIR, REAL = "locks: processor time a pair", "locks: real time a pair"
MADE, IDLE, LAND = "timeline: a checkpoint", "timeline: an idle checkpoint", "timeline: landing on a known moment"
HIT, LAST = "timeline: a hit of a history", "timeline: the last of many writes"
CORES = "timeline: a search over all epochs"
WARM, PROMPT = "gdb: commands in a warm session", "gdb: the first prompt"
STOP, LONG = "gdb: the first stop", "hours: a long recording"
PIECES, HAND_OVER, MODERATE = "work: small pieces", "one hand-over: each yields", "computing with moderate locking"
ONE_CORE, SERIAL, SERIAL_AGAIN = "native, one core", "serial", "serial's replay"
WHOLE, USED, SPEED = "door: a run as a whole", "servers: processor time a request", "servers: requests a second"
HEAP, PEAK = "heap: processor time a block", "heap: peak of resident memory"

FILES, KERNELS, APART = "large files: processor time", "kernels: real time", "kernels, apart: processor time"
KERNELS_USED = "kernels: processor time"
LARGE_FILES = (
    "wc of 100 MB",
    "words of 100 MB, read in 64 KiB",
    "words of 100 MB, read in 4 KiB",
    "words of 100 MB, mapped",
    "words of 100 MB, 4 threads that share a mapping",
    "words of 100 MB, 4 threads with a mapping each",
)


def together(table: str, way: str, base: str) -> Figure:
    """The geometric mean of what WAY takes of BASE, over all rows of a table."""

    def find(results: Results) -> float | None:
        found = [ratio(row, way, base) for row in results.tables().get(table, ())]
        some = [each for each in found if each]
        return geometric_mean(some) if some else None

    return find


def most(table: str, way: str, part: str) -> Figure:
    """The largest figure of WAY in the rows whose name begins with PART."""

    def find(results: Results) -> float | None:
        rows = [row for row in results.tables().get(table, ()) if row.name.startswith(part)]
        found = [median(some) for row in rows if (some := {**row.values, **row.others}.get(way))]
        return max(found) if found else None

    return find


ALL = (
    Wanted("computing at most 1.02 times", times_of(CALLS, "computing", "recorded"), 1.02),
    Wanted(
        "a call of an ignored class at most 60 ns more", more(CALLS, "getppid, ignored class", "recorded"), 60, "ns"
    ),
    Wanted("a call of a native class at most 60 ns more", more(CALLS, "getppid, native class", "recorded"), 60, "ns"),
    Wanted(
        "a recorded small call at most 110 ns more, plus the copy: one that asks",
        more(CALLS, "getppid, recorded", "recorded"),
        110,
        "ns",
    ),
    Wanted(
        "the same: `read` of 64 bytes from a pipe",
        more(CALLS, "read of 64 bytes from a pipe", "recorded"),
        110,
        "ns",
        why="see where the time goes",
    ),
    Wanted("`clock_gettime` recorded at most 40 ns", figure(CALLS, "clock_gettime, recorded", "recorded"), 40, "ns"),
    Wanted(
        "large reads at 2 GB/s or more into the log",
        figure(LARGE, "pread of 1 MiB", "recorded"),
        2,
        "GB/s",
        least=True,
        why="the host has to find each page, see the door",
    ),
    Wanted(
        "ping-pong of two threads at most 2 times to record",
        times_of(CALLS, "two threads, pipe ping-pong", "recorded"),
        2,
    ),
    Wanted("and at most 2 times to replay", times_of(CALLS, "two threads, pipe ping-pong", "replayed"), 2),
    Wanted(
        "in one thread 1.5 times",
        times_of(CALLS, "one thread, pipe, two calls", "recorded"),
        1.5,
        why="twice the cost of a small call",
    ),
    Wanted(
        "one thread, 400,000 pipe calls, with packing: 1.3 times of real time",
        times_of(WHOLE, "one thread, 400,000 pipe calls", "recorded"),
        1.3,
        why="see where the time goes",
    ),
    Wanted(
        "redis, processor time a request: 1.10 times",
        times_of(USED, "redis", "parallel"),
        1.10,
        why="see what a server does more",
    ),
    *(
        Wanted(
            f"{server}, requests a second: 0.90 of the native ones",
            times_of(SPEED, server, "parallel"),
            0.90,
            least=True,
            why="see what a server does more",
        )
        for server in ("redis", "memcached, 4 threads", "nginx")
    ),
    Wanted("recording `true` at most 20 ms", figure(START, "recorded", "real time"), 20, "ms", why="see the start"),
    Wanted("replaying it at most 20 ms", figure(START, "replayed", "real time"), 20, "ms", why="see the start"),
    Wanted(
        "`rr-start` to the first stop at most 1.3 times `start`",
        times_of(STOP, "of the same program", "rr-start"),
        1.3,
        why="see the first stop",
    ),
    Wanted(
        "ten times the log: the memory of its recorder at most 1.5 times",
        grown(LONG, "60,000 requests", "600,000 requests", "while packing"),
        1.5,
    ),
    *(
        wanted
        for n in (2, 4)
        for wanted in (
            Wanted(
                f"an uncontended pair of lock and unlock, {n} threads: 1.15 times",
                times_of(PAIR, f"a lock of its own, {n} threads", "transitive"),
                1.15,
            ),
            Wanted(
                f"a contended pair, {n} threads: 1.3 times, of real time",
                times_of(REAL, f"one lock, {n} threads", "transitive"),
                1.3,
            ),
            Wanted(
                f"computing with moderate locking, {n} threads: 1.03 times",
                times_of(PAIR, f"computing, one lock, {n} threads", "transitive"),
                1.03,
            ),
        )
    ),
    Wanted(
        "the order serial at most 1.05 times one core, computing with moderate locking",
        times_of(PIECES, MODERATE, SERIAL, ONE_CORE),
        1.05,
    ),
    Wanted("and its replay 1.2 times", times_of(PIECES, MODERATE, SERIAL_AGAIN, ONE_CORE), 1.2),
    Wanted("a hand-over of a replay at most 3,000 ns", figure(PIECES, HAND_OVER, SERIAL_AGAIN), 3000, "ns"),
    *(
        Wanted(
            f"{name}: recorded at most 1.15 times, of processor time",
            times_of(FILES, name, "recorded"),
            1.15,
            why="the controller's start beside a short program, and two questions for each call, see large files",
        )
        for name in LARGE_FILES
    ),
    Wanted(
        "and a demo of less than 1 MB",
        most("large files: real time", "demo, kB", ""),
        1000,
        "kB",
    ),
    Wanted(
        "kernels of 0.3 s or more recorded at most 1.03 times, geometric mean of real time",
        together(KERNELS, "recorded", "native"),
        1.03,
        why="tasks of 2 us whose lock is fought for, see the kernels",
    ),
    Wanted(
        "their replay at most 1.05 times one core, of processor time",
        together(KERNELS_USED, "replayed", ONE_CORE),
        1.05,
        why="the same: each hand-over is two calls, see the kernels",
    ),
    Wanted(
        "the replay of 8 million operations on locks at most 150 ms",
        figure(APART, "locks: 8 million operations of 4 threads", "replayed"),
        150,
        "ms",
    ),
    Wanted("allocating, 2 threads: 1.1 times", times_of(HEAP, "private, 2 threads", "recorded"), 1.1),
    Wanted("with 1.3 times the memory", times_of(PEAK, "private, 2 threads", "recorded"), 1.3),
    Wanted("the same with threads that hand blocks on: the time", times_of(HEAP, "handed, 2 threads", "recorded"), 1.1),
    Wanted("and the memory", times_of(PEAK, "handed, 2 threads", "recorded"), 1.3),
    *(
        Wanted(
            f"a checkpoint of {size} MB at most 1.3 times a bare fork of the same process",
            either(
                times_of(MADE, f"{size} MB resident", "checkpoint", "a bare clone of the replay"),
                times_of(MADE, f"{size} MB resident", "checkpoint"),
            ),
            1.3,
            why="asking for it takes as long whatever its size",
        )
        for size in (10, 100, 1000)
    ),
    Wanted("an idle checkpoint of 100 MB: 1 MB of its own", figure(IDLE, "100 MB resident", "its own pages"), 1, "MB"),
    Wanted("landing 10 ms behind a checkpoint of 10 MB: 40 ms", figure(LAND, "10 MB resident", "landing"), 40, "ms"),
    Wanted("the same with 100 MB", figure(LAND, "100 MB resident", "landing"), 40, "ms"),
    Wanted(
        "a hit of a history at most 1.5 times its trap: its operation",
        times_of(HIT, "99,968 writes", "operations only"),
        1.5,
    ),
    Wanted(
        "the same: its instruction",
        times_of(HIT, "99,968 writes", "every instruction"),
        1.5,
        why="the moment of each is an object of its own",
    ),
    Wanted(
        "the last of 1,000,000 writes on one core: a fifth of GDB's own counting",
        times_of(LAST, "the last of 1,000,000", "gdbrr, one core"),
        0.2,
    ),
    Wanted(
        "a search over all epochs has work for 0.9 of the cores",
        figure(CORES, "the first of 200,000", "cores that have work, of all"),
        0.9,
        "of all",
        least=True,
    ),
    Wanted("`rr-back` at most 100 ms", figure(WARM, "rr-back", "time"), 100, "ms"),
    Wanted("`reverse-stepi` at most 100 ms", figure(WARM, "reverse-stepi", "time"), 100, "ms"),
    Wanted("`reverse-step` at most 100 ms", figure(WARM, "reverse-step", "time"), 100, "ms"),
    Wanted("`reverse-next` at most 100 ms", figure(WARM, "reverse-next", "time"), 100, "ms"),
    Wanted(
        "`rr-back -w`, written in the last epoch, at most 300 ms",
        figure(WARM, "rr-back -w, from the end", "time"),
        300,
        "ms",
    ),
    Wanted(
        "the first prompt of `gdbrr debug` at most 1,500 ms behind GDB's own",
        more(PROMPT, "of the same program", "gdbrr debug"),
        1500,
        "ms",
    ),
)


def lines(results: Results) -> list[list[str]]:
    return [line for each in ALL if (line := each.line(results))]
