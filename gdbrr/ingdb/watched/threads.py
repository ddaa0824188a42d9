"""Breakpoints of one thread, where time passes its birth or its end.

Runs in: GDB's Python. May call: gdb.
Owns: what each of them is, in GDB's words, and the function by which they know their thread.

GDB deletes them with the thread, and gives the thread another number when it is there again. So each is set again, with
a condition on what stays, the thread's id.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from gdbrr.ingdb import compat
from gdbrr.ingdb.compat import gdb
from gdbrr.ingdb.watched.locals import Locals, give

_KINDS = (gdb.BP_BREAKPOINT, gdb.BP_HARDWARE_BREAKPOINT)
_KEPT = ("condition", "silent", "ignore_count", "commands")
_FUNCTION = "_rr_thread"


class _Point(NamedTuple):
    tid: int
    location: str
    kind: int
    temporary: bool
    enabled: bool
    kept: dict[str, Any]


class Threads:
    def __init__(self, those: Locals) -> None:
        self.return_here: Callable[[], bool] = bool
        """Whether time passes back and forth here."""
        self._locals = those
        self._known: dict[int, _Point] = {}
        self._runs: deque[Any] = deque(maxlen=1)
        gdb.events.cont.connect(self._runs.append)  # see INVARIANT(ctrl-c-is-gdbs)
        gdb.events.breakpoint_created.connect(self._of)
        gdb.events.breakpoint_modified.connect(self._of)
        gdb.events.breakpoint_deleted.connect(self._deleted)
        gdb.events.stop.connect(lambda event: self.set_again())
        compat.before_prompts(self.set_again)
        _define()

    def _of(self, point: Any) -> None:
        if self._locals.moving:
            return  # it is off for as long as that lasts
        if point.thread is None or point.type not in _KINDS or point.number <= 0:
            self._known.pop(point.number, None)
            return
        for thread in gdb.selected_inferior().threads():
            if thread.global_num == point.thread:
                kept = {name: getattr(point, name) for name in _KEPT}
                self._known[point.number] = _Point(
                    int(thread.ptid[1]), point.location, point.type, point.temporary, point.enabled, kept
                )

    def _deleted(self, point: Any) -> None:
        """By the user; GDB does it while it runs, and not every version (13.1) tells."""
        if not self._runs:
            self._known.pop(point.number, None)

    def set_again(self) -> None:
        """Those that GDB has deleted."""
        if self._locals.moving:
            return
        self._runs.clear()
        if not self.return_here():
            self._known.clear()
        elif self._known and compat.has_process():
            there = compat.points()
            gone = [number for number in self._known if number not in there]
            for number, point in [(number, self._known.pop(number)) for number in gone]:
                made = gdb.Breakpoint(point.location, point.kind, temporary=point.temporary)
                its = f"${_FUNCTION}({point.tid})"
                users = point.kept["condition"]
                less = give(made, {**point.kept, "condition": f"{its} && ({users})" if users else its})
                made.enabled = point.enabled
                compat.write(f"Breakpoint {number} is set again, as {made.number}{less}: ids of threads stay.")


def _define() -> None:
    class Function(gdb.Function):  # type: ignore[misc]
        """Whether the selected thread is the one with this id: of `Thread 100.103` that is 103.

        Numbers of threads are given anew where time passes a thread's birth or its end. Ids stay.

        Usage: $_rr_thread (ID)"""

        def invoke(self, tid: Any) -> bool:
            return compat.selected() == int(tid)

    Function(_FUNCTION)
