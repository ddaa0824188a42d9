"""Packs a recording directory into one demo, in one pass; also one that a killed program left behind.

Runs in: the controller (after the program, or while it is stopped). May call: gdbrr.abi, gdbrr.demo.
Owns: the order, and where epochs begin.
"""

from __future__ import annotations

import struct

from gdbrr import files
from gdbrr.abi import Ctl, ffi, lib, map_ctl
from gdbrr.demo import drained, seal
from gdbrr.demo import format as fmt
from gdbrr.demo.log import Block, Log
from gdbrr.demo.manifest import Manifest, parse
from gdbrr.demo.writer import Writer
from gdbrr.errors import GdbrrError
from gdbrr.quick import texts
from gdbrr.quick.paths import Path
from gdbrr.quick.rows import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Progress = Callable[[str, float], None]

EPOCH_TICKS = 4096
EPOCH_BYTES = 16 << 20
_ALL = (1 << 64) - 1
_END_KINDS = {1: "exit", 2: "signal"}
_FILES = ("ctl", "log", drained.NAME, "manifest.json")
LARGEST = 64 << 20
"""Bytes of a manifest that is not packed yet."""


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
    refers: tuple[int, int] = (0, 0)
    """How many files of how many bytes stay where they are."""


def pack(
    recording: Path,
    out: Path,
    *,
    end: Mapping[str, Any] | None = None,
    stop: Mapping[str, Any] | None = None,
    keep: bool = False,
    progress: Progress | None = None,
    epoch_ticks: int | None = None,
    epoch_bytes: int | None = None,
    noted: Mapping[str, Any] | None = None,
    key: bytes | None = None,
) -> Summary:
    """Make the demo `out` from `recording`; afterwards remove the recording unless `keep`.

    `end` is how the program ended ({"kind": ..., "value": ...}) where the caller knows better than the control page;
    `stop` where it stands in the middle of a segment ({"thread": ..., "moment": ...}); `noted` what the manifest may
    lack. The demo is sealed with `key`. Nothing is written to the recording, which may be somebody else's.
    """
    try:
        raw = files.content(recording / "manifest.json", LARGEST, follow=False)
        log = files.regular(recording / "log", follow=False)
    except OSError as error:
        hint = "name a directory that gdbrr record made"
        raise GdbrrError(f"{recording} is not a recording: {error.strerror}", hint=hint) from None
    with log, _drained(recording) as taken:
        notes: list[str] = []
        reader = Log(
            log.fileno(),
            lambda thread, what: notes.append(f"thread {thread}: {what}; the demo ends in front of it"),
            taken,
        )
        with map_ctl(recording / "ctl", write=False) as ctl:
            manifest = parse(_with_end(raw, ctl, end, stop, noted))
            reader.look(int(ctl.c.units))
            ticks, size = epoch_limits(ctl)
            late = _may_come_late(manifest, ctl)
            refers = _References(ctl, key is not None)
            closed = bool(ctl.c.clock & lib.GR_CLOSED)
            overtaken = int(ctl.c.overtaken)
        packer = Packer(reader, epoch_ticks or ticks, epoch_bytes or size, progress)
        packer.late = late
        with files.draft(out) as file:
            writer = Writer(file, manifest)
            packer.run(writer)
            refers.write(writer, reader, log.fileno())
            total = writer.finish(packer.epochs())
            total = seal.put(file, key) if key else total
    if not keep:
        for name in _FILES:
            files.remove(recording / name)
        try:
            recording.rmdir()
        except OSError:
            notes.append(f"{recording} holds other files and was kept")
    notes += refers.lost
    if closed:
        notes.append("the log was full; the program went on unrecorded, and the demo ends where it was full")
    notes.extend(manifest.get("notices", ()))
    if overtaken:
        notes.append(overtaking(overtaken))
    threads = sum(1 for n in packer.state.positions if n)
    return Summary(writer.ticks, threads, len(packer.epochs()), total, writer.stream_bytes, tuple(notes), refers.stay)


def _drained(recording: Path) -> drained.Drained:
    try:
        return drained.Drained(files.regular(recording / drained.NAME, follow=False))
    except FileNotFoundError:
        return drained.Drained(None)
    except OSError as error:
        raise GdbrrError(f"{recording} is not a recording: {error.strerror}") from None


def _may_come_late(manifest: Manifest, ctl: Ctl) -> bool:
    """INVARIANT(ticks-stay): not where each stamp is a tick, by which whoever packs or follows it knows moments."""
    if manifest["order"] != "parallel" or ctl.c.knob[lib.GR_KNOB_digest]:
        return False
    return bool(ctl.c.knob[lib.GR_KNOB_order_log] != lib.GR_LOG_CLOCK)


