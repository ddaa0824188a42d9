"""Writes a demo file, one block behind the other, never more than one of them in memory.

Runs in: the controller, tests. May call: zstandard, gdbrr.demo.format, gdbrr.demo.manifest.
Owns: the order in which blocks may come; everything in a file it finished can be read again.
"""

from __future__ import annotations

import zlib

from gdbrr.demo import format as fmt
from gdbrr.demo.format import Block, BlockType
from gdbrr.demo.manifest import Manifest, serialise
from gdbrr.errors import GdbrrError
from gdbrr.quick.rows import TYPE_CHECKING
from gdbrr.quick.zstd import zstandard

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import BinaryIO


class Writer:
    """Manifest first; a stream block before the order block that names its operations; then epochs and end."""

    def __init__(self, file: BinaryIO, manifest: Manifest) -> None:
        self._file = file
        self._zstd = zstandard.ZstdCompressor(level=fmt.ZSTD_LEVEL)
        self._headers = bytearray()
        self._offset = fmt.FILE_HEADER.size
        self._raw = 0
        self.ticks = 0
        self.stream_bytes = 0
        file.write(fmt.file_header())
        self._block(BlockType.MANIFEST, serialise(manifest))

    def stream(self, thread: int, raw: bytes, count: int, base: int, first: int, last: int) -> None:
        """`count` events of a thread behind the stamp `base`; whole events only."""
        self._block(BlockType.STREAM, raw, thread=thread, items=count, base=base, first=first, last=last)
        self.stream_bytes += len(raw)

    def order(self, runs: bytes, ticks: int, positions: bytes) -> None:
        """Runs (struct gr_run) of `ticks` operations; `positions` (u64) is how many each thread had before them."""
        threads, items = len(positions) // 8, len(runs) // fmt.RUN.size
        self._block(BlockType.ORDER, runs + positions, thread=threads, items=items, base=self.ticks, first=ticks)
        self.ticks += ticks

    def carried(self, number: int, piece: bytes, offset: int, size: int) -> None:
        """A piece of carried file NUMBER, of SIZE bytes; its pieces come in their order."""
        self._block(BlockType.CARRIED, piece, thread=number, base=size, first=offset)

    def files(self, rows: bytes, count: int) -> None:
        """What the demo refers to (gdbrr.demo.referred)."""
        self._block(BlockType.FILES, rows, items=count)

    def content(self, number: int, piece: bytes, offset: int, size: int) -> None:
        """A piece of the contents of file NUMBER of that list, which has SIZE bytes."""
        self._block(BlockType.CONTENT, piece, thread=number, base=size, first=offset)

    def finish(self, epochs: Iterable[tuple[int, int, int | None]]) -> int:
        """Epochs as (first tick, bytes, nanoseconds or None), the end, the index; returns the size of the file."""
        rows = [fmt.EPOCH.pack(t, n, fmt.UNKNOWN_TIME if ns is None else ns) for t, n, ns in epochs]
        self._block(BlockType.EPOCHS, b"".join(rows), items=len(rows))
        self._block(BlockType.END, b"", base=self.ticks, first=self.stream_bytes)
        index = self._offset
        headers = bytes(self._headers)
        header = self._block(BlockType.INDEX, headers, items=len(headers) // fmt.BLOCK_HEADER.size)
        self._file.write(fmt.TRAILER.pack(index, zlib.crc32(header), fmt.TRAILER_MAGIC))
        self._file.flush()
        return self._offset + fmt.TRAILER.size

    def mark(self) -> tuple[int, ...]:
        """For `back`: a demo that was finished can be gone on with, from where it was."""
        return self._offset, len(self._headers), self._raw, self.ticks, self.stream_bytes

    def back(self, mark: tuple[int, ...]) -> None:
        self._offset, headers, self._raw, self.ticks, self.stream_bytes = mark
        del self._headers[headers:]
        self._file.seek(self._offset)
        self._file.truncate()

    def _block(
        self, kind: int, raw: bytes, thread: int = 0, items: int = 0, base: int = 0, first: int = 0, last: int = 0
    ) -> bytes:
        flags, stored = fmt.compress(raw, self._zstd)
        block = Block(kind, flags, thread, items, len(raw), len(stored), base, first, last, zlib.crc32(stored))
        header = block.pack()
        try:
            Block.unpack(header)  # whatever the reader would refuse is refused here, by name
        except fmt.BadBlock as error:
            raise GdbrrError(str(error), hint="record less, or with smaller buffers") from None
        self._raw += len(raw)
        if len(self._headers) >= fmt.MAX_BLOCKS * fmt.BLOCK_HEADER.size or self._raw > fmt.MAX_RAW_TOTAL:
            raise GdbrrError("the recording is too large for one demo", hint="record less, see: gdbrr profiles")
        self._file.write(header)
        self._file.write(stored)
        self._headers += header
        self._offset += len(header) + len(stored)
        return header
