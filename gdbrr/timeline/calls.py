"""Which system calls there are around a tick, and how they end; which signals reach the program. Read from the demo,
nothing is run for it.

Runs in: the server and scripts. May call: demo.
Owns: nothing; what was read last is kept at hand.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TypeGuard

from gdbrr.abi import ffi, lib
from gdbrr.demo.events import Event
from gdbrr.demo.reader import Demo
from gdbrr.timeline.model import Call, Progress, Sent
from gdbrr.timeline.order import Order

_AT_ONCE = 4096
"""Ticks read together."""
_KEPT = 64
_SIGINFO = 128
"""sizeof(siginfo_t)"""
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


class Signals:
    """INVARIANT(blocks-are-read-once): what a block of a stream holds never changes, and is looked through one time."""

    def __init__(self, demo: Demo, order: Order) -> None:
        self._demo = demo
        self._order = order
        self._in_block = lru_cache(maxsize=None)(self._read)
        self._all = lru_cache(maxsize=_KEPT)(self._placed)

    def first(self, tick: int, passed: frozenset[int]) -> Sent | None:
        """The first one at TICK or behind it that is none of PASSED."""
        found = self._all(passed, self._demo.ticks)
        at = bisect.bisect_left(found, (tick,))
        return found[at] if at < len(found) and found[at].tick < self._order.ticks else None

    def last(self, tick: int, passed: frozenset[int], thread: int | None = None) -> Sent | None:
        """The last one in front of TICK, of THREAD if one is named."""
        found = self._all(passed, self._demo.ticks)
        before = bisect.bisect_left(found, (min(tick, self._order.ticks),))
        return next((sent for sent in reversed(found[:before]) if thread in (None, sent.thread)), None)

    def info(self, tick: int) -> bytes:
        event = next(self._demo.events(start=tick, stop=tick + 1))
        return event.data[:_SIGINFO].ljust(_SIGINFO, b"\0")

    def _placed(self, passed: frozenset[int], ticks: int) -> list[Sent]:
        """All of them in the first TICKS."""
        wanted = {
            thread: places
            for thread in range(len(self._demo.threads))
            if (places := [place for place in self._of_thread(thread) if place[1] not in passed])
        }
        found: list[Sent] = []
        blocks = range(self._demo.order_blocks if wanted else 0)
        starts = [self._demo.order(which) for which in blocks]
        for which, (tick, runs, positions) in enumerate(starts):
            at = dict(enumerate(positions))
            ends = starts[which + 1][2] if which + 1 < len(starts) else ()
            here = [
                thread
                for thread, places in wanted.items()
                if (first := bisect.bisect_left(places, (at.get(thread, 0),))) < len(places)
                and (thread >= len(ends) or places[first][0] < ends[thread])
            ]
            for thread, count in zip(runs[0::2], runs[1::2], strict=True) if here else ():
                if thread in here:
                    places = wanted[thread]
                    first = bisect.bisect_left(places, (at[thread],))
                    last = bisect.bisect_left(places, (at[thread] + count,))
                    found += [Sent(tick + place - at[thread], thread, number) for place, number in places[first:last]]
                at[thread] += count
                tick += count
        return found

    def _of_thread(self, thread: int) -> Iterator[tuple[int, int]]:
        """Position among the operations of THREAD, and number."""
        numbers, until = self._demo.stream_blocks(thread)
        for block, before in zip(numbers, [0, *until], strict=False):
            yield from ((before + place, number) for place, number in self._in_block(block))

    def _read(self, number: int) -> Sequence[tuple[int, int]]:
        raw, base = self._demo.content(number), ffi.new("uint64_t *", self._demo.block(number).base)
        span, event = ffi.new("struct gr_span *"), ffi.new("struct gr_event *")
        found: list[tuple[int, int]] = []
        at, place, start = 0, 0, ffi.from_buffer(raw)
        while True:
            lib.gr_span_until(start + at, len(raw) - at, lib.GR_OP_SIGNAL, base[0], span)
            at, place, base[0] = at + span.bytes, place + span.events, span.last or base[0]
            if at == len(raw):
                return found
            took = lib.gr_event_decode(start + at, len(raw) - at, event, base)
            if not took:
                raise self._demo.broken(f"block {number} holds no valid events")
            found.append((place, event.nr))
            at, place = at + took, place + 1


def _returns(event: Event | None) -> TypeGuard[Event]:
    """One that a signal had begun anew comes to no end."""
    return event is not None and event.kind == lib.GR_OP_SYS_END and event.result != _RESTART


def _tell(progress: Progress | None, done: int, of: int) -> None:
    if progress:
        progress("searching", done / max(of, 1))
