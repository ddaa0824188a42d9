"""The programs that are recorded: each of tests/programs, in an order that replays it while nothing goes wrong.

Runs in: python -m faults, pytest. May call: harness, gcc.
Owns: which arguments programs need, and which programs are of no use here, with the reason.
"""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass
from pathlib import Path

from faults.place import GDBRR, Lost, Place
from harness import programs

ARGUMENTS = {
    "busy": ("300",),
    "output_threads": ("4", "50"),
    "preempt": ("spin",),
    "signal_loop": ("0",),
    "libc_random": ("2",),
}
OF_NO_USE = {
    "sync_deadlock": "it does not end",
    "honest_nap": "it sleeps for a minute",
    "lingerer": "it stays when its test is over",
    "output_blocked": "it waits for who reads its output",
    "waits_in_read": "it waits for input",
    "outlaw": "it tries what replays refuse",
    "seeded_bugs": "it has bugs on purpose",
    "sandbox": "it takes its own rights away",
    "grows": "it takes all memory there is",
}
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


def every() -> list[str]:
    found = {path.stem for path in programs.SOURCES.iterdir() if path.suffix in (".c", ".cc")}
    return sorted(found - set(OF_NO_USE))


@functools.cache
def program(name: str) -> Path:
    return programs.build(name, ("-ldl",))


def subject(name: str, order: str, place: Place) -> Subject | str:
    """NAME as it is while nothing goes wrong; or why it is of no use in ORDER."""
    words = (str(program(name)), *ARGUMENTS.get(name, ()))
    demo = place.kept / "sound.demo"
    try:
        start = place.start(*GDBRR, "record", "--order", order, "-o", demo, "--", *words)
        place.program_of(words[0], start)
        begun = time.monotonic()
        first = start.wait()
        seconds = time.monotonic() - begun
        if not demo.exists():
            return first.said() or f"status {first.status}"
        again = place.run(*GDBRR, "replay", demo)
        twice = place.run(*GDBRR, "replay", demo)
    except Lost as error:
        return str(error).splitlines()[0]
    if (again.status, twice.status) != (first.status, first.status):
        return f"status {first.status}, replayed {again.status}: {again.said()}"
    says_all = first.out == again.out == twice.out
    return Subject(name, order, words, first.status, says_all, seconds)
