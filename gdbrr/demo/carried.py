"""Files that a packed demo brings along: what it says of them, putting them in, and taking them out again.

Runs in: commands outside GDB, the server. May call: gdbrr.demo.
Owns: the rule that a file is what its size and its hash say, or nothing.
"""

from __future__ import annotations

import os

from gdbrr.abi import ffi, lib
from gdbrr.demo import format as fmt
from gdbrr.demo.facts import DamagedDemo
from gdbrr.demo.format import BlockType
from gdbrr.demo.manifest import Manifest
from gdbrr.demo.reader import Demo
from gdbrr.errors import GdbrrError
from gdbrr.files import draft
from gdbrr.quick.paths import Path
from gdbrr.quick.rows import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gdbrr.demo.writer import Writer

_PIECE = 16 << 20


class CarriedFile(NamedTuple):
    """A file of the machine where the demo was packed."""

    number: int
    path: str
    """Absolute, without links in it."""
    names: Sequence[str]
    """Others by which it was asked for."""
    size: int
    sha256: str
    build_id: str
    kind: str
    """program, engine, object (library), data or debug (information)."""


def files(manifest: Mapping[str, Any]) -> list[CarriedFile]:
    """All of them, in the order of their numbers; none in a demo that was not packed."""
    return [
        CarriedFile(n, row["path"], row["names"], row["size"], row["sha256"], row["build_id"], row["kind"])
        for n, row in enumerate(manifest.get("carried", {}).get("files", ()))
    ]


def take_out(demo: Demo, file: CarriedFile, out: Path) -> None:
    """Write FILE to OUT, which must not exist. It is gone again if the demo lied about it."""
    from gdbrr.quick.hashes import sha256

    seen, size = sha256(), 0
    with open(
        out, "xb", opener=lambda name, flags: os.open(name, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o500)
    ) as target:
        for number in demo.carried_blocks.get(file.number, []):
            block = demo.block(number)
            if block.base != file.size or block.first != size:
                raise _false(demo, file)
            piece = demo.content(number)
            seen.update(piece)
            size += len(piece)
            target.write(piece)
    if size != file.size or seen.hexdigest() != file.sha256:
        raise _false(demo, file)


def _false(demo: Demo, file: CarriedFile) -> DamagedDemo:
    return DamagedDemo(f"{demo.path} does not hold {file.path!r} as it says", hint="let whoever sent it pack it again")


def copy(
    demo: Demo,
    writer: Writer,
    change: Callable[[int, bytes], bytes] | None = None,
    *,
    split: Callable[[int, bytes], Iterable[bytes]] | None = None,
    more: Callable[[Writer], None] | None = None,
    refers: bool = True,
) -> int:
    """The blocks of DEMO once more, those of streams passed through CHANGE (number and content); the size of it all.

    SPLIT makes several of one. MORE writes what else there is. Without REFERS no file is referred to."""
    for number in range(demo.blocks):
        block = demo.block(number)
        if block.type not in (BlockType.STREAM, BlockType.ORDER, BlockType.CARRIED):
            continue
        raw = demo.content(number)
        if block.type == BlockType.CARRIED:
            writer.carried(block.thread, raw, block.first, block.base)
        elif block.type == BlockType.ORDER:
            runs = block.items * fmt.RUN.size
            writer.order(raw[:runs], block.first, raw[runs:])
        elif split:
            base, span = block.base, ffi.new("struct gr_span *")
            for part in split(number, raw):
                lib.gr_span_scan(ffi.from_buffer(part), len(part), block.items, base, span)
                writer.stream(block.thread, part, span.events, base, span.first, span.last)
                base = span.last
        else:
            raw = change(number, raw) if change else raw
            writer.stream(block.thread, raw, block.items, block.base, block.first, block.last)
    if refers and demo.files:
        from gdbrr.demo import referred

        referred.copy(demo, writer)
    if more:
        more(writer)
    return writer.finish(
        (start, size, None if time == fmt.UNKNOWN_TIME else time) for start, size, time in demo.epoch_rows()
    )


def write(demo: Demo, manifest: Manifest, sources: Sequence[Path], out: Path) -> int:
    """The packed demo: DEMO with MANIFEST, which names carried files, and those from SOURCES; returns its size."""
    from gdbrr.demo.writer import Writer

    with draft(out) as target:
        writer = Writer(target, manifest)
        for file, source in zip(files(manifest), sources, strict=True):
            with open(source, "rb") as opened:
                for offset in range(0, file.size, _PIECE):
                    piece = opened.read(min(_PIECE, file.size - offset))
                    writer.carried(file.number, piece, offset, file.size)
        return copy(demo, writer, more=lambda to: _bring(demo, to))


def _bring(demo: Demo, writer: Writer) -> None:
    """What DEMO refers to and does not hold."""
    from gdbrr.demo import referred

    for number, row in enumerate(demo.files):
        if not referred.held(demo, number):
            referred.bring(writer, number, row)


def check_whole(demo: Demo) -> None:
    if demo.damage:
        raise GdbrrError(
            f"{demo.path} is damaged: {demo.damage.reason}", hint=f"see what can be read: gdbrr info {demo.path}"
        )
