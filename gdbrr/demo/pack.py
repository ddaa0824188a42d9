"""Packs a recording directory into one demo, in one pass; also one that a killed program left behind.

Runs in: the controller (after the program, or while it is stopped). May call: gdbrr.abi, gdbrr.demo.
Owns: how a log is read (tolerating what was never committed), and where epochs begin.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gdbrr.abi import Ctl, ffi, lib, map_ctl
from gdbrr.demo import format as fmt
from gdbrr.demo.manifest import parse
from gdbrr.demo.writer import Writer, atomic
from gdbrr.errors import GdbrrError

Progress = Callable[[str, float], None]

EPOCH_TICKS = 4096
EPOCH_BYTES = 16 << 20
_ALL = (1 << 64) - 1
_CHUNK: int = ffi.sizeof("struct gr_chunk")
_BUFFERS = 32 << 20
"""What the stream blocks being made may hold together; with many threads each block becomes smaller."""
_END_KINDS = {1: "exit", 2: "signal"}
_FILES = ("ctl", "log", "manifest.json", "manifest.json.new")


class Summary(NamedTuple):
    """What was packed: for the line that ends `gdbrr record`."""

    operations: int
    threads: int
    epochs: int
    bytes: int
    """Size of the demo."""
    log_bytes: int
    """Of the events, before compression."""
    notes: tuple[str, ...] = ()
    """What could not be taken over from the recording, one sentence each."""


class _Chunk(NamedTuple):
    seq: int
    offset: int
    used: int
    base: int
    run: tuple[int, int, int] | None
    """The run that has no event yet: operations, hash, stamp from the event before."""


class _Block(NamedTuple):
    raw: bytes
    events: int
    base: int
    first: int
    last: int


def pack(
    recording: Path,
    out: Path,
    *,
    end: Mapping[str, Any] | None = None,
    keep: bool = False,
    progress: Progress | None = None,
    epoch_ticks: int | None = None,
    epoch_bytes: int | None = None,
) -> Summary:
    """Make the demo `out` from `recording`; afterwards remove the recording unless `keep`.

    `end` is how the program ended ({"kind": ..., "value": ...}) where the caller knows better than the control page.
    """
    try:
        raw = (recording / "manifest.json").read_bytes()
        log = os.open(recording / "log", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        hint = "name a directory that gdbrr record made"
        raise GdbrrError(f"{recording} is not a recording: {error.strerror}", hint=hint) from None
    try:
        with map_ctl(recording / "ctl", write=False) as ctl:
            manifest = parse(_with_end(raw, ctl, end))
            packer = _Packer(log, ctl, progress)
            ticks, size = _epoch_limits(ctl)
            closed = bool(ctl.c.clock & lib.GR_CLOSED)
            overtaken = int(ctl.c.overtaken)
        with atomic(out) as file:
            writer = Writer(file, manifest)
            packer.run(writer, epoch_ticks or ticks, epoch_bytes or size)
            total = writer.finish(packer.epochs)
    finally:
        os.close(log)
    if not keep:
        for name in _FILES:
            (recording / name).unlink(missing_ok=True)
        try:
            recording.rmdir()
        except OSError:
            packer.notes.append(f"{recording} holds other files and was kept")
    if closed:
        packer.notes.append("the log was full; the program went on unrecorded, and the demo ends where it was full")
    packer.notes.extend(manifest.get("notices", ()))
    if overtaken:
        packer.notes.append(overtaking(overtaken))
    threads = sum(1 for n in packer.positions if n)
    return Summary(writer.ticks, threads, len(packer.epochs), total, writer.stream_bytes, tuple(packer.notes))


def overtaking(count: int) -> str:
    """What a recording with one thread at a time says when it was not that all the time."""
    times = "once" if count == 1 else f"{count:,} times"
    return (
        f"{times} a thread stayed in one operation for ten seconds while others waited, and went on beside the next;"
        " a data race there may replay differently"
    )


def _with_end(raw: bytes, ctl: Ctl, end: Mapping[str, Any] | None) -> bytes:
    """The manifest's text with the end in it, which only the control page or the caller knows."""
    try:
        manifest = json.loads(raw)
    except (ValueError, RecursionError):
        return raw  # parse() says it
    if isinstance(manifest, dict):
        if end is not None:
            manifest["end"] = dict(end)
        elif ctl.c.end_kind in _END_KINDS:
            manifest["end"] = {"kind": _END_KINDS[ctl.c.end_kind], "value": int(ctl.c.end_value)}
        else:
            manifest.setdefault("end", {"kind": "unknown", "value": 0})
        return json.dumps(manifest).encode()
    return raw


