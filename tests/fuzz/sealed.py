"""Bends what the events of a demo say and seals its blocks again: every checksum is right, only the meaning is not.

Runs in: tests/fuzz. May call: gdbrr.abi, gdbrr.demo.
Owns: bend_events, the mutation that comes behind every check of form; the events of all shapes that it begins with.
"""

from __future__ import annotations

import random
import struct
import zlib
from typing import Any

from fuzz.demos import HEAD
from fuzz.recordings import Op
from gdbrr.abi import ffi, lib
from gdbrr.config import tables
from gdbrr.demo import format as fmt
from gdbrr.demo.format import Block, BlockType

NUMBERS = (0, 1, 2, 3, 4, 7, 8, 24, 127, 128, 255, 4095, 65535, 65536, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)
WIDE = (*NUMBERS, 1 << 32, 1 << 47, 1 << 48, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
_FIELDS = ("kind", "nr", "object", "result", "check", "flags", "data", "data", "data", "time")
_STORE = struct.Struct("<QQII")


def rich_ops() -> list[Op]:
    """Calls with outputs and stores, signals, digests, births, waits: all whose contents somebody takes apart."""
    numbers = {row.name: row.nr + 1 for row in tables.syscalls()}
    ops = [Op(0, lib.GR_OP_START, result=100, data=bytes((1, 2, 2)))]

    def call(name: str, result: int, outputs: tuple[bytes, ...] = (), stores: bytes = b"", flags: int = 0) -> None:
        held = b"".join(struct.pack("<I", len(raw)) + raw for raw in outputs)
        if stores:
            held += struct.pack("<I", len(stores)) + stores
        ops.append(Op(0, lib.GR_OP_SYS_START, nr=numbers[name], check=77))
        ops.append(
            Op(0, lib.GR_OP_SYS_END, nr=numbers[name], result=result, object=len(stores), data=held, flags=flags)
        )

    store = _STORE.pack(0x7FFFF7DD1000, 5, 0, 0) + b"hello\0\0\0" + _STORE.pack(0x7FFFF7DD2000, 4096, 1, 0)
    call("openat", 3, flags=129)
    call("read", 12, (b"secret words",))
    call("pipe2", 0, (struct.pack("<ii", 4, 5),))
    call("read", 5, (b"hello",), store)
    call("wait4", 9, (bytes(4), bytes(144)), store)
    call("dup", 6, flags=129)
    call("close", 0)
    ops += [
        Op(0, lib.GR_OP_DATA, data=b"more of it", object=0x7000),
        Op(0, lib.GR_OP_SIGNAL, nr=10, flags=3, data=bytes(range(128))),
        Op(0, lib.GR_OP_CREATE, object=0x7FFFF7C00000),
        Op(0, lib.GR_OP_SYS_START, nr=numbers["clone"], object=1),
        Op(1, lib.GR_OP_START, result=101),
        Op(0, lib.GR_OP_SYS_END, nr=numbers["clone"], result=101),
        Op(0, lib.GR_OP_MUTEX_LOCK, object=0x5000),
        Op(1, lib.GR_OP_BLOCK, object=0x5000, result=lib.GR_OP_MUTEX_LOCK, check=1),
        Op(0, lib.GR_OP_COND_WAIT, object=0x5100, result=0x5000),
        Op(0, lib.GR_OP_COND_WOKEN, object=0x5100),
        Op(0, lib.GR_OP_DIGEST, data=_digest()),
        Op(0, lib.GR_OP_PREEMPT, data=bytes(64)),
        Op(0, lib.GR_OP_BLOCK, object=0x7FFFF7C00000, result=lib.GR_OP_JOIN),
        Op(1, lib.GR_OP_LIBRARY_LOCK, object=0x6000),
        Op(1, lib.GR_OP_FAULT, nr=11, data=bytes(128)),
    ]
    return ops


def _digest() -> bytes:
    head, row = ffi.new("struct gr_digest *"), ffi.new("struct gr_regs *")
    head.threads, head.ranges = 1, 1
    extent, group = ffi.new("struct gr_digest_range *"), ffi.new("struct gr_digest_group *")
    extent.start, extent.end, extent.groups = 0x1000, 0x3000, 1
    group.start, group.pages = 0x1000, 3
    return b"".join(bytes(ffi.buffer(part)) for part in (head, row, extent, group)) + bytes(8)


def bend_events(rng: random.Random, header: Block, content: bytes) -> tuple[Block, bytes]:
    """A stream block like this one, some of whose events say something else. Stamps and counts stay: the order fits."""
    event, last = ffi.new("struct gr_event *"), ffi.new("uint64_t *", header.base)
    before = ffi.new("uint64_t *", header.base)
    room = ffi.new("uint8_t[]", 4096 + len(content))
    parts, at, chosen = [], 0, {rng.randrange(max(header.items, 1)) for _ in range(rng.choice((1, 1, 2, 8)))}
    number = 0
    while at < len(content):
        took = lib.gr_event_decode(ffi.from_buffer(content) + at, len(content) - at, event, last)
        if not took:
            return header, content
        held = bytearray(ffi.buffer(event.data, event.len)) if event.len else bytearray()
        if number in chosen and event.kind != lib.GR_OP_RUN:
            _bend(rng, event, held)
        keep = ffi.from_buffer(held) if held else ffi.NULL
        event.data, event.len = keep, len(held)
        size = lib.gr_event_encode(room, event, before)
        parts.append(bytes(ffi.buffer(room, size)))
        at += took
        number += 1
    raw = b"".join(parts)
    return header._replace(raw=len(raw)), raw


def _bend(rng: random.Random, event: Any, held: bytearray) -> None:
    for _ in range(rng.choice((1, 1, 2))):
        what = rng.choice(_FIELDS)
        if what == "kind":
            event.kind = rng.choice([kind for kind in range(1, lib.GR_OP_TURN + 1) if kind != lib.GR_OP_RUN])
        elif what == "nr":
            event.nr = rng.choice((0, 1, 2, rng.randrange(470), 512, 65535))
        elif what == "object":
            event.object = rng.choice((*WIDE, len(held), len(held) + 1, max(len(held) - 4, 0)))
        elif what == "result":
            event.result = rng.choice((*NUMBERS, -1, -4095, -(1 << 63), (1 << 63) - 1))
        elif what == "check":
            event.check = rng.choice(NUMBERS)
        elif what == "flags":
            event.flags = rng.randrange(256)
        elif what == "time":
            event.time = rng.choice(WIDE)
        else:
            _bend_data(rng, held)


def _bend_data(rng: random.Random, held: bytearray) -> None:
    how = rng.randrange(4)
    if how == 0:
        del held[rng.randrange(len(held) + 1) :]
    elif how == 1:
        held += rng.randbytes(rng.randrange(40))
    elif held:
        width = rng.choice((1, 2, 4, 8))
        at = rng.randrange(0, len(held), min(width, len(held)))
        value = rng.choice((*WIDE, len(held), len(held) - at)) & (1 << 8 * width) - 1
        held[at : at + width] = value.to_bytes(width, "little")[: len(held) - at]


def reseal(part: bytes, header: Block, content: bytes) -> bytes:
    """A block of this header with this content, which is what it says it is."""
    header = header._replace(flags=0, raw=len(content), stored=len(content), crc=zlib.crc32(content))
    return header.pack() + content if header.raw <= fmt.STREAM_RAW or header.items == 1 else part


def mutate(rng: random.Random, parts: list[bytes], content_of: Any) -> list[bytes]:
    """PARTS, blocks of a demo, with one stream block bent; the end block tells the new number of bytes."""
    streams = [at for at, part in enumerate(parts) if part[4] == BlockType.STREAM]
    if not streams:
        return parts
    at = rng.choice(streams)
    old = Block.unpack(parts[at][:HEAD])
    header, content = bend_events(rng, old, content_of(parts[at]))
    found = [*parts]
    found[at] = reseal(parts[at], header, content)
    grown = Block.unpack(found[at][:HEAD]).raw - old.raw
    for number, part in enumerate(found):
        if part[4] == BlockType.END:
            end = Block.unpack(part[:HEAD])
            found[number] = end._replace(first=end.first + grown).pack() + part[HEAD:]
    return found
