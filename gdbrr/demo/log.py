"""Reads the log of a recording: the chunks of each thread, as blocks of whole events.

Runs in: the controller (after the program, or beside it), the server. May call: gdbrr.abi, gdbrr.demo.format.
Owns: how a log is read, tolerating what was never committed, or is not yet.
"""

from __future__ import annotations

import os

from gdbrr.abi import ffi, lib
from gdbrr.demo import format as fmt
from gdbrr.demo.drained import Drained
from gdbrr.errors import GdbrrError
from gdbrr.quick.rows import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ALL = (1 << 64) - 1
_CHUNK: int = ffi.sizeof("struct gr_chunk")
_BUFFERS = 32 << 20
"""What the stream blocks being made may hold together; with many threads each block becomes smaller."""


class Chunk(NamedTuple):
    seq: int
    offset: int
    used: int
    base: int
    run: tuple[int, int, int] | None
    """The run that has no event yet: operations, hash, stamp from the event before."""
    record: int = -1
    """Of the file `drained`, where it was taken out of the log: OFFSET is in that."""


class Kept(NamedTuple):
    """Bytes of a file that the log refers to, put aside before the program changed it."""

    number: int
    at: int
    size: int
    offset: int
    """In the log."""


class Block(NamedTuple):
    raw: bytes
    events: int
    base: int
    first: int
    last: int


class _At:
    """How far a thread's chunks are read."""

    def __init__(self) -> None:
        self.seq = self.offset = self.last = 0


def damaged(what: str) -> GdbrrError:
    """For a log of which nobody can say what is lost: where in the order it stood is lost with it."""
    return GdbrrError(f"the log of the recording is damaged: {what}", hint="copy the directory again or record again")


def _run_of(header: Any) -> tuple[int, int, int] | None:
    """INVARIANT(run-or-event): what a thread has counted since its last event, unless that is an event by now."""
    ops, hash_ = header.run >> 32, header.run & 0xFFFFFFFF
    if not ops or header.run_at != header.used:
        return None
    if ops > lib.GR_RUN_LIMIT or header.run_delta >= 1 << 63:
        raise damaged(f"a run of thread {header.thread} makes no sense")
    return ops, (hash_ ^ hash_ >> 16) & 0xFFFF, header.run_delta


def _run_event(run: tuple[int, int, int], last: int) -> bytes:
    event = ffi.new("struct gr_event *", {"kind": lib.GR_OP_RUN, "stamp": last + run[2]})
    event.object, event.check = run[0], run[1]
    room = ffi.new("uint8_t[]", lib.GR_EVENT_MAX_HEAD)
    return bytes(ffi.buffer(room, lib.gr_event_encode(room, event, ffi.new("uint64_t *", last))))


