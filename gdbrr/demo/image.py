"""Unpacks a demo into the image file that a replay maps (struct gr_image in abi.h).

Runs in: the controller, the server. May call: gdbrr.abi, gdbrr.demo.
Owns: the layout of the image: header, stream table, runs, then every thread's events in one piece; how one grows.
"""

from __future__ import annotations

import os

from gdbrr.abi import ABI_VERSION, ffi, lib
from gdbrr.demo.format import MAX_THREADS
from gdbrr.demo.reader import Demo
from gdbrr.errors import GdbrrError
from gdbrr.quick.paths import Path
from gdbrr.quick.rows import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Progress = Callable[[str, float], None]


_HEAD: int = ffi.sizeof("struct gr_image")
_STREAM: int = ffi.sizeof("struct gr_stream")
_RUN: int = ffi.sizeof("struct gr_run")
_LEAST = 1 << 16
_LEFT_TO_OTHERS = 20
"""The part of a file system that no image takes."""
_PIECE = 1 << 20
_EVENT = 3
"""No event takes fewer bytes."""
_MOVES = 8
"""Bytes that streams may take, in bytes of log: a place is twice as large as what it holds, and the old ones stay."""


class ImageInfo(NamedTuple):
    path: Path
    threads: int
    ticks: int
    runs: int
    bytes: int


