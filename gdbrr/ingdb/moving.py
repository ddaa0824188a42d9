"""Moves in GDB: its own commands resumed for a target that is armed, and the user's breakpoints meanwhile.

Runs in: GDB's Python. May call: gdb through gdbrr.ingdb.compat.
Owns: which of the user's breakpoints are off during a move.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from gdbrr.ingdb import asking, compat
from gdbrr.ingdb.compat import gdb
from gdbrr.ingdb.watched.conditions import Conditions
from gdbrr.ingdb.watched.locals import WATCHPOINTS, Locals
from gdbrr.ingdb.watched.meanings import Meanings
from gdbrr.ingdb.watched.threads import Threads

_CATCHPOINTS = (gdb.BP_CATCHPOINT,) if hasattr(gdb, "BP_CATCHPOINT") else ()  # from GDB 13 on
_BREAKPOINTS = (gdb.BP_BREAKPOINT, gdb.BP_HARDWARE_BREAKPOINT, gdb.BP_WATCHPOINT, *_CATCHPOINTS)
_HOOK = "maintenance gdbrr-thread"
_STEPS = [way + step for way in ("", "reverse-") for step in ("stepi", "nexti", "step", "next", "finish")] + ["until"]
_locals = Locals()
_meanings = Meanings()
_threads = Threads(_locals)
_conditions = Conditions()
_stopped: list[Any] = []
"""The thread of GDB's last stop."""


class _Words:
    """What GDB (13.1) had words for, and says again where it makes a stop of which the process knows nothing: a step
    into an inlined function, the first one of a connection."""

    def __init__(self) -> None:
        self.signal = self.move = self.moving = False
        self.runs: deque[Any] = deque(maxlen=1)
        """INVARIANT(ctrl-c-is-gdbs): while it resumes, GDB calls nothing that is written in Python, which a Ctrl-C at
        that time would be for."""

    def stopped(self, event: Any) -> None:
        _stopped[:] = [gdb.selected_thread()]
        if self.runs:
            self.signal = isinstance(event, gdb.SignalEvent)
            self.move = self.moving and not self.signal and not isinstance(event, gdb.BreakpointEvent)
        self.runs.clear()


_words = _Words()
gdb.events.cont.connect(_words.runs.append)
gdb.events.stop.connect(_words.stopped)


def threads_return(here: Callable[[], bool]) -> None:
    """Where HERE is true a thread that has gone may be there again, and so may its breakpoints."""
    _threads.return_here = here


def repeats() -> bool:
    """Whether the first stop of another connection would be announced, and is to be one without words: for what it has
    loaded, of which GDB (from 14 on in Python, and for front ends) tells names that it has freed."""
    return (_words.signal or _words.move) and compat.version() < (14, 0) and not asking.has_front_end()


def proceed() -> str:
    return _until_stop("continue")


def resume() -> str:
    """GDB's own reverse-continue, for a move. `catch signal` would take its stop, which is without a signal, for one of
    signal 0; and a watchpoint that GDB steps for makes steps of it."""
    with _off(*_CATCHPOINTS, *WATCHPOINTS):
        _select_stopped()
        _words.moving = True
        try:
            signal = _until_stop(_backwards())
        finally:
            _words.moving = False
    _locals.tell()
    return signal


def _select_stopped() -> None:
    """INVARIANT(nobody-steps-first): where another thread is selected, the one that stopped at a breakpoint is stepped
    from there alone, and GDB (13.1) aborts when it gets the stop of this move for that (finish_step_over)."""
    for thread in _stopped:
        if thread is not None and thread.is_valid():
            thread.switch()


def _backwards() -> str:
    return "continue" if str(gdb.parameter("exec-direction")) == "reverse" else "reverse-continue"


def stay(shown: bool) -> str:
    """A stop where one is, which the server answers without a move. SHOWN: on the command line as well."""
    if shown:
        return resume()
    with _off(*_BREAKPOINTS):
        # What ends a step has no words of its own.
        reverse = str(gdb.parameter("exec-direction")) == "reverse"
        signal = _until_stop(_unsaid("stepi" if reverse else "reverse-stepi"), to_string=True)
    _locals.tell()
    return signal


