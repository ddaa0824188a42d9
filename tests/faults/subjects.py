"""The programs that are recorded: those of tests/programs and real ones, in an order that replays them without faults.

Runs in: python -m faults, pytest. May call: harness, apps, gcc.
Owns: which arguments programs need, and which programs are of no use here, with the reason; the files of real ones.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import random
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from apps.starts import missing, prepare
from apps.table import APPS, App
from faults.company import beside, free_port
from faults.place import GDBRR, PATIENCE, Lost, Place, Running
from gdbrr.demo.guess import order_for
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
RACES = dict.fromkeys(
    ("turn_race", "turn_behind", "turn_fork", "preempt"),
    "it races on purpose, or waits for flags of its own: it replays alike only by luck",
)
"""In order `parallel`, and not seen by `--order auto`."""
REAL_OF_NO_USE = {
    **dict.fromkeys(("sort", "gcc"), "its own temporary files stay when it is killed"),
    **dict.fromkeys(("java", "sdl-xvfb"), "it takes many seconds, and a round has dozens of its replays"),
    "vim": "vim in a terminal is tried",
}
REAL = tuple(name for name in APPS if name not in REAL_OF_NO_USE)
"""Of tests/apps/table.py: servers with their clients, editors with somebody who types, and who needs nobody."""
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
    app: App | None = None

    def patience(self, moves: int) -> float:
        """Seconds for MOVES, the machine being busy."""
        return PATIENCE + 3 * moves * self.replay_seconds

    def recording(self, place: Place, demo: str | Path, *options: str, before: Sequence[str | Path] = ()) -> Running:
        """One that has begun, with all who belong to it."""
        sets = self.app.sets if self.app else ()
        words = (*GDBRR, "record", "--order", self.order, *sets, *options, "-o", demo, "--", *self.words)
        return self.start(place, *words, before=before)

    def start(self, place: Place, *words: str | Path, before: Sequence[str | Path] = ()) -> Running:
        """WORDS, which start the program; it finds what its last run found."""
        if not self.app:
            return place.start(*words, before=before, program=self.words[0])
        prepare(self.app, fresh(self.name))
        env = [f"{name}={value}" for name, value in {"TERM": "xterm", **self.app.env}.items()]
        company = beside(self.app, home(self.name))
        return place.start(*words, before=(*before, "env", *env), program=self.words[0], company=company)


def every() -> list[str]:
    found = {path.stem for path in programs.SOURCES.iterdir() if path.suffix in (".c", ".cc")}
    return sorted(found - set(OF_NO_USE)) + [name for name in REAL if not missing(APPS[name])]


def one_of(rng: random.Random) -> tuple[str, str]:
    """A program and an order; real ones more often, of which there are fewer."""
    some = every()
    real = [name for name in some if name in APPS]
    name = rng.choice(real if real and rng.random() < 0.4 else some)
    return name, rng.choice([order for order in ORDERS if order != "parallel" or not races(name)])


@functools.cache
def races(name: str) -> str:
    """Why it is not recorded in order `parallel`, as far as `--order auto` knows."""
    guess = order_for(drawn(name, "parallel").words[0], os.environ)
    return RACES.get(name, guess.why if guess.order != "parallel" else "")


def home(name: str) -> Path:
    return BUILD / "faulted" / name.replace(":", "-")


def fresh(name: str) -> Path:
    """Without what a run has left there."""
    here = home(name)
    shutil.rmtree(here, ignore_errors=True)
    here.mkdir(parents=True)
    return here


def drawn(name: str, order: str) -> Subject:
    """NAME, of which nothing is known yet."""
    if name not in APPS:
        return Subject(name, order, (str(program(name)), *ARGUMENTS.get(name, ())), 0, True, 0.0)
    app = APPS[name]
    app = dataclasses.replace(app, port=free_port() if app.port else 0)
    first, *others = prepare(app, fresh(name))
    return Subject(name, order, (str(shutil.which(first)), *others), 0, True, 0.0, app=app)


@functools.cache
def program(name: str) -> Path:
    return programs.build(name, ("-ldl",))


def subject(name: str, order: str, place: Place) -> Subject | str:
    """NAME as it is while nothing goes wrong; or why it is of no use in ORDER."""
    found = drawn(name, order)
    demo = place.kept / "sound.demo"
    try:
        start = found.recording(place, demo)
        place.program_of(found.words[0], start)
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
    return dataclasses.replace(found, status=first.status, says_all=says_all, seconds=seconds, replay_seconds=replayed)
