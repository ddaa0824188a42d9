"""A demo's seal: a number that only a holder of its maker's key can make, over every byte of the demo.

Runs in: the controller, the server, tests. May call: gdbrr.demo.format.
Owns: where the seal is in a file, and what it is of. INVARIANT(seal-of-all): all bytes in front of it and the trailer
behind it are in it, so no other index, order or block can be put into a sealed demo.
"""

from __future__ import annotations

import os
import zlib

from gdbrr.demo import format as fmt
from gdbrr.demo.format import BadBlock, Block, BlockType
from gdbrr.quick.hashes import blake2b, same
from gdbrr.quick.rows import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import BinaryIO

_SIZE = fmt.SEAL_SIZE
_WHOLE = fmt.BLOCK_HEADER.size + _SIZE
_PIECE = 1 << 20
_DEMO = b"gdbrr demo"


def put(file: BinaryIO, key: bytes) -> int:
    """Seal a demo that was just finished; returns its size."""
    file.flush()
    fd = file.fileno()
    at = os.fstat(fd).st_size - fmt.TRAILER.size
    trailer = os.pread(fd, fmt.TRAILER.size, at)
    tag = _of(fd, at, trailer, key)
    header = Block(BlockType.SEAL, 0, 0, 0, _SIZE, _SIZE, 0, 0, 0, zlib.crc32(tag)).pack()
    file.seek(at)
    file.write(header + tag + trailer)
    file.flush()
    return at + _WHOLE + fmt.TRAILER.size


def fits(fd: int, key: bytes) -> bool:
    """Whether the demo in FD was sealed with KEY and is as it was then."""
    end = os.fstat(fd).st_size - fmt.TRAILER.size
    at = end - _WHOLE
    if at < fmt.FILE_HEADER.size:
        return False
    raw = os.pread(fd, _WHOLE, at)
    try:
        block = Block.unpack(raw[: fmt.BLOCK_HEADER.size])
    except BadBlock:
        return False
    if block.type != BlockType.SEAL or block.stored != _SIZE:
        return False
    trailer = os.pread(fd, fmt.TRAILER.size, end)
    return same(_of(fd, at, trailer, key), raw[fmt.BLOCK_HEADER.size :])


def _of(fd: int, size: int, trailer: bytes, key: bytes) -> bytes:
    seen = blake2b(key=key, digest_size=_SIZE, person=_DEMO)
    for at in range(0, size, _PIECE):
        seen.update(os.pread(fd, min(_PIECE, size - at), at))
    seen.update(trailer)
    return seen.digest()
