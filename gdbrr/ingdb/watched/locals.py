"""Watchpoints on local variables while time moves: they sleep, and wake where their frame is.

Runs in: GDB's Python. May call: gdb.
Owns: which frame each of them is of, and which of them sleep.

GDB 13.1 looks at a hardware watchpoint whenever it resumes (insert_breakpoints: update_watchpoint), disabled or not,
and deletes it where its frame is not there; what the place holds it asks only when it has become enabled. So for a move
one is made a watchpoint of the kind that GDB would step for, which it leaves alone while it is disabled. Enabled where
its frame is, it becomes a hardware watchpoint again and knows what is there. One for reads can be of no other kind: so
out of its frame it is deleted, before GDB does that, and set again there, under another number.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from gdbrr.ingdb import compat
from gdbrr.ingdb.compat import gdb
from gdbrr.ingdb.watched.lvalues import names

WATCHPOINTS = (gdb.BP_WATCHPOINT, gdb.BP_HARDWARE_WATCHPOINT, gdb.BP_READ_WATCHPOINT, gdb.BP_ACCESS_WATCHPOINT)
_HARDWARE = "can-use-hw-watchpoints"


@dataclass
class _Local:
    point: Any
    frame: Any
    thread: Any
    """Its ptid."""
    sleeps: bool = False
    told: bool = False
    """The user knows that it sleeps."""

    def is_here(self) -> bool:
        """Just what GDB asks."""
        thread = gdb.selected_thread()
        try:
            return thread is not None and thread.ptid == self.thread and bool(self.frame.is_valid())
        except gdb.error:
            return False

    def may_be_set(self) -> bool:
        """GDB takes the innermost frame that has the variable."""
        frame = gdb.newest_frame()
        while frame is not None and frame != self.frame:
            if frame.function() == self.frame.function():
                return False
            frame = frame.older()
        return frame is not None


@dataclass
class _Away(_Local):
    """One for reads that is deleted until it is there again."""

    number: int = 0
    verb: str = ""
    kept: dict[str, Any] = field(default_factory=dict)


_KEPT = ("condition", "thread", "silent", "ignore_count", "commands")


class Locals:
    def __init__(self) -> None:
        self._known: dict[int, _Local] = {}
        self._away: list[_Away] = []
        self._news: list[str] = []
        self.moving = False
        """A move is made: what is off is off for that."""
        gdb.events.breakpoint_created.connect(self._made)
        gdb.events.breakpoint_deleted.connect(lambda point: self._known.pop(point.number, None))
        gdb.events.stop.connect(self._stopped)

    def has(self, point: Any) -> bool:
        return point.number in self._known

    def _all(self) -> list[_Local]:
        there = compat.points()
        self._known = {number: each for number, each in self._known.items() if number in there}
        return list(self._known.values())

    def _made(self, point: Any) -> None:
        if point.type not in WATCHPOINTS:
            return
        if point.expression.startswith("-location ") or not any(map(is_local, names(point.expression))):
            return
        self._known[point.number] = _Local(point, gdb.selected_frame(), gdb.selected_thread().ptid)

    def _stopped(self, event: object) -> None:
        """The program came to the frame by itself."""
        if not self.moving:
            self._wake([each for each in self._all() if each.sleeps and each.is_here()])
            self._set_again()
            self._say()

    @contextlib.contextmanager
    def asleep(self) -> Iterator[None]:
        """During a move all sleep."""
        if self.moving:
            yield
            return
        self.moving = True
        try:
            self._send_to_sleep([each for each in self._all() if each.point.enabled])
            yield
        finally:
            self.moving = False
            asleep = [each for each in self._all() if each.sleeps]
            with compat.selection():
                for thread in {each.thread for each in asleep}:
                    if _select(thread):
                        self._wake([each for each in asleep if each.thread == thread and each.is_here()])
                for thread in {each.thread for each in self._away}:
                    if _select(thread):
                        self._set_again()
            for each in asleep:
                if each.sleeps and each.point.type != gdb.BP_WATCHPOINT:
                    self._put_away(each)

    def tell(self) -> None:
        """Those that did not wake, of which that has not been told, and what became of those for reads."""
        for each in self._all():
            if each.sleeps and not each.told:
                each.told = True
                self._news.append(f"Watchpoint {each.point.number} is disabled until its frame is there again.")
        self._say()

    def _say(self) -> None:
        for line in self._news:
            gdb.write(line + "\n")
        self._news.clear()

    def _put_away(self, each: _Local) -> None:
        point = each.point
        verb = "rwatch" if point.type == gdb.BP_READ_WATCHPOINT else "awatch"
        kept = {name: getattr(point, name) for name in _KEPT}
        away = _Away(point, each.frame, each.thread, True, False, point.number, f"{verb} {point.expression}", kept)
        self._away.append(away)
        self._news.append(f"Watchpoint {point.number} is deleted until its frame is there again.")
        point.delete()

    def _set_again(self) -> None:
        """In the selected thread, where its frame is."""
        for each in [each for each in self._away if each.is_here() and each.may_be_set()]:
            self._away.remove(each)
            frame, known = gdb.selected_frame(), set(self._known)
            each.frame.select()
            try:
                gdb.execute(each.verb, to_string=True)
            finally:
                frame.select()
            for number in set(self._known) - known:
                less = give(self._known[number].point, each.kept)
                self._news.append(f"Watchpoint {each.number} is set again, as {number}{less}.")

    def _send_to_sleep(self, them: Sequence[_Local]) -> None:
        with compat.selection():
            for each in them:
                if not _select(each.thread) or not each.is_here():
                    continue  # GDB has its own way with one whose frame has ended
                each.point.enabled = False
                if each.point.type == gdb.BP_HARDWARE_WATCHPOINT:
                    with _only_by_steps():
                        gdb.execute(f"enable {each.point.number}", to_string=True)  # GDB 16 warns of this
                    each.point.enabled = False
                each.sleeps = True

    def _wake(self, them: Sequence[_Local]) -> None:
        for each in them:
            each.sleeps = each.told = False
            each.point.enabled = True


def give(point: Any, kept: dict[str, Any]) -> str:
    """POINT gets what was KEPT. Returns what it has to do without."""
    less = ""
    for name, value in kept.items():
        try:
            if value:
                setattr(point, name, value)
        except gdb.error:  # a condition on a variable of a block that is not entered yet
            less = f" without its {name}, which means nothing here"
    return less


def is_local(name: str) -> bool:
    """Whether NAME is a variable of the selected frame."""
    try:
        symbol = gdb.lookup_symbol(name)[0]
    except gdb.error:  # no frame
        return False
    return symbol is not None and bool(symbol.needs_frame)


@contextlib.contextmanager
def _only_by_steps() -> Iterator[None]:
    before = gdb.parameter(_HARDWARE)
    gdb.execute(f"set {_HARDWARE} 0", to_string=True)
    try:
        yield
    finally:
        gdb.execute(f"set {_HARDWARE} {before}", to_string=True)


def select_thread(ptid: Any) -> None:
    if not _select(ptid):
        raise gdb.error("its thread is not there")


def _select(ptid: Any) -> bool:
    if gdb.selected_thread() is not None and gdb.selected_thread().ptid == ptid:
        return True
    thread = next((each for each in gdb.selected_inferior().threads() if each.ptid == ptid), None)
    if thread is None:
        return False
    thread.switch()
    return True
