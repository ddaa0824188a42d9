"""The last look at a redacted demo: what was to be taken out stands nowhere in it.

Runs in: `gdbrr redact`, before its demo gets its name. May call: errors, demo, gdbrr.sparse.
Owns: the rule that every block is looked at as it is, unpacked, whatever stands in it: this look knows nothing of
events, calls and their outputs, so it finds what those that do have missed.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gdbrr.demo.format import BlockType
from gdbrr.errors import GdbrrError
from gdbrr.sparse import texts

if TYPE_CHECKING:
    from gdbrr.demo.format import Block
    from gdbrr.demo.reader import Demo
    from gdbrr.sparse.marks import Marks
    from gdbrr.sparse.payload import Span

_SEAM = 8192
"""Bytes of the piece before that are looked at again with each piece of a file."""

Code = Mapping["Span", str]
"""What of a demo is contents of programs and libraries, and of which."""


class Find(NamedTuple):
    where: str
    what: bytes
    way_out: str = "if that does not matter: --keep-copies"


def check(demo: Demo, marks: Marks, out: Path, code: Callable[[Demo], Code]) -> None:
    """Raises an error if DEMO, which is to become OUT, holds what MARKS know."""
    found = next(finds(demo, marks, code), None)
    if found is None:
        return
    name = marks.name_of(found.what)
    what = f"the value of ${name}" if name else f"{len(found.what)} bytes that were to be taken out"
    way_out = f"if that is no secret: --keep-env {name}" if name else found.way_out
    raise GdbrrError(f"{out} was not written, because {found.where} still has {what}", way_out)


def finds(demo: Demo, marks: Marks, code: Callable[[Demo], Code]) -> Iterator[Find]:
    inside: dict[int, list[tuple[Span, str]]] = {}
    for span, name in code(demo).items():
        inside.setdefault(span.block, []).append((span, name))
    tail, last = b"", -1
    for number in range(demo.blocks):
        block, raw = demo.block(number), demo.raw(number)
        if block.type == BlockType.MANIFEST:
            yield from (Find(*row) for row in texts.left(demo.manifest, marks))
        elif block.type == BlockType.CARRIED:
            tail = tail if block.thread == last else b""
            for start, end in marks.found_in(tail + raw, text=False):
                path = demo.manifest["carried"]["files"][block.thread]["path"]
                yield Find(f"carried file {path}", (tail + raw)[start:end])
            tail, last = raw[-_SEAM:], block.thread
        else:
            yield from _in_block(block, raw, inside.get(number, ()), marks)


def _in_block(block: Block, raw: bytes, inside: Sequence[tuple[Span, str]], marks: Marks) -> Iterator[Find]:
    compiled = marks.found_in(raw, text=False) if inside else []
    for start, end in marks.found_in(raw):
        name = next((name for span, name in inside if span.at <= start and end <= span.at + span.size), "")
        if not name:
            yield Find(f"an operation of thread {block.thread}", raw[start:end])
        elif any(start <= a and b <= end for a, b in compiled):
            way_out = f"choose that, too: --path {shlex.quote(name)}"
            yield Find(f"what was read of the program or library {name}", raw[start:end], way_out)
