"""Which system calls there are around a tick, and how they end; read from the demo, nothing is run for it.

Runs in: the server and scripts. May call: demo.
Owns: nothing; what was read last is kept at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeGuard

from gdbrr.abi import lib
from gdbrr.demo.events import Event
from gdbrr.demo.reader import Demo
from gdbrr.timeline.model import Call, Progress
from gdbrr.timeline.order import Order

_AT_ONCE = 4096
"""Ticks read together."""
_KEPT = 64
_RESTART = -512
"""GR_RESTART of preload/core/raw.h."""


class Calls:
    """INVARIANT(calls-are-operations): a call of the kernel that is no operation is none of the program's, and is not
    told of: those of library functions that are operations themselves, and the engine's own."""

    def __init__(self, demo: Demo, order: Order) -> None:
        self._demo = demo
        self._order = order
        self._part = lru_cache(maxsize=_KEPT)(self._read)
        self._known: tuple[frozenset[int], int | None, int, int, Call | None] | None = None
        """The last question ahead: numbers, thread, and the ticks for which its answer is the same."""

    def first(
        self, tick: int, numbers: frozenset[int], thread: int | None = None, progress: Progress | None = None
    ) -> Call | None:
        """The first one at TICK or behind it, of NUMBERS (none: any) and not of THREAD."""
        known = self._known
        if known is not None and known[:2] == (numbers, thread) and known[2] <= tick <= known[3]:
            return known[4]
        found = self._first(tick, numbers, thread, progress)
        self._known = numbers, thread, tick, self._order.ticks if found is None else found.tick, found
        return found

    def _first(self, tick: int, numbers: frozenset[int], thread: int | None, progress: Progress | None) -> Call | None:
        last = self._order.ticks // _AT_ONCE
        for which in range(tick // _AT_ONCE, last + 1):
            _tell(progress, which, last)
            for call in self._part(which):
                if call.tick >= tick and call.thread != thread and (not numbers or call.number in numbers):
                    return call if call.tick < self._order.ticks else None
        return None

    def last(self, tick: int, numbers: frozenset[int], progress: Progress | None = None) -> Call | None:
        """The last one in front of TICK."""
        newest = max(min(tick, self._order.ticks) - 1, 0) // _AT_ONCE
        for which in range(newest, -1, -1):
            _tell(progress, newest - which, newest)
            for call in reversed(self._part(which)):
                if call.tick < min(tick, self._order.ticks) and (not numbers or call.number in numbers):
                    return call
        return None

    def _read(self, which: int) -> Sequence[Call]:
        start, stop = which * _AT_ONCE, (which + 1) * _AT_ONCE
        found = []
        newest: dict[int, Event] = {}
        for event in self._demo.events(start=start, stop=stop):
            end = newest.get(event.thread)
            newest[event.thread] = event
            if event.kind == lib.GR_OP_SIGNAL:
                end = end or self._before(event)
                if _returns(end):
                    # The program goes on in a handler: the return is in front of that.
                    found.append(Call(event.tick, event.thread, end.nr - 1, True, False))
            elif _returns(end):
                found.append(Call(end.tick, end.thread, end.nr - 1, True, True))
            if event.kind == lib.GR_OP_SYS_START:
                found.append(Call(event.tick, event.thread, event.nr - 1, False, False))
        for end in newest.values():
            if _returns(end):
                behind = next(self._demo.events(thread=end.thread, start=stop), None)
                if behind is None or behind.kind != lib.GR_OP_SIGNAL:
                    found.append(Call(end.tick, end.thread, end.nr - 1, True, True))
        return sorted(found)

    def _before(self, event: Event) -> Event | None:
        """The operation of its thread before EVENT."""
        tick = self._order.before(event.thread, event.tick)
        return None if tick is None else next(self._demo.events(start=tick, stop=tick + 1), None)


def _returns(event: Event | None) -> TypeGuard[Event]:
    """One that a signal had begun anew comes to no end."""
    return event is not None and event.kind == lib.GR_OP_SYS_END and event.result != _RESTART


def _tell(progress: Progress | None, done: int, of: int) -> None:
    if progress:
        progress("searching", done / max(of, 1))
