"""The file `drained` of a recording: chunks that were taken out of its log while the program ran.

Runs in: the controller (beside the program and behind it). May call: zstandard, gdbrr.abi.
Owns: the bytes of that file. It is one record behind the other, the last of which may be cut off.
"""

from __future__ import annotations

import os
import struct
import zlib

from gdbrr.abi import ffi
from gdbrr.quick.rows import TYPE_CHECKING, NamedTuple
from gdbrr.quick.zstd import zstandard

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

    Buffer = bytes  # cffi's, too

NAME = "drained"
LEVEL = -3
"""It is packed again, with what is around it."""
_MAGIC = 0x4E524447  # "GDRN"
_HEADER = struct.Struct("<IBxxxIIII")  # magic, flags, chunks, raw bytes, stored bytes, crc32 of those
_ZSTD = 1
MOST = 16 << 20
"""Bytes that a record holds at most."""
_CHUNK: int = ffi.sizeof("struct gr_chunk")
_KEPT = 8
"""Records that a reader keeps: its threads are in about the same place, each in its own."""


class Record(NamedTuple):
    offset: int
    """Of its headers, behind which stands what is stored."""
    flags: int
    chunks: int
    raw: int
    stored: int
    crc: int


def packer() -> zstandard.ZstdCompressor:
    return zstandard.ZstdCompressor(level=LEVEL)


def record(heads: Buffer, raw: Buffer, packer: zstandard.ZstdCompressor) -> list[Buffer]:
    """Whole chunks: the header of each, and behind all of them what is used of each."""
    packed = packer.compress(raw)
    flags, stored = (_ZSTD, packed) if len(packed) < len(raw) else (0, raw)
    head = _HEADER.pack(
        _MAGIC, flags, len(heads) // _CHUNK, len(raw), len(stored), zlib.crc32(stored, zlib.crc32(heads))
    )
    return [head, heads, stored]


class Drained:
    """What was taken out; whatever cannot be read of it ends it."""

    def __init__(self, file: IO[bytes] | None) -> None:
        """None: nothing was."""
        self._file = file
        self._fd = file.fileno() if file else -1
        self._zstd = zstandard.ZstdDecompressor(max_window_size=MOST)
        self._bodies: dict[int, bytes] = {}
        self._records = list(self._find()) if file else []

    def __enter__(self) -> Drained:
        return self

    def __exit__(self, *why: object) -> None:
        if self._file:
            self._file.close()

    def _find(self) -> Iterator[Record]:
        size, at = os.fstat(self._fd).st_size, 0
        while len(head := os.pread(self._fd, _HEADER.size, at)) == _HEADER.size:
            magic, flags, chunks, raw, stored, crc = _HEADER.unpack(head)
            at += _HEADER.size
            behind = at + chunks * _CHUNK + stored
            if magic != _MAGIC or not 0 < chunks <= MOST // _CHUNK or not 0 < stored <= raw <= MOST or behind > size:
                return
            yield Record(at, flags, chunks, raw, stored, crc)
            at = behind

    def body(self, number: int) -> bytes:
        """The bytes of a record; none where it is damaged."""
        found = self._bodies.pop(number, None)
        if found is None:
            found = self._read(self._records[number])
            while len(self._bodies) >= _KEPT:
                del self._bodies[next(iter(self._bodies))]
        self._bodies[number] = found  # the newest
        return found

    def _read(self, record: Record) -> bytes:
        heads = record.chunks * _CHUNK
        whole = memoryview(os.pread(self._fd, heads + record.stored, record.offset))
        if zlib.crc32(whole) != record.crc:
            return b""
        stored = bytes(whole[heads:])
        if record.flags != _ZSTD:
            return stored
        try:
            if zstandard.frame_content_size(stored) != record.raw:
                return b""
            raw: bytes = self._zstd.decompress(stored, max_output_size=record.raw, allow_extra_data=False)
        except zstandard.ZstdError:
            return b""
        return raw

    def chunks(self) -> Iterator[tuple[int, int, bytes]]:
        """Of each chunk the number of its record, where its bytes begin there, and its header."""
        for number, record in enumerate(self._records):
            heads, at = os.pread(self._fd, record.chunks * _CHUNK, record.offset), 0
            for start in range(0, len(heads), _CHUNK):
                head = heads[start : start + _CHUNK]
                yield number, at, head
                at += ffi.from_buffer("struct gr_chunk *", head).used