class _References:
    """The large files that a recording refers to, if there are any."""

    def __init__(self, ctl: Ctl, ours: bool) -> None:
        self.lost: list[str] = []
        self.stay = (0, 0)
        self._rows: Sequence[Referred] = ()
        self._carry = int(ctl.c.knob[lib.GR_KNOB_carry]) if ours else None
        if ctl.c.files:
            from gdbrr.demo import referred

            self._rows = referred.of_recording(ctl)

    def write(self, writer: Writer, log: Log, fd: int) -> None:
        if self._rows:
            from gdbrr.demo import referred

            stay, self.lost = referred.write(writer, self._rows, log.kept, fd, self._carry)
            self.stay = len(stay), sum(row.end - row.start for row in stay)


def overtaking(count: int) -> str:
    """What a recording with one thread at a time says when it was not that all the time."""
    times = "once" if count == 1 else f"{count:,} times"
    return (
        f"{times} a thread stayed in one operation for ten seconds while others waited, and went on beside the next;"
        " a data race there may replay differently"
    )


def _with_end(
    raw: bytes,
    ctl: Ctl,
    end: Mapping[str, Any] | None,
    stop: Mapping[str, Any] | None = None,
    noted: Mapping[str, Any] | None = None,
) -> bytes:
    """The manifest's text with the end in it, which only the control page or the caller knows."""
    try:
        manifest = texts.loads(raw.decode())
    except (ValueError, RecursionError):
        return raw  # parse() says it
    if isinstance(manifest, dict):
        manifest.pop("seal", None)  # that of the recording: the demo gets its own
        manifest = {**(noted or {}), **manifest}
        if end is not None:
            manifest["end"] = dict(end)
        elif ctl.c.end_kind in _END_KINDS:
            manifest["end"] = {"kind": _END_KINDS[ctl.c.end_kind], "value": int(ctl.c.end_value)}
        else:
            manifest.setdefault("end", {"kind": "unknown", "value": 0})
        if stop is not None:
            manifest["stop"] = dict(stop)
        return texts.dumps(manifest).encode()
    return raw


def manifest_of(recording: Path, ctl: Ctl) -> Manifest:
    """The manifest of a recording that goes on, or was not packed."""
    return parse(_with_end((recording / "manifest.json").read_bytes(), ctl, None))


def epoch_limits(ctl: Ctl) -> tuple[int, int]:
    """The knobs epoch_ticks and epoch_bytes that the recording ran under; 0 is a knob that was not set."""
    return ctl.c.knob[lib.GR_KNOB_epoch_ticks] or EPOCH_TICKS, ctl.c.knob[lib.GR_KNOB_epoch_bytes] or EPOCH_BYTES


def _packed(positions: list[int]) -> bytes:
    return struct.pack(f"<{len(positions)}Q", *positions)


class _State:
    """How far a log is packed."""

    def __init__(self) -> None:
        self.positions: list[int] = []
        """Operations of each thread so far."""
        self.epochs: list[tuple[int, int, int | None]] = []
        self.ticks = self.bytes = 0
        self.time = 0
        """The newest that an event carried."""
        self.epoch = (0, 0, 0)
        """Of the epoch under way: its first tick, the bytes in front of it, its time."""
        self.left: dict[int, list[tuple[bytes, int]]] = {}
        """Of each thread what is in its stream and not in the order, each piece with the stamp in front of it."""

    def copy(self) -> _State:
        result = _State()
        result.positions, result.epochs = list(self.positions), list(self.epochs)
        result.ticks, result.bytes, result.time, result.epoch = self.ticks, self.bytes, self.time, self.epoch
        result.left = {thread: list(pieces) for thread, pieces in self.left.items()}
        return result


if TYPE_CHECKING:
    from typing import Protocol

    from gdbrr.demo.referred import Referred

    class Sink(Protocol):
        """Where a packer puts what it makes; see Writer."""

        def stream(self, thread: int, raw: bytes, count: int, base: int, first: int, last: int) -> None: ...
        def order(self, runs: bytes, ticks: int, positions: bytes) -> None: ...


