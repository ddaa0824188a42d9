"""Whether a demo still shows what it was recorded for: its crash, its output, or the value of an expression.

Runs in: `gdbrr minimize`. May call: errors, abi, ctl, demo, launch; GDB, for expressions.
Owns: what counts as the same symptom. One that only looks alike is another one: a crash must be the same fault at the
same instruction, at the same depth of the stack, and nothing may be desynchronised in front of it.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from gdbrr.abi import lib
from gdbrr.ctl import threads
from gdbrr.errors import EXIT_DESYNC, GdbrrError
from gdbrr.launch import engine
from gdbrr.launch import replay as replays

if TYPE_CHECKING:
    from gdbrr.demo.reader import Demo

LEAST = 10.0
TIMES = 10
"""A trial may take so many seconds at least, and so many times as long as the replay of the demo itself."""
_VALUE = re.compile(r"^\$1 = (.*)\Z", re.MULTILINE | re.DOTALL)
_QUIET = ["-nx", "-nh", "-batch", "-iex", "set auto-load no", "-iex", "set debuginfod enabled off"]


class TooLong(GdbrrError):
    """A trial that came to no end in its time."""


class Symptom:
    """What is to be kept. Asked of the demo itself first, which must show it."""

    what = ""

    def __init__(self, demo: Demo, trust: bool, limit: float) -> None:
        self._trust = trust
        self._limit = limit
        began = time.monotonic()
        outcome = self._replay(demo)
        self._limit = limit or max(LEAST, TIMES * (time.monotonic() - began))
        if not outcome.synchronised:
            raise GdbrrError(
                f"{demo.path} does not replay as it is, so nothing can be said about parts of it",
                f"gdbrr replay {shlex.quote(str(demo.path))} says why",
                EXIT_DESYNC,
            )

    def shows(self, demo: Demo) -> bool:
        """Whether DEMO shows the same."""
        raise NotImplementedError

    def _replay(self, demo: Demo) -> replays.Outcome:
        began = time.monotonic()

        def look(tick: int) -> None:
            if self._limit and time.monotonic() - began > self._limit:
                raise TooLong(f"no end within {self._limit:g} s, at tick {tick}", "raise --limit")

        return replays.run(demo, echo=False, trust=self._trust, poll=look)

    def _kept(self, demo: Demo) -> replays.Outcome | None:
        """How a replay ended that kept to the demo; other output than recorded is no matter here."""
        try:
            outcome = self._replay(demo)
        except TooLong:
            return None
        return outcome if outcome.kept else None


class Output(Symptom):
    """Every byte of the output, and the exit status."""

    what = "the same output and exit status"

    def shows(self, demo: Demo) -> bool:
        outcome = self._kept(demo)
        return outcome is not None and outcome.synchronised


class Crash(Symptom):
    """The signal that ended the program, and where."""

    def __init__(self, demo: Demo, trust: bool, limit: float) -> None:
        if demo.end.kind != "signal":
            raise GdbrrError(
                f"the program of {demo.path} was not killed by a signal",
                "keep something else: --keep output, or --keep 'EXPRESSION'",
            )
        super().__init__(demo, trust, limit)
        self._tick, self._thread = _last(demo)
        self._site = self._where(demo)
        if self._site is None:
            raise GdbrrError("the replay does not come to its last operation", "gdbrr replay says why", EXIT_DESYNC)
        self.what = f"the same crash, {_signal(demo.end.value)} behind tick {self._tick:,}"

    def shows(self, demo: Demo) -> bool:
        outcome = self._kept(demo)
        return outcome is not None and self._where(demo) == self._site

    def _where(self, demo: Demo) -> tuple[int, ...] | None:
        """Operation, instruction and stack pointer of the crashing thread, in front of its last operation."""
        with replays.standing_at(demo, self._tick, self._trust, self._limit or LEAST) as replay:
            if replay is None or replay.slot.state != lib.GR_S_STANDING:
                return None
            for thread in threads.read(replay.pid, len(demo.threads) + 1):
                if thread.index == self._thread:
                    return thread.op, thread.regs["rip"], thread.regs["rsp"]
        return None


class Expression(Symptom):
    """The value that GDB prints for an expression at the end of the demo."""

    def __init__(self, demo: Demo, trust: bool, limit: float, text: str) -> None:
        if not text.isprintable():
            raise GdbrrError("the expression has characters that cannot be printed", "give it on one line")
        super().__init__(demo, trust, limit)
        self._text = text
        self._limit = max(self._limit, 6 * LEAST)  # GDB reads symbols
        self._value, said = self._ask(demo)
        if self._value is None:
            raise GdbrrError(f"GDB has no value for {text} at the end of {demo.path}: {said}", "try it in gdbrr debug")
        self.what = f"{text} = {self._value} at its end"

    def shows(self, demo: Demo) -> bool:
        return self._kept(demo) is not None and self._ask(demo)[0] == self._value

    def _ask(self, demo: Demo) -> tuple[str | None, str]:
        """(the value, what GDB said instead)."""
        words = [
            *(engine.gdb(), *_QUIET, "-x", str(engine.gdbinit())),
            *("-ex", f"set gdbrr python {sys.executable}", "-ex", "set width 0", "-ex", "set print elements 200"),
            *("-ex", f"rr-replay {'--trust ' if self._trust else ''}{shlex.quote(os.path.abspath(demo.path))}"),
            *("-ex", f"print {self._text}"),
        ]
        try:
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, capture_output=True, timeout=self._limit, check=False
            )
        except subprocess.TimeoutExpired:
            return None, "no answer in time"
        found = _VALUE.search(done.stdout.decode(errors="replace"))
        errors = done.stderr.decode(errors="replace").split("\n")
        return (found[1].strip() if found else None), next((line for line in reversed(errors) if line.strip()), "")


def of(demo: Demo, keep: str, trust: bool, limit: float) -> Symptom:
    """The symptom that `--keep KEEP` names."""
    if keep == "crash":
        return Crash(demo, trust, limit)
    return Output(demo, trust, limit) if keep == "output" else Expression(demo, trust, limit, keep)


def _last(demo: Demo) -> tuple[int, int]:
    """(tick, thread) of the operation that ended the program: the last fault, else the last one of all."""
    found = None
    for event in demo.events(start=max(0, demo.ticks - 4096)):
        fatal = event.kind == lib.GR_OP_FAULT and not event.result
        if fatal or found is None or found.kind != lib.GR_OP_FAULT or found.result:
            found = event
    if found is None:
        raise GdbrrError(f"{demo.path} has no operations", "record the program again")
    return found.tick, found.thread


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
