"""The bytes of a demo file: header, block headers, trailer, limits. docs/demo-format.md says the same in words.

Runs in: the controller, the server, tests. May call: zstandard, gdbrr.errors.
Owns: FORMAT, every limit on what a demo may claim, and the checks of one block taken by itself.
"""

from __future__ import annotations

import struct
import zlib

from gdbrr.errors import GdbrrError
from gdbrr.quick.rows import TYPE_CHECKING, NamedTuple
from gdbrr.quick.zstd import zstandard

if TYPE_CHECKING:
    from collections.abc import Callable

FORMAT = (3, 4)
"""Major: a reader refuses newer ones. Minor: what is new may be skipped."""
OLDEST_MAJOR = 1
"""1: events have no times, and the first one of a thread does not name it. 2: each operation has an event."""

MAGIC = b"\x8bGDBRR\r\n"
FILE_HEADER = struct.Struct("<8sHHI")  # magic, major, minor, crc32 of what stands before
BLOCK_MAGIC = 0x4B4C4247  # "GBLK"
BLOCK_HEADER = struct.Struct("<IBBHIIIIQQQII")
TRAILER = struct.Struct("<QI8s")  # offset of the index block, crc32 of it, magic
TRAILER_MAGIC = b"gdbrrend"

STREAM_RAW = 256 << 10
"""A stream block of more than one event is at most this long before compression."""
RUN_OPS = 65535
"""Operations that one event, a run, can stand for."""
BLOCK_RAW = 64 << 20
"""No block is longer than this before compression; so no operation carries more."""
MANIFEST_RAW = 8 << 20
ORDER_RUNS = 16384
"""The writer ends an order block at this many runs ..."""
ORDER_TICKS = 65536
"""... or ticks."""
MAX_ORDER_RUNS = 65536
MAX_BLOCKS = 1 << 20
MAX_THREADS = 1 << 16
MAX_EPOCHS = 1 << 18
MAX_RAW_TOTAL = 1 << 40
MAX_FILES = 256
"""Large files that a demo refers to."""
MAX_CARRIED = 4096
"""Files that a packed demo may bring along ..."""
MAX_CARRIED_BYTES = 4 << 30
"""... and their bytes together."""

SEAL_SIZE = 32
FLAG_ZSTD = 1
UNKNOWN_TIME = (1 << 64) - 1
RUN = struct.Struct("<II")  # thread, count
EPOCH = struct.Struct("<QQQ")  # first tick, bytes of its events, nanoseconds since the start or UNKNOWN_TIME

ZSTD_LEVEL = 3


class BlockType:
    MANIFEST = 1
    STREAM = 2
    ORDER = 3
    EPOCHS = 4
    END = 5
    INDEX = 6
    CARRIED = 128
    SEAL = 129
    FILES = 130
    CONTENT = 131


OPTIONAL = 0x80
"""Block types from here on may be skipped by a reader that does not know them."""


class BadBlock(Exception):
    """A block is not what its checksums promise, or promises what no demo may hold. Never leaves gdbrr.demo."""


class Block(NamedTuple):
    """One block header. What thread, items, base, first and last mean depends on the type (docs/demo-format.md)."""

    type: int
    flags: int
    thread: int
    items: int
    raw: int
    stored: int
    base: int
    first: int
    last: int
    crc: int

    def pack(self) -> bytes:
        fields = (BLOCK_MAGIC, self.type, self.flags, 0, self.thread, self.items, self.raw, self.stored)
        head = BLOCK_HEADER.pack(*fields, self.base, self.first, self.last, self.crc, 0)
        return head[:-4] + struct.pack("<I", zlib.crc32(head[:-4]))

    @classmethod
    def unpack(cls, data: bytes) -> Block:
        """Read a header and check everything that can be checked without the rest of the file."""
        if len(data) < BLOCK_HEADER.size:
            raise BadBlock("the file is cut off in a block header")
        magic, kind, flags, zero, *fields, crc = BLOCK_HEADER.unpack(data)
        if magic != BLOCK_MAGIC or zlib.crc32(data[: BLOCK_HEADER.size - 4]) != crc:
            raise BadBlock("a block header is damaged")
        block = cls(kind, flags, *fields)
        if zero or flags & ~FLAG_ZSTD or not (flags or block.raw == block.stored):
            raise BadBlock("a block header makes no sense")
        if block.raw > BLOCK_RAW or block.stored > BLOCK_RAW:
            raise BadBlock(f"a block claims {max(block.raw, block.stored)} bytes; the limit is {BLOCK_RAW}")
        check = _CHECKS.get(kind)
        if check and not check(block):
            raise BadBlock(f"{name(block)} makes no sense")
        return block