@contextlib.contextmanager
def silence(lasting: bool = True) -> Iterator[int]:
    """An address: a stop for an access to it says nothing. GDB has no other stop of which no front end makes words.
    LASTING: a step into an inlined function says nothing behind it, either."""
    address = compat.pc()
    with _off(*_BREAKPOINTS, *WATCHPOINTS):
        watch = gdb.Breakpoint(f"*(char *) {address:#x}", gdb.BP_WATCHPOINT, gdb.WP_ACCESS, internal=True)
        watch.silent = lasting
        try:
            yield address
        finally:
            watch.delete()


@contextlib.contextmanager
def _off(*kinds: int) -> Iterator[None]:
    """GDB takes a stop at one of the user's for a hit, whatever its reason: it would count it and run its commands."""
    users = compat.points().values()
    off = {each.number: each for each in users if each.enabled and each.type in kinds and _meanings.may_go_off(each)}
    with _locals.asleep():
        try:
            for each in off.values():
                each.enabled = False
            yield
        finally:
            for number in off.keys() & compat.points().keys():
                _meanings.put_on(off[number])
    _threads.set_again()


def resume_quietly() -> str:
    """GDB's own reverse-continue, for a stop in silence."""
    return _until_stop(_unsaid(_backwards()), to_string=True)


def _unsaid(verb: str) -> str:
    return f"with suppress-cli-notifications on -- {verb}"


def _until_stop(verb: str, to_string: bool = False) -> str:
    """The name of the signal it stopped with, if that was why."""
    stops: list[Any] = []
    if str(gdb.parameter("scheduler-locking")) in ("on", "step"):
        # That is about a thread; these are moves of all. GDB 13.1 aborts at a stop of one that it has not resumed
        # (skip_inline_frames: find_inline_frame_state).
        verb = f"with scheduler-locking off -- {verb}"
    gdb.events.stop.connect(stops.append)
    try:
        said = compat.quietly(verb) if to_string else gdb.execute(verb) or ""
    finally:
        gdb.events.stop.disconnect(stops.append)
    # Of a way that is not shown, threads that come and go are not told, nor how far it is; what was undone is.
    for line in said.splitlines():
        if line.startswith("gdbrr: ") and not line.endswith("%"):
            compat.write(line)
    return str(getattr(stops[-1], "stop_signal", "")) if stops else ""


def _at_inlined() -> bool:
    """Whether the program stands at the start of an inlined function that GDB shows at its call."""
    try:
        frame = gdb.newest_frame()
        if gdb.selected_thread() not in _stopped:
            return False
        return _depth(gdb.block_for_pc(frame.pc())) > _depth(frame.block())
    except (gdb.error, RuntimeError):
        return False


def _depth(block: Any) -> int:
    return 0 if block is None else 1 + _depth(block.superblock)


def before_steps(back: Callable[[str], None], inside: Callable[[], None]) -> None:
    """Call BACK with its name in front of each of GDB's steps back, and INSIDE of one into an inlined function for
    which GDB would have the words of the stop before; by the hooks that GDB has for its users; one of theirs stays."""

    class Hook(gdb.Command):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(_HOOK, gdb.COMMAND_MAINTENANCE)

        def invoke(self, text: str, from_tty: bool) -> None:
            if text.startswith("reverse-") or str(gdb.parameter("exec-direction")) == "reverse":
                back(text)
            if text.endswith("step") and _words.move and _at_inlined():
                inside()
            if _threads.return_here():
                _conditions.before(text)

    Hook.__doc__ = "Prepare a step of GDB's: a step back is the selected thread's, and no condition ends it too late."
    Hook()
    for step in _STEPS:
        name = f"hook-{step}"
        # `show user` takes the beginning of a name for the name, and prints it as if it were.
        if name not in gdb.execute(f"complete {name}", to_string=True).splitlines():
            gdb.execute(f"define {name}\n{_HOOK} {step}\nend", to_string=True)
