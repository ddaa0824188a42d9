"""Unpacks a demo into the image file that a replay maps (struct gr_image in abi.h).

Runs in: the controller, the server. May call: gdbrr.abi, gdbrr.demo.
Owns: the layout of the image: header, stream table, runs, then every thread's events in one piece.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from gdbrr.abi import ABI_VERSION, ffi, lib
from gdbrr.demo.pack import pack
from gdbrr.demo.reader import Demo
from gdbrr.errors import GdbrrError

Progress = Callable[[str, float], None]

_HEAD: int = ffi.sizeof("struct gr_image")
_STREAM: int = ffi.sizeof("struct gr_stream")
_RUN: int = ffi.sizeof("struct gr_run")


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
    if need > free.f_bavail * free.f_frsize:
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

    with tempfile.TemporaryDirectory(prefix="gdbrr-", dir=path.parent) as scratch:
        packed = Path(scratch) / "live.demo"
        pack(recording, packed, keep=True, progress=progress)
        with Demo.open(packed) as demo:
            return write_image(demo, path, progress)
