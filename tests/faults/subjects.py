"""The programs that are recorded: those of tests/programs and real ones, in an order that replays them without faults.

Runs in: python -m faults, pytest. May call: harness, apps, gcc.
Owns: which arguments programs need, and which programs are of no use here, with the reason; the files of real ones.
"""

from __future__ import annotations

import functools
import random
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from apps.starts import missing, prepare
from apps.table import APPS
from faults.place import GDBRR, PATIENCE, Lost, Place
from harness import BUILD, programs

ARGUMENTS = {
    "busy": ("300",),
    "output_threads": ("4", "50"),
    "preempt": ("spin",),
    "signal_loop": ("0",),
    "libc_random": ("2",),
}
OF_NO_USE = {
    **dict.fromkeys(("sync_deadlock", "sync_deadlock_library", "runs_killed"), "it does not end"),
    "serves": "it waits for a client",
    **dict.fromkeys(
        ("tsc_own", "tsc_rate", "tsc_signal", "tsc_spin"),
        "it reads the time stamp counter, which only --set tsc=record records",
    ),
    "honest_nap": "it sleeps for a minute",
    "lingerer": "it stays when its test is over",
    "output_blocked": "it waits for who reads its output",
    "waits_in_read": "it waits for input",
    "outlaw": "it tries what replays refuse",
    "seeded_bugs": "it has bugs on purpose",
    "sandbox": "it takes its own rights away",
    "grows": "it takes all memory there is",
}
RACES = {
    **dict.fromkeys(
        ("turn_race", "turn_behind", "turn_fork", "preempt"),
        "it races on purpose, or waits for flags of its own: it replays alike only by luck",
    ),
    **dict.fromkeys(
        ("sync_cxx_future", "std::async", "glib", "node", "python-threads"),
        "it has atomics of its own, for which `--order auto` takes order serial",
    ),
}
"""In order `parallel`."""
REAL = ("xz", "pigz", "pbzip2", "zstd", "python-threads", "python-asyncio", "node", "git", "std::async", "glib")
"""Of tests/apps/table.py: who need nobody beside them, and leave no files of their own when they are killed."""
ORDERS = ("parallel", "serial", "random")


@dataclass(frozen=True)
class Subject:
    name: str
    order: str
    words: tuple[str, ...]
    status: int
    says_all: bool
    """Its replay prints all that it printed; not so where children of it print, too."""
    seconds: float
    """From its first instruction to the end of its recorder."""
    replay_seconds: float = 0.0
    """Of a whole one: a move of a debugger takes as long where there is no checkpoint yet."""

    def patience(self, moves: int) -> float:
        """Seconds for MOVES, the machine being busy."""
        return PATIENCE + 3 * moves * self.replay_seconds


def every() -> list[str]:
    found = {path.stem for path in programs.SOURCES.iterdir() if path.suffix in (".c", ".cc")}
    return sorted(found - set(OF_NO_USE)) + [name for name in REAL if not missing(APPS[name])]


def one_of(rng: random.Random) -> tuple[str, str]:
    """A program and an order; a real one every fourth time, of which there are fewer."""
    some = every()
    real = [name for name in some if name in APPS]
    name = rng.choice(real if real and rng.random() < 0.25 else some)
    return name, rng.choice([order for order in ORDERS if order != "parallel" or name not in RACES])


def words_of(name: str) -> tuple[str, ...]:
    if name not in APPS:
        return (str(program(name)), *ARGUMENTS.get(name, ()))
    here = BUILD / "faulted" / name.replace(":", "-")
    here.mkdir(parents=True, exist_ok=True)
    first, *others = prepare(APPS[name], here)
    return (str(shutil.which(first)), *others)


@functools.cache
def program(name: str) -> Path:
    return programs.build(name, ("-ldl",))


def subject(name: str, order: str, place: Place) -> Subject | str:
    """NAME as it is while nothing goes wrong; or why it is of no use in ORDER."""
    words = words_of(name)
    demo = place.kept / "sound.demo"
    try:
        start = place.start(*GDBRR, "record", "--order", order, "-o", demo, "--", *words)
        place.program_of(words[0], start)
        begun = time.monotonic()
        first = start.wait()
        seconds = time.monotonic() - begun
        if not demo.exists():
            return first.said() or f"status {first.status}"
        begun = time.monotonic()
        again = place.run(*GDBRR, "replay", demo)
        replayed = time.monotonic() - begun
        twice = place.run(*GDBRR, "replay", demo)
    except Lost as error:
        return str(error).splitlines()[0]
    if (again.status, twice.status) != (first.status, first.status):
        return f"status {first.status}, replayed {again.status}: {again.said()}"
    says_all = first.out == again.out == twice.out
    return Subject(name, order, words, first.status, says_all, seconds, replayed)
