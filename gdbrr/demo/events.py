"""Walks a demo's events in total order: one cursor per thread, fed block by block.

Runs in: the controller, the server, tests. May call: gdbrr.abi (the C decoder).
Owns: Event, and how much of a demo a walk keeps in memory.
"""

from __future__ import annotations

import bisect

from gdbrr.abi import ffi, lib
from gdbrr.quick.rows import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gdbrr.demo.reader import Demo

_BATCH = 256  # events decoded at once for one thread ...
_AHEAD = 65536  # ... and for all threads together, roughly
_ALL = (1 << 64) - 1


class Event(NamedTuple):
    """One operation. `kind` is its wire number; gdbrr.abi.OPS has the names."""

    tick: int
    thread: int
    kind: int
    nr: int
    object: int
    result: int
    check: int
    flags: int
    stamp: int
    data: bytes
    time: int = 0
    """Microseconds since the start of the recording; 0 where nobody looked."""

    # Of a run each operation is told by itself: `object` is how many there are, `result` which one this is, from 1.


def started_as(index: int, raw: bytes, base: int) -> dict[str, int]:
    """What the first event in a thread's stream says about it: its id in the recording, and who made it."""
    event = ffi.new("struct gr_event *")
    took = lib.gr_event_decode(ffi.from_buffer(raw), len(raw), event, ffi.new("uint64_t *", base))
    if not took or event.kind != lib.GR_OP_START:
        return {}
    row = {"recorded_tid": event.result} if 0 < event.result < 1 << 31 else {}
    if index == 0:
        row["parent"] = -1
    elif event.check < index:
        row["parent"] = event.check
    return row


_Fields = tuple[int, int, int, int, int, int, int, bytes, int]


class _Cursor:
    """The next events of one thread, from its operation `position` on."""

    def __init__(self, demo: Demo, thread: int, position: int, batch: int) -> None:
        self._demo = demo
        self._thread = thread
        self._room = batch
        self._numbers, until = demo.stream_blocks(thread)
        self._which = bisect.bisect_right(until, position)
        self._last = ffi.new("uint64_t *")
        self._used = ffi.new("size_t *")
        self._at = self._left = 0
        self._batch: list[_Fields] = []
        self._next = 0
        self._run = 0  # operations told of the run under way, which is the one behind self._next
        skip = position - (until[self._which - 1] if self._which else 0)
        self._enter()
        if skip:
            raw = self._raw()
            span = ffi.new("struct gr_span *")
            lib.gr_span_scan(ffi.from_buffer(raw), len(raw), skip, self._last[0], span)
            if span.events < skip:
                raise self._broken()
            if span.events == skip:
                self._at, self._left, self._last[0] = span.bytes, self._left - skip, span.last
            else:  # in the middle of a run
                self._at, self._left, self._last[0] = span.newest, self._left - span.newest_events, span.newest_base
                self._run = skip - span.newest_events

    def take(self, scratch: Any, most: int) -> tuple[_Fields, int]:
        """The next operation; of a run up to so many at once. How many they are stands beside."""
        if self._next == len(self._batch):
            self._fill(scratch)
        event = self._batch[self._next]
        if event[0] != lib.GR_OP_RUN:
            self._next += 1
            return event, 1
        kind, nr, count, _, *rest = event
        told, ops = (kind, nr, count, self._run + 1, *rest), min(most, count - self._run)
        self._run += ops
        if self._run == count:
            self._next, self._run = self._next + 1, 0
        return told, ops  # type: ignore[return-value]

    def _enter(self) -> None:
        if self._which >= len(self._numbers):
            raise self._demo.broken(f"the order names operations of thread {self._thread} that are not there")
        block = self._demo.block(self._numbers[self._which])
        self._at, self._left, self._last[0], self._end = 0, block.items, block.base, block.last

    def _raw(self) -> bytes:
        return self._demo.cached(self._numbers[self._which])

    def _broken(self) -> Exception:
        return self._demo.broken(f"a stream block of thread {self._thread} holds no valid events")

    def _fill(self, scratch: Any) -> None:
        if not self._left:
            self._which += 1
            self._enter()
        raw = self._raw()
        base = ffi.from_buffer(raw)
        room = min(self._left, self._room)
        n = lib.gr_batch_decode(base + self._at, len(raw) - self._at, scratch, room, _ALL, self._last, self._used)
        self._at += self._used[0]
        self._left -= sum(lib.gr_event_ops(scratch + i) for i in range(n))
        if not n or self._left < 0:
            raise self._broken()
        if not self._left and (self._at != len(raw) or self._last[0] != self._end):
            raise self._broken()
        self._batch.clear()
        for i in range(n):
            e = scratch[i]
            data = bytes(ffi.buffer(e.data, e.len)) if e.len else b""
            self._batch.append((e.kind, e.nr, e.object, e.result, e.check, e.flags, e.stamp, data, e.time))
        self._next = 0


def newest(demo: Demo) -> Iterator[Event]:
    """The last operation of each thread that is in the order, without a tick: found from its block alone."""
    scratch = ffi.new("struct gr_event[]", _BATCH)
    for thread, count in enumerate(demo.operations()):
        if count:
            event, _ = _Cursor(demo, thread, count - 1, _BATCH).take(scratch, 1)
            yield Event(0, thread, *event)


class Walk:
    """Iterates over the events of start <= tick < stop. With RUNS, operations of a run that follow each other are one:
    the first of them. INVARIANT(bytes-are-the-cost): a walk then takes as long as the demo has bytes, however many
    operations they claim to be."""

    def __init__(self, demo: Demo, thread: int | None, start: int, stop: int, runs: bool = False) -> None:
        self._runs = runs
        self._demo = demo
        self._only = thread
        self._start = start
        self._stop = stop

    def __iter__(self) -> Iterator[Event]:
        demo = self._demo
        if self._start >= self._stop:
            return
        batch = max(4, min(_BATCH, _AHEAD // max(demo.stream_threads, 1)))
        scratch = ffi.new("struct gr_event[]", batch)
        cursors: dict[int, _Cursor] = {}
        done: list[int] | None = None
        for which in range(demo.order_block_of(self._start), demo.order_blocks):
            tick, runs, positions = demo.order(which)
            found = positions.tolist()
            if done is not None and found != done + [0] * (len(found) - len(done)):
                raise demo.broken("two order blocks contradict each other")
            done = found
            for thread, count in zip(runs[0::2], runs[1::2], strict=True):
                first, last = max(self._start - tick, 0), min(count, self._stop - tick)
                if first < last and self._only in (None, thread):
                    cursor = cursors.get(thread)
                    if cursor is None:
                        cursor = cursors[thread] = _Cursor(demo, thread, done[thread] + first, batch)
                    at = tick + first
                    while at < tick + last:
                        event, ops = cursor.take(scratch, tick + last - at if self._runs else 1)
                        yield Event(at, thread, *event)
                        at += ops
                done[thread] += count
                tick += count
                if tick >= self._stop:
                    return