def write_image(demo: Demo, path: Path, progress: Progress | None = None) -> ImageInfo:
    """Write the image of all readable ticks of `demo` to `path`; only its owner may read it.

    Every event is decoded once here, so that the engine never meets one that is not valid.
    """
    if demo.manifest["abi"] != ABI_VERSION:
        raise GdbrrError(
            f"{demo.path} was recorded by an engine with ABI {demo.manifest['abi']}, this one has {ABI_VERSION}",
            hint=f"replay it with gdbrr {demo.manifest['gdbrr']}",
        )
    operations = demo.operations()
    runs = demo.run_count
    need = _HEAD + len(operations) * _STREAM + runs * _RUN + demo.stream_bytes
    place = Path(os.path.realpath(path)).parent  # a file without a name is known by its descriptor
    free = os.statvfs(place)
    # A few bytes of a demo may stand for very many, and the place may be memory (tmpfs): something is left to others.
    if need > (free.f_bavail - free.f_blocks // _LEFT_TO_OTHERS) * free.f_frsize:
        raise GdbrrError(f"{place} has no room for {need} bytes", hint="make room, or set TMPDIR")
    try:
        with open(path, "wb", opener=lambda name, flags: os.open(name, flags | os.O_CLOEXEC, 0o600)) as file:
            table = ffi.new("struct gr_stream[]", len(operations))
            file.seek(_HEAD + len(operations) * _STREAM)
            for which in range(demo.order_blocks):
                file.write(demo.order(which)[1].tobytes())
            for thread, ops in enumerate(operations):
                table[thread].off, table[thread].ops = file.tell(), ops
                for piece in _pieces(demo, thread, ops):
                    file.write(piece)
                    if progress:
                        progress("unpacking", file.tell() / need)
                table[thread].len = file.tell() - table[thread].off
            size = file.tell()
            head: Any = ffi.new("struct gr_image *")
            head.magic, head.abi, head.threads = lib.GR_IMAGE_MAGIC, ABI_VERSION, len(operations)
            head.ticks, head.runs = demo.ticks, runs
            head.streams_off, head.runs_off = _HEAD, _HEAD + len(operations) * _STREAM
            file.seek(0)
            file.write(bytes(ffi.buffer(head)) + bytes(ffi.buffer(table)))
    except OSError as error:
        raise GdbrrError(f"{place} cannot be written: {error.strerror}", hint="make room, or set TMPDIR") from None
    return ImageInfo(path, len(operations), demo.ticks, runs, size)


def _pieces(demo: Demo, thread: int, ops: int) -> Iterator[bytes]:
    """The bytes of the first `ops` operations of a thread. Stamps are deltas, so blocks can be joined as they are."""
    numbers, until = demo.stream_blocks(thread)
    done = 0
    span = ffi.new("struct gr_span *")
    for number, end in zip(numbers, until, strict=True):
        if done >= ops:
            return
        block, raw = demo.block(number), demo.content(number)
        lib.gr_span_scan(ffi.from_buffer(raw), len(raw), block.items, block.base, span)
        if (span.events, span.bytes, span.first, span.last) != (block.items, len(raw), block.first, block.last):
            raise demo.broken(f"a stream block of thread {thread} holds no valid events")
        if end > ops:
            lib.gr_span_scan(ffi.from_buffer(raw), len(raw), ops - done, block.base, span)
            raw = raw[: span.bytes]
        yield raw
        done = end


def write_image_from_recording(recording: Path, path: Path, progress: Progress | None = None) -> ImageInfo:
    """The same for a recording that is not packed yet and goes on existing."""
    import tempfile

    from gdbrr.demo.pack import pack

    with tempfile.TemporaryDirectory(prefix="gdbrr-", dir=path.parent) as scratch:
        packed = Path(scratch) / "live.demo"
        pack(recording, packed, keep=True, progress=progress)
        with Demo.open(packed) as demo:
            return write_image(demo, path, progress)


class _Row:
    """Where a thread's stream lies."""

    def __init__(self) -> None:
        self.off = self.len = self.ops = self.room = 0


class GrowingImage:
    """The image of a recording that goes on, in a file of reserved size without content (a Sink of gdbrr.demo.pack).

    What is put into it shows to the processes of its replay with `publish`. See INVARIANT(grows-behind) in abi.h.
    """

    def __init__(self, fd: int, log_limit: int) -> None:
        tables = MAX_THREADS * _STREAM
        self._fd = fd
        self._tables = [_LEAST, _LEAST + tables]
        self._runs_off = _LEAST + 2 * tables
        self._free = self._runs_off + _RUN * (log_limit // _EVENT)
        self._rows: list[_Row] = []
        self._runs = self._ticks = self._grown = 0
        self.bytes = self._free + _MOVES * log_limit
        try:
            os.ftruncate(fd, self.bytes)
        except OSError as error:
            raise GdbrrError(
                f"no file of {self.bytes} bytes can be made: {error.strerror}", "lower limits.log"
            ) from None

    def stream(self, thread: int, raw: bytes, count: int, base: int, first: int, last: int) -> None:
        if thread >= MAX_THREADS:
            raise GdbrrError(f"more than {MAX_THREADS} threads", "let the program make fewer")
        while len(self._rows) <= thread:
            self._rows.append(_Row())
        row = self._rows[thread]
        if row.len + len(raw) > row.room:
            self._move(row, len(raw))
        os.pwrite(self._fd, raw, row.off + row.len)
        row.len, row.ops = row.len + len(raw), row.ops + count

    def _move(self, row: _Row, more: int) -> None:
        """To a place twice as large, behind everything. Who reads the old one reads the same."""
        room = max(_LEAST, 2 * (row.len + more)) // _LEAST * _LEAST
        if self._free + room > self.bytes:
            raise GdbrrError("the log is larger than its limit", "record less")
        for at in range(0, row.len, _PIECE):
            piece = os.pread(self._fd, min(_PIECE, row.len - at), row.off + at)
            os.pwrite(self._fd, piece, self._free + at)
        row.off, row.room = self._free, room
        self._free += room

    def order(self, runs: bytes, ticks: int, positions: bytes) -> None:
        os.pwrite(self._fd, runs, self._runs_off + self._runs * _RUN)
        self._runs += len(runs) // _RUN
        self._ticks += ticks

    def mark(self) -> tuple[int, int]:
        """For `back`: order that is put behind it can be taken out again; streams stay."""
        return self._runs, self._ticks

    def back(self, mark: tuple[int, int]) -> None:
        self._runs, self._ticks = mark

    def publish(self) -> None:
        """Let everybody see what is there by now."""
        table = ffi.new("struct gr_stream[]", len(self._rows))
        for at, row in enumerate(self._rows):
            table[at].off, table[at].len, table[at].ops = row.off, row.len, row.ops
        off = self._tables[self._grown % 2]
        os.pwrite(self._fd, bytes(ffi.buffer(table)), off)
        head: Any = ffi.new("struct gr_image *")
        head.magic, head.abi, head.threads = lib.GR_IMAGE_MAGIC, ABI_VERSION, len(self._rows)
        head.ticks, head.runs, head.streams_off, head.runs_off = self._ticks, self._runs, off, self._runs_off
        head.grown = self._grown
        os.pwrite(self._fd, bytes(ffi.buffer(head)), 0)
        self._grown += 1
        os.pwrite(self._fd, self._grown.to_bytes(4, "little"), ffi.offsetof("struct gr_image", "grown"))
