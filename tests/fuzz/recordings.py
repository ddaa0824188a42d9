"""Makes recording directories as the engine would leave them, from lists of operations.

Runs in: tests. May call: gdbrr.abi.
Owns: the imitation of the engine's log; tests of packing and reading start here.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gdbrr.abi import ABI_VERSION, ffi, lib, map_ctl

_KINDS = (lib.GR_OP_SYS_START, lib.GR_OP_SYS_END, lib.GR_OP_MUTEX_LOCK)
CHUNK = ffi.sizeof("struct gr_chunk")


@dataclass
class Op:
    """One operation to be recorded; its place in the list is its place in the total order."""

    thread: int
    kind: int = lib.GR_OP_MUTEX_LOCK
    nr: int = 0
    object: int = 0
    result: int = 0
    check: int = 0
    flags: int = 0
    data: bytes = b""
    time: int = 0

    def fields(self) -> tuple[Any, ...]:
        return (self.thread, self.kind, self.nr, self.object, self.result, self.check, self.flags, self.data, self.time)


def manifest(**changes: Any) -> dict[str, Any]:
    return {
        "gdbrr": "0.1.0",
        "abi": ABI_VERSION,
        "program": "/usr/bin/example",
        "argv": ["example", "--fast", "an argument"],
        "env": ["HOME=/home/user", "LANG=C"],
        "cwd": "/home/user",
        "limits": {"stack": [8 << 20, -1]},
        "profile": {"name": "default"},
        "order": "parallel",
        "started": 1700000000.5,
        "end": {"kind": "exit", "value": 0},
        "random": "00112233445566778899aabbccddeeff",
        "engine": {"path": "/engine/libgdbrr.so", "build_id": "0123abcd"},
        "objects": [{"path": "/usr/bin/example", "build_id": "89ab", "base": 0x555555554000}],
        "host": {"kernel": "6.1.0", "machine": "x86_64", "cpu": "Example CPU", "libc": "glibc 2.36"},
        "threads": [{"index": 0, "recorded_tid": 100, "parent": -1}],
        **changes,
    }


def random_ops(rng: random.Random, n: int, threads: int, data: int = 40) -> list[Op]:
    """n operations that use every field, with data of up to `data` bytes now and then."""
    ops, thread = [], 0
    for i in range(n):
        thread = i if i < threads else (thread if rng.random() < 0.5 else rng.randrange(threads))
        kind = lib.GR_OP_START if i < threads else rng.choice(_KINDS)
        ops.append(
            Op(
                thread,
                kind,
                nr=rng.randrange(1, 300) if kind in (lib.GR_OP_SYS_START, lib.GR_OP_SYS_END) else 0,
                object=rng.choice((0, 3, 0x7FFFF7DD1000 + rng.randrange(4096), (1 << 64) - 1)),
                result=rng.choice((0, -11, 5, 1 << 40, -(1 << 63))),
                check=rng.choice((0, rng.randrange(1 << 32))),
                flags=rng.choice((0, 0, 255)),
                data=rng.randbytes(rng.randrange(data)) if data and rng.random() < 0.2 else b"",
                time=1 + i * 5000 if rng.random() < 0.2 else 0,
            )
        )
    return ops


class Log:
    """The log of a recording, written the way the engine does: chunks of units, committed event by event."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bytes = bytearray()
        self.clock = 1
        self.units = 0
        self._open: dict[int, int] = {}  # thread -> offset of its chunk
        self._seq: dict[int, int] = {}
        self._last: dict[int, int] = {}

    def take(self, units: int) -> int:
        """Units that are taken and, until a header is written, never committed."""
        offset = self.units * lib.GR_UNIT
        self.units += units
        self.bytes.extend(bytes(units * lib.GR_UNIT))
        return offset

    def header(self, offset: int) -> Any:
        return ffi.from_buffer("struct gr_chunk *", memoryview(self.bytes)[offset : offset + CHUNK])

    def append(self, op: Op, stamp: int | None = None) -> None:
        data = ffi.from_buffer(op.data)
        event = {
            "stamp": self.clock if stamp is None else stamp,
            "time": op.time,
            "object": op.object,
            "result": op.result,
            "check": op.check,
            "len": len(op.data),
            "nr": op.nr,
            "kind": op.kind,
            "flags": op.flags,
            "data": data,
        }
        self.clock = event["stamp"] + 1
        last = ffi.new("uint64_t *", self._last.get(op.thread, 0))
        out = ffi.new("uint8_t[]", lib.GR_EVENT_MAX_HEAD + len(op.data))
        size = lib.gr_event_encode(out, ffi.new("struct gr_event *", event), last)
        offset = self._open.get(op.thread)
        if offset is None or self._full(offset, size):
            units = -(-(CHUNK + size) // lib.GR_UNIT)
            offset = self._open[op.thread] = self.take(units)
            seq = self._seq[op.thread] = self._seq.get(op.thread, -1) + 1
            head = self.header(offset)
            head.magic, head.thread, head.seq, head.units = lib.GR_CHUNK_MAGIC, op.thread, seq, units
            head.base_stamp = self._last.get(op.thread, 0)
            del head
        head = self.header(offset)
        at = offset + CHUNK + head.used
        head.used += size
        del head
        self.bytes[at : at + size] = bytes(ffi.buffer(out, size))
        self._last[op.thread] = last[0]

    def _full(self, offset: int, size: int) -> bool:
        head = self.header(offset)
        return bool(CHUNK + head.used + size > head.units * lib.GR_UNIT)

    def chunk_offsets(self, thread: int) -> list[int]:
        found = []
        for unit in range(self.units):
            head = self.header(unit * lib.GR_UNIT)
            if head.magic == lib.GR_CHUNK_MAGIC and head.thread == thread:
                found.append(unit * lib.GR_UNIT)
        return found

    def save(self) -> None:
        self.path.write_bytes(self.bytes)


def make_recording(where: Path, ops: Sequence[Op], end: tuple[int, int] = (1, 0), **changes: Any) -> Log:
    """A recording directory at `where` that holds `ops`; `changes` go into its manifest."""
    where.mkdir()
    log = Log(where / "log")
    for op in ops:
        log.append(op)
    log.save()
    finish_recording(where, log, end, **changes)
    return log


def finish_recording(where: Path, log: Log, end: tuple[int, int] = (1, 0), **changes: Any) -> None:
    with map_ctl(where / "ctl", create=True) as ctl:
        ctl.c.units, ctl.c.clock = log.units, log.clock
        ctl.c.end_kind, ctl.c.end_value = end
        ctl.c.started = 1
    text = manifest(**changes)
    text.pop("end")
    (where / "manifest.json").write_text(json.dumps(text))
