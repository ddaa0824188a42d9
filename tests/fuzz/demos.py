"""Makes demo files block by block, also such as no writer of gdbrr would make.

Runs in: tests. May call: gdbrr.demo.
Owns: small_demo(), from which hostile demos are bent.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

from fuzz.recordings import manifest
from gdbrr.demo import format as fmt
from gdbrr.demo.format import Block, BlockType
from gdbrr.demo.manifest import serialise

HEAD = fmt.BLOCK_HEADER.size


def blocks(raw: bytes) -> list[tuple[int, Block]]:
    """Offset and header of every block of a whole demo."""
    at, found = fmt.FILE_HEADER.size, []
    while at + HEAD <= len(raw):
        found.append((at, Block.unpack(raw[at : at + HEAD])))
        at += HEAD + found[-1][1].stored
    return found


def block(kind: int, content: bytes = b"", stored: bytes | None = None, **fields: int) -> bytes:
    """A block with the right checksums and whatever else is told."""
    stored = content if stored is None else stored
    values: dict[str, Any] = dict.fromkeys(Block._fields, 0)
    values.update(type=kind, raw=len(content), stored=len(stored), crc=zlib.crc32(stored))
    values.update(fields)
    return Block(**values).pack() + stored


def small_demo(path: Path, *between: bytes, version: tuple[int, int] = fmt.FORMAT, text: bytes | None = None) -> Path:
    """A demo of one thread and one operation, with blocks of one's own in front of its order."""
    head = fmt.FILE_HEADER.pack(fmt.MAGIC, *version, 0)[:-4]
    parts = [head, struct.pack("<I", zlib.crc32(head))]
    parts += [block(BlockType.MANIFEST, serialise(manifest()) if text is None else text)]
    parts += [block(BlockType.STREAM, bytes((1, 0, 1)), items=1, first=1, last=1), *between]
    parts += [block(BlockType.ORDER, struct.pack("<IIQ", 0, 1, 0), thread=1, items=1, first=1)]
    parts += [block(BlockType.EPOCHS, struct.pack("<QQQ", 0, 3, 1_500_000_000), items=1)]
    parts += [block(BlockType.END, base=1, first=3)]
    path.write_bytes(b"".join(parts))
    return path


def with_block(raw: bytes, number: int, new: bytes) -> bytes:
    """The demo with one block replaced."""
    at, old = blocks(raw)[number]
    return raw[:at] + new + raw[at + HEAD + old.stored :]