def _epoch_limits(ctl: Ctl) -> tuple[int, int]:
    """The knobs epoch_ticks and epoch_bytes that the recording ran under; 0 is a knob that was not set."""
    return ctl.c.knob[lib.GR_KNOB_epoch_ticks] or EPOCH_TICKS, ctl.c.knob[lib.GR_KNOB_epoch_bytes] or EPOCH_BYTES


def _damaged(what: str) -> GdbrrError:
    """For a log of which nobody can say what is lost: where in the order it stood is lost with it."""
    return GdbrrError(f"the log of the recording is damaged: {what}", hint="copy the directory again or record again")


def _run_of(header: Any) -> tuple[int, int, int] | None:
    """INVARIANT(run-or-event): what a thread has counted since its last event, unless that is an event by now."""
    ops, hash_ = header.run >> 32, header.run & 0xFFFFFFFF
    if not ops or header.run_at != header.used:
        return None
    if ops > lib.GR_RUN_LIMIT or header.run_delta >= 1 << 63:
        raise _damaged(f"a run of thread {header.thread} makes no sense")
    return ops, (hash_ ^ hash_ >> 16) & 0xFFFF, header.run_delta


def _run_event(run: tuple[int, int, int], last: int) -> bytes:
    event = ffi.new("struct gr_event *", {"kind": lib.GR_OP_RUN, "stamp": last + run[2]})
    event.object, event.check = run[0], run[1]
    room = ffi.new("uint8_t[]", lib.GR_EVENT_MAX_HEAD)
    return bytes(ffi.buffer(room, lib.gr_event_encode(room, event, ffi.new("uint64_t *", last))))