def _good_stream(b: Block) -> bool:
    return (
        b.thread < MAX_THREADS
        and 1 <= b.items <= b.raw // 3 * RUN_OPS
        and (b.raw <= STREAM_RAW or b.items == 1)
        and b.base <= b.first <= b.last
    )


def _good_order(b: Block) -> bool:
    return (
        1 <= b.items <= MAX_ORDER_RUNS
        and 1 <= b.thread <= MAX_THREADS
        and b.raw == b.items * RUN.size + b.thread * 8
        and b.items <= b.first < 1 << 48
        and b.base < 1 << 48
    )


def _good_carried(b: Block) -> bool:
    return b.thread < MAX_CARRIED and b.first + b.raw <= b.base <= MAX_CARRIED_BYTES


def _good_content(b: Block) -> bool:
    return b.thread < MAX_FILES and b.raw > 0 and b.first + b.raw <= b.base < 1 << 63


_CHECKS: dict[int, Callable[[Block], bool]] = {
    BlockType.MANIFEST: lambda b: b.raw <= MANIFEST_RAW,
    BlockType.STREAM: _good_stream,
    BlockType.ORDER: _good_order,
    BlockType.EPOCHS: lambda b: b.items <= MAX_EPOCHS and b.raw == b.items * EPOCH.size,
    BlockType.END: lambda b: b.raw == 0,
    BlockType.CARRIED: _good_carried,
    BlockType.FILES: lambda b: b.raw <= MANIFEST_RAW and b.items <= MAX_FILES,
    BlockType.CONTENT: _good_content,
    BlockType.SEAL: lambda b: b.raw == b.stored == SEAL_SIZE,
    BlockType.INDEX: lambda b: b.items <= MAX_BLOCKS and b.raw == b.items * BLOCK_HEADER.size,
}


def name(block: Block) -> str:
    """How a block is called in front of a user."""
    if block.type == BlockType.STREAM:
        return f"a stream block of thread {block.thread}"
    if block.type == BlockType.ORDER:
        return f"the order block of tick {block.base}"
    if block.type == BlockType.CARRIED:
        return f"a piece of carried file {block.thread}"
    if block.type == BlockType.CONTENT:
        return f"a piece of the contents of file {block.thread}"
    if block.type == BlockType.FILES:
        return "the list of files"
    known = {BlockType.MANIFEST: "the manifest", BlockType.EPOCHS: "the epoch block", BlockType.END: "the end block"}
    known |= {BlockType.INDEX: "the index", BlockType.SEAL: "the seal"}
    return known.get(block.type, f"block type {block.type}")


def compress(raw: bytes, compressor: zstandard.ZstdCompressor) -> tuple[int, bytes]:
    """Flags and stored bytes of a block: zstd where it helps."""
    packed = compressor.compress(raw)
    return (FLAG_ZSTD, packed) if len(packed) < len(raw) else (0, raw)


def decompress(block: Block, stored: bytes, decompressor: zstandard.ZstdDecompressor) -> bytes:
    """The block's content; refuses what lies about its length before a byte of it is allocated."""
    if len(stored) != block.stored or zlib.crc32(stored) != block.crc:
        raise BadBlock(f"{name(block)} is damaged")
    if not block.flags & FLAG_ZSTD:
        return stored
    try:
        if zstandard.frame_content_size(stored) != block.raw:
            raise BadBlock(f"{name(block)} lies about its length")
        raw: bytes = decompressor.decompress(stored, max_output_size=block.raw, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise BadBlock(f"{name(block)} cannot be decompressed") from error
    if len(raw) != block.raw:
        raise BadBlock(f"{name(block)} lies about its length")
    return raw


def file_header() -> bytes:
    head = FILE_HEADER.pack(MAGIC, *FORMAT, 0)[:-4]
    return head + struct.pack("<I", zlib.crc32(head))


def check_file_header(data: bytes, path: object) -> tuple[int, int]:
    """The format version of a demo, or a GdbrrError that says why this is none."""
    if len(data) < FILE_HEADER.size or data[: len(MAGIC)] != MAGIC:
        hint = "a demo is made by: gdbrr record PROGRAM"
        if data[1:6] == MAGIC[1:6]:
            hint = "it was copied as text or cut off; copy it again in binary"
        raise GdbrrError(f"{path} is not a demo", hint=hint)
    _, major, minor, crc = FILE_HEADER.unpack(data[: FILE_HEADER.size])
    if zlib.crc32(data[: FILE_HEADER.size - 4]) != crc:
        raise GdbrrError(f"the header of {path} is damaged", hint="copy the demo again from where it was recorded")
    if not OLDEST_MAJOR <= major <= FORMAT[0]:
        raise GdbrrError(
            f"{path} has demo format {major}.{minor}, this gdbrr reads up to {FORMAT[0]}.x",
            hint="open it with the gdbrr that recorded it",
        )
    return major, minor