class Packer:
    """Merges the threads of a log by stamp, at once or, while it is written to, again and again."""

    def __init__(self, log: Log, epoch_ticks: int, epoch_bytes: int, progress: Progress | None = None) -> None:
        self._log = log
        self._epoch = (epoch_ticks, epoch_bytes)
        self.late = False
        """Marks of who waits stand where they cost a replay nothing."""
        self._progress = progress or (lambda what, done: None)
        self.state = _State()

    def run(self, sink: Sink, follow: bool = False) -> bool:
        """Pack what the log holds by now: each stream block is written when the merge first needs it.

        With FOLLOW every operation has the next stamp, up to the first one that is missing; False if one is.
        """
        state = self.state
        log, threads = self._log, max([*self._log.threads, len(state.positions) - 1], default=-1) + 1
        state.positions += [0] * (threads - len(state.positions))
        merge = ffi.gc(lib.gr_merge_new(threads), lib.gr_merge_free)
        if merge == ffi.NULL:
            raise MemoryError
        if self.late:
            lib.gr_merge_late(merge)
        if follow:
            lib.gr_merge_follow(merge, state.ticks + 1)
        sources = {thread: log.blocks(thread) for thread in log.threads}
        fed: dict[int, bytes] = {}
        runs = ffi.new("struct gr_run[]", fmt.ORDER_RUNS)
        positions = ffi.new("uint64_t[]", threads)
        first, before = list(state.positions), _packed(state.positions)
        count, ticks = ffi.new("size_t *"), ffi.new("uint64_t *", state.ticks)
        size, base = ffi.new("uint64_t *", state.bytes), ffi.new("uint64_t *")
        epoch_ticks, epoch_bytes = self._epoch
        while True:
            epoch_start, epoch_size, epoch_time = state.epoch
            last_epoch = len(state.epochs) >= fmt.MAX_EPOCHS - 1
            stop = min(state.ticks + fmt.ORDER_TICKS, _ALL if last_epoch else epoch_start + epoch_ticks)
            enough = _ALL if last_epoch else epoch_size + epoch_bytes
            answer = lib.gr_merge_step(merge, runs, fmt.ORDER_RUNS, count, ticks, stop, size, enough)
            thread = lib.gr_merge_needs(merge)
            if answer == lib.GR_MERGE_NEED:
                piece = self._next(thread, sources, sink)
                if piece is not None:
                    fed[thread] = piece[0]
                    lib.gr_merge_feed(merge, thread, ffi.from_buffer(piece[0]), len(piece[0]), piece[1])
                    continue
                if thread not in log.broken:
                    fed.pop(thread, None)  # there may be very many threads, one after the other
                    lib.gr_merge_feed(merge, thread, ffi.NULL, 0, 0)
                    continue
            elif answer == lib.GR_MERGE_BAD:
                log.lose(thread, "its stamps go back")
            # INVARIANT(streams-before-order): the blocks that hold these operations are already written.
            over = answer in (lib.GR_MERGE_DONE, lib.GR_MERGE_NEED, lib.GR_MERGE_BAD, lib.GR_MERGE_GAP)
            if count[0] and (over or answer == lib.GR_MERGE_ROOM or ticks[0] - state.ticks >= fmt.ORDER_TICKS):
                sink.order(bytes(ffi.buffer(runs))[: count[0] * fmt.RUN.size], ticks[0] - state.ticks, before)
                lib.gr_merge_positions(merge, positions)
                state.positions = [done + more for done, more in zip(first, positions, strict=True)]
                before = _packed(state.positions)
                state.ticks, state.bytes, count[0] = ticks[0], size[0], 0
                self._progress("packing", size[0] / max(log.used, 1))
            full = ticks[0] - epoch_start >= epoch_ticks or size[0] - epoch_size >= epoch_bytes
            state.time = max(state.time, lib.gr_merge_time(merge))
            if full and not last_epoch:
                state.epochs.append((epoch_start, size[0] - epoch_size, epoch_time))
                # What happened last in front of it: times are coarse, so its own first event may carry none.
                state.epoch = ticks[0], size[0], state.time * 1000
            if over:
                break
        if follow:
            self._keep(merge, fed, base, sources, sink)
        return bool(answer != lib.GR_MERGE_GAP)

    def _next(self, thread: int, sources: dict[int, Iterator[Block]], sink: Sink) -> tuple[bytes, int] | None:
        left = self.state.left.get(thread)
        if left:
            return left.pop(0)
        block = next(sources[thread], None) if thread in sources else None
        if block is None:
            return None
        sink.stream(thread, *block)
        return block.raw, block.base

    def _keep(
        self, merge: Any, fed: dict[int, bytes], base: Any, sources: dict[int, Iterator[Block]], sink: Sink
    ) -> None:
        """Of what is read already, what was not merged: streams have it, the order gets it the next time."""
        left = self.state.left
        for thread in sources:
            size = lib.gr_merge_left(merge, thread, base) if thread in fed else 0
            rest = [(fed[thread][-size:], int(base[0]))] if size else []
            rest += left.get(thread, [])
            left[thread] = []
            while (piece := self._next(thread, sources, sink)) is not None:
                rest.append(piece)
            left[thread] = rest

    def epochs(self) -> list[tuple[int, int, int | None]]:
        """All of them, with the one that is under way."""
        state = self.state
        start, size, time = state.epoch
        found = [*state.epochs, *([(start, state.bytes - size, time)] if state.ticks > start else [])]
        return found if state.time else [(start, size, None) for start, size, _ in found]
