"""Demos as somebody hostile would make them: a manifest of another program, recorded bytes of his choice.

Runs in: pytest. May call: gdbrr.demo, replay.alter.
Owns: nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fuzz.recordings import Op
from gdbrr.abi import lib
from gdbrr.demo import carried, seal
from gdbrr.demo.reader import Demo
from gdbrr.demo.writer import Writer
from gdbrr.files import draft
from gdbrr.launch import own
from replay.alter import alter

SYS_READ = 0


def forge(demo: Path, out: Path, *, key: bytes | None = None, **manifest: Any) -> Path:
    """The demo with other values in its manifest, sealed as this user's own or with another KEY."""
    with Demo.open(demo) as source, draft(out) as file:
        writer = Writer(file, {**source.manifest, **manifest})
        carried.copy(source, writer)
        seal.put(file, key or own.key() or b"")
    return out


def foreign(demo: Path, out: Path) -> Path:
    """The same demo, sealed by somebody else, although it says that this user on this machine has recorded it."""
    return forge(demo, out, key=bytes(32))


def led_astray(demo: Path, out: Path, old: bytes, new: bytes) -> Path:
    """The demo in which what a read brought in is NEW where it was OLD."""

    def change(ops: list[Op]) -> list[Op]:
        found = [op for op in ops if op.kind == lib.GR_OP_SYS_END and op.nr == SYS_READ + 1 and op.data[4:] == old]
        assert found
        for op in found:
            op.data = op.data[:4] + new
        return ops

    return alter(demo, out, change)


def manifest_of(demo: Path) -> dict[str, Any]:
    with Demo.open(demo) as source:
        return dict(source.manifest)