class Log:
    """The log up to where it was looked at last."""

    def __init__(self, fd: int, lost: Callable[[int, str], None] | None, drained: Drained | None = None) -> None:
        """LOST is told of a thread of which no more can be read, and why. Without it the log is one that is written to
        meanwhile: what cannot be read yet comes later. DRAINED is what was taken out of it."""
        self._fd = fd
        self._lost_to = lost
        self._header = ffi.new("struct gr_chunk *")
        self._chunks: dict[int, list[Chunk]] = {}
        self.kept: list[Kept] = []
        self._seen = self.used = 0
        self._empty: list[int] = []
        """Units that had no header: taken, but never committed, or not yet."""
        self._at: dict[int, _At] = {}
        self._drained = drained
        self._taken: set[tuple[int, int]] = set()
        """Threads and numbers of chunks in it: a controller that was killed has left some in the log as well."""
        for record, offset, head in drained.chunks() if drained else ():
            self._take(record, offset, ffi.from_buffer("struct gr_chunk *", head))
        self.broken: set[int] = set()
        self.bound = fmt.STREAM_RAW

    @property
    def threads(self) -> list[int]:
        return list(self._chunks)

    def look(self, units: int) -> None:
        """Find the chunks among the first so many units."""
        have = -(-os.fstat(self._fd).st_size // lib.GR_UNIT)
        if units > have:
            raise damaged(f"{units - have} of {units} units are missing")
        newest = {thread: max(0, len(chunks) - 1) for thread, chunks in self._chunks.items()}
        empty, self._empty, behind = self._empty, [], 0
        for unit in empty:
            if unit >= behind:
                behind = self._behind(unit, units)
        behind = max(behind, self._seen)
        while behind < units:
            behind = self._behind(behind, units)
        self._seen = max(units, self._seen)
        for thread, chunks in self._chunks.items() if not self._lost_to else ():
            # INVARIANT(last-word-last): a chunk behind which there is another one is read again when that was seen.
            for number in range(newest.get(thread, 0), len(chunks)):
                self._read(chunks[number].offset - _CHUNK, units, number)
        for chunks in self._chunks.values():
            chunks.sort()
        self.bound = max(4096, min(fmt.STREAM_RAW, _BUFFERS // max(len(self._chunks), 1)))

    def _behind(self, unit: int, units: int) -> int:
        """Take in the chunk at UNIT, if there is one; tells which unit is behind it."""
        size = self._read(unit * lib.GR_UNIT, units - unit)
        if not size:
            self._empty.append(unit)
        return unit + (size or 1)

    def _read(self, offset: int, units: int, again: int | None = None) -> int:
        """Take in the chunk at OFFSET (AGAIN: as which of its thread's); tells how many units it has, 0 for none."""
        header = self._header
        magics = (lib.GR_CHUNK_MAGIC, lib.GR_KEPT_MAGIC, lib.GR_CHUNK_FREE)
        if os.preadv(self._fd, [ffi.buffer(header)], offset) != _CHUNK or header.magic not in magics:
            return 0
        fits = 0 < header.units <= units and header.used <= header.units * lib.GR_UNIT - _CHUNK
        if not fits or header.thread >= fmt.MAX_THREADS:
            raise damaged(f"the header of unit {offset // lib.GR_UNIT} makes no sense")
        if header.magic == lib.GR_KEPT_MAGIC:
            if header.used:
                self.kept.append(Kept(header.thread, header.base_stamp, header.used, offset + _CHUNK))
            return int(header.units)
        if header.magic == lib.GR_CHUNK_FREE or (header.thread, header.seq) in self._taken:
            return int(header.units)
        chunk = Chunk(header.seq, offset + _CHUNK, header.used, header.base_stamp, _run_of(header))
        if again is None:
            self._chunks.setdefault(header.thread, []).append(chunk)
        else:
            self.used -= self._chunks[header.thread][again].used
            self._chunks[header.thread][again] = chunk
        self.used += chunk.used
        return int(header.units)

    def _take(self, record: int, offset: int, header: Any) -> None:
        usual = header.units == lib.GR_CHUNK_UNITS and header.used <= header.units * lib.GR_UNIT - _CHUNK
        if (header.thread, header.seq) in self._taken or header.thread >= fmt.MAX_THREADS or not usual:
            raise damaged("a chunk that was taken out of it makes no sense")
        self._taken.add((header.thread, header.seq))
        chunk = Chunk(header.seq, offset, header.used, header.base_stamp, _run_of(header), record)
        self._chunks.setdefault(header.thread, []).append(chunk)
        self.used += chunk.used

    def _bytes(self, chunk: Chunk, at: int, size: int) -> bytes:
        size = min(size, chunk.used - at)
        if chunk.record < 0 or not self._drained:
            return os.pread(self._fd, size, chunk.offset + at)
        return self._drained.body(chunk.record)[chunk.offset + at : chunk.offset + at + size]

    def blocks(self, thread: int) -> Iterator[Block]:
        """What of a thread was not read before: whole events, joined over chunks whose stamps go on from each other."""
        at = self._at.setdefault(thread, _At())
        pending = bytearray()
        base = last = first = count = 0
        for chunk in self._chunks.get(thread, [])[at.seq :]:
            if chunk.seq != at.seq or (chunk.base < at.last and not at.offset):
                if self._lost_to:
                    self.lose(thread, f"chunk {at.seq} of its log is missing")
                break
            if chunk.base != at.last and not at.offset:
                if pending:
                    yield Block(bytes(pending), count, base, first, last)
                    pending.clear()
                at.last = chunk.base
            for raw, before, span in self._spans(thread, chunk, at):
                if pending and len(pending) + len(raw) > self.bound:
                    yield Block(bytes(pending), count, base, first, last)
                    pending.clear()
                if not pending:
                    base, first, count = before, span.first, 0
                pending += raw
                count += span.events
                last = span.last
            if thread in self.broken or chunk is self._chunks[thread][-1]:
                break
            at.seq, at.offset = at.seq + 1, 0
        if pending:
            yield Block(bytes(pending), count, base, first, last)

    def _spans(self, thread: int, chunk: Chunk, at: _At) -> Iterator[tuple[bytes, int, Any]]:
        """Pieces of a chunk of at most self.bound bytes, or of one larger event, each with the stamp in front of it."""
        want = self.bound
        span = ffi.new("struct gr_span *")
        while at.offset < chunk.used:
            raw = self._bytes(chunk, at.offset, want)
            before = at.last
            lib.gr_span_scan(ffi.from_buffer(raw), len(raw), 1 if want > self.bound else _ALL, before, span)
            if span.events:
                at.last, at.offset, want = span.last, at.offset + span.bytes, self.bound
                yield raw[: span.bytes], before, span
            elif len(raw) < want:
                self.lose(thread, f"{chunk.used - at.offset} bytes of its log are damaged")
                return
            elif want >= fmt.BLOCK_RAW:
                raise GdbrrError(
                    f"an operation of thread {thread} carries more than {fmt.BLOCK_RAW} bytes",
                    hint="set its class to native, or let the program read in smaller pieces",
                )
            else:
                want = min(want * 2, fmt.BLOCK_RAW)
        if chunk.run:
            if not self._lost_to:
                raise damaged("operations are counted in it, which only show when it is packed")
            raw, before = _run_event(chunk.run, at.last), at.last
            lib.gr_span_scan(ffi.from_buffer(raw), len(raw), _ALL, before, span)
            at.last = span.last
            yield raw, before, span

    def lose(self, thread: int, what: str) -> None:
        """No more can be read of THREAD."""
        self.broken.add(thread)
        if not self._lost_to:
            raise damaged(f"thread {thread}: {what}")
        self._lost_to(thread, what)