class _Packer:
    def __init__(self, log: int, ctl: Ctl, progress: Progress | None) -> None:
        self._log = log
        self._progress = progress or (lambda what, done: None)
        self.notes: list[str] = []
        self._chunks = self._find_chunks(int(ctl.c.units))
        self._broken: set[int] = set()
        self._threads = max(self._chunks, default=-1) + 1
        self._bound = max(4096, min(fmt.STREAM_RAW, _BUFFERS // max(len(self._chunks), 1)))
        self._bytes = sum(chunk.used for chunks in self._chunks.values() for chunk in chunks)
        self.positions: list[int] = []
        self.epochs: list[tuple[int, int, int | None]] = []

    # ---------------------------------------------------------------- reading the log

    def _find_chunks(self, units: int) -> dict[int, list[_Chunk]]:
        """The chunks of every thread in order. A unit without a header was taken but never committed."""
        found: dict[int, list[_Chunk]] = {}
        have = -(-os.fstat(self._log).st_size // lib.GR_UNIT)
        if units > have:
            raise _damaged(f"{units - have} of {units} units are missing")
        unit = 0
        header = ffi.new("struct gr_chunk *")
        while unit < units:
            offset = unit * lib.GR_UNIT
            unit += 1
            if os.preadv(self._log, [ffi.buffer(header)], offset) != _CHUNK or header.magic != lib.GR_CHUNK_MAGIC:
                continue
            room = header.units * lib.GR_UNIT - _CHUNK
            fits = 0 < header.units <= units - unit + 1 and header.used <= room
            if not fits or header.thread >= fmt.MAX_THREADS:
                raise _damaged(f"the header of unit {unit - 1} makes no sense")
            chunk = _Chunk(header.seq, offset + _CHUNK, header.used, header.base_stamp, _run_of(header))
            found.setdefault(header.thread, []).append(chunk)
            unit += header.units - 1
        for chunks in found.values():
            chunks.sort()
        return found

    def _blocks(self, thread: int) -> Iterator[_Block]:
        """The stream blocks of a thread: whole events, joined over chunks whose stamps go on from each other."""
        pending = bytearray()
        base = last = first = count = 0
        for seq, chunk in enumerate(self._chunks[thread]):
            if chunk.seq != seq or chunk.base < last:
                self._lost(thread, f"chunk {seq} of its log is missing")
                break
            if chunk.base != last:
                if pending:
                    yield _Block(bytes(pending), count, base, first, last)
                    pending.clear()
                last = chunk.base
            for raw, span in self._spans(thread, chunk, last):
                if pending and len(pending) + len(raw) > self._bound:
                    yield _Block(bytes(pending), count, base, first, last)
                    pending.clear()
                if not pending:
                    base, first, count = last, span.first, 0
                pending += raw
                count += span.events
                last = span.last
            if thread in self._broken:
                break
        if pending:
            yield _Block(bytes(pending), count, base, first, last)

    def _spans(self, thread: int, chunk: _Chunk, last: int) -> Iterator[tuple[bytes, Any]]:
        """Pieces of a chunk of at most self._bound bytes, or of one larger event."""
        offset, end, want = chunk.offset, chunk.offset + chunk.used, self._bound
        span = ffi.new("struct gr_span *")
        while offset < end:
            raw = os.pread(self._log, min(want, end - offset), offset)
            lib.gr_span_scan(ffi.from_buffer(raw), len(raw), 1 if want > self._bound else _ALL, last, span)
            if span.events:
                yield raw[: span.bytes], span
                last, offset, want = span.last, offset + span.bytes, self._bound
            elif len(raw) < want:
                self._lost(thread, f"{end - offset} bytes of its log are damaged")
                return
            elif want >= fmt.BLOCK_RAW:
                raise GdbrrError(
                    f"an operation of thread {thread} carries more than {fmt.BLOCK_RAW} bytes",
                    hint="set its class to native, or let the program read in smaller pieces",
                )
            else:
                want = min(want * 2, fmt.BLOCK_RAW)
        if chunk.run:
            raw = _run_event(chunk.run, last)
            lib.gr_span_scan(ffi.from_buffer(raw), len(raw), _ALL, last, span)
            yield raw, span

    def _lost(self, thread: int, what: str) -> None:
        self._broken.add(thread)
        self.notes.append(f"thread {thread}: {what}; the demo ends in front of it")

    # ---------------------------------------------------------------- writing the demo

    def run(self, writer: Writer, epoch_ticks: int, epoch_bytes: int) -> None:
        """Merge everything by stamp: each stream block is written when the merge first needs it."""
        merge = ffi.gc(lib.gr_merge_new(self._threads), lib.gr_merge_free)
        if merge == ffi.NULL:
            raise MemoryError
        sources = {thread: self._blocks(thread) for thread in self._chunks}
        fed: dict[int, Any] = {}
        runs = ffi.new("struct gr_run[]", fmt.ORDER_RUNS)
        positions = ffi.new("uint64_t[]", self._threads)
        before = bytes(ffi.buffer(positions))
        count, ticks, size = ffi.new("size_t *"), ffi.new("uint64_t *"), ffi.new("uint64_t *")
        epoch_start = epoch_size = epoch_time = 0
        while True:
            last_epoch = len(self.epochs) >= fmt.MAX_EPOCHS - 1
            stop = min(writer.ticks + fmt.ORDER_TICKS, _ALL if last_epoch else epoch_start + epoch_ticks)
            enough = _ALL if last_epoch else epoch_size + epoch_bytes
            state = lib.gr_merge_step(merge, runs, fmt.ORDER_RUNS, count, ticks, stop, size, enough)
            thread = lib.gr_merge_needs(merge)
            if state == lib.GR_MERGE_NEED:
                block = next(sources[thread], None) if thread in sources else None
                if block is not None:
                    writer.stream(thread, *block)
                    fed[thread] = ffi.from_buffer(block.raw)
                    lib.gr_merge_feed(merge, thread, fed[thread], len(block.raw), block.base)
                    continue
                fed.pop(thread, None)
                if thread not in self._broken:
                    lib.gr_merge_feed(merge, thread, ffi.NULL, 0, 0)
                    continue
            elif state == lib.GR_MERGE_BAD:
                self._lost(thread, "its stamps go back")
            # INVARIANT(streams-before-order): the blocks that hold these operations are already written.
            over = state in (lib.GR_MERGE_DONE, lib.GR_MERGE_NEED, lib.GR_MERGE_BAD)
            if count[0] and (over or state == lib.GR_MERGE_ROOM or ticks[0] - writer.ticks >= fmt.ORDER_TICKS):
                writer.order(bytes(ffi.buffer(runs))[: count[0] * fmt.RUN.size], ticks[0] - writer.ticks, before)
                lib.gr_merge_positions(merge, positions)
                before = bytes(ffi.buffer(positions))
                count[0] = 0
                self._progress("packing", size[0] / max(self._bytes, 1))
            full = ticks[0] - epoch_start >= epoch_ticks or size[0] - epoch_size >= epoch_bytes
            if ticks[0] > epoch_start and (over or (full and not last_epoch)):
                self.epochs.append((epoch_start, size[0] - epoch_size, epoch_time))
                # What happened last in front of it: times are coarse, so its own first event may carry none.
                epoch_start, epoch_size, epoch_time = ticks[0], size[0], lib.gr_merge_time(merge) * 1000
            if over:
                self.positions = list(positions)
                if not lib.gr_merge_time(merge):
                    self.epochs = [(start, size_, None) for start, size_, _ in self.epochs]
                return
