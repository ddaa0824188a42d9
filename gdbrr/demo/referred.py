"""Large files that a demo refers to: what it says of them, bringing their contents in, taking them out again.

Runs in: commands outside GDB, the server. May call: errors, abi, files, demo.
Owns: the blocks FILES and CONTENT, and the rule that a file is the recorded one while its inode, size and both times
are. Which references are followed is decided in gdbrr/launch/files.py.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Sequence

from gdbrr import files
from gdbrr.abi import ffi, lib
from gdbrr.errors import GdbrrError
from gdbrr.quick import texts
from gdbrr.quick.paths import Path
from gdbrr.quick.rows import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from typing import BinaryIO

    from gdbrr.abi import Ctl
    from gdbrr.demo.log import Kept
    from gdbrr.demo.reader import Demo
    from gdbrr.demo.writer import Writer

_PIECE = 4 << 20
_U64 = 1 << 64
STORE = struct.Struct("<QQII")
"""struct gr_store: address, length, kind, argument."""
PLACE = struct.Struct("<QQ")
"""What follows one of the kind GR_STORE_FILE: where its bytes begin in the file, and their check."""
STORE_BYTES, STORE_CHDIR, STORE_ECHO, STORE_FILE = 0, 7, 8, 13
WITH_BYTES = (STORE_BYTES, STORE_CHDIR, STORE_ECHO)
"""Kinds of enum gr_store_kind that are followed by as many bytes as they say."""
_EVENT_MOST = 60 << 20
_PACK = "`gdbrr pack` would have kept it in the demo: record the program again"


class Referred(NamedTuple):
    """A file as it was when it was read. Times are in nanoseconds."""

    path: str
    device: int
    inode: int
    size: int
    mtime: int
    ctime: int
    start: int
    end: int
    """All that the demo needs of it lies in between."""


def parse(raw: bytes) -> tuple[Referred, ...]:
    """The rows of a FILES block; ValueError where they make no sense."""
    found = texts.loads(raw.decode())
    if not isinstance(found, list) or len(found) > lib.GR_FILES:
        raise ValueError("no list of files")
    rows = []
    for row in found:
        if not isinstance(row, list) or len(row) != len(Referred._fields):
            raise ValueError("no row of a file")
        path, *numbers = row
        if not isinstance(path, str) or not path.startswith("/") or "\0" in path:
            raise ValueError("no path of a file")
        if not all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < _U64 for n in numbers):
            raise ValueError("no number of a file")
        os.fsencode(path)
        rows.append(Referred(path, *numbers))
        if not rows[-1].start <= rows[-1].end <= rows[-1].size < 1 << 63:
            raise ValueError("a range outside of its file")
    return tuple(rows)


def of_recording(ctl: Ctl) -> list[Referred]:
    """What the engine wrote down."""
    rows = []
    names = bytes(ffi.buffer(ctl.c.inputs))
    for number in range(min(int(ctl.c.files), lib.GR_FILES)):
        file = ctl.c.file[number]
        path = names[file.path : names.find(b"\0", file.path)] if file.path < len(names) else b""
        known = file.device, file.inode, file.size, file.mtime, file.ctime
        rows.append(Referred(os.fsdecode(path), *known, getattr(file, "from"), file.to))
    return rows


# ---------------------------------------------------------------- the file itself
def difference(row: Referred, st: os.stat_result) -> str:
    """How the file differs from the recorded one; empty if it does not."""
    if st.st_size != row.size:
        return f"it had {row.size:,} bytes and has {st.st_size:,}"
    if st.st_mtime_ns != row.mtime:
        return "it was written to"
    # The number of a file system that has no disk of its own (btrfs, overlayfs) is another one at the next start.
    if st.st_ino != row.inode:
        return "it is another file of that name"
    return "" if st.st_ctime_ns == row.ctime else "it was changed"


def changed(row: Referred) -> str:
    """The same for what lies at its path now. Nothing is opened."""
    try:
        return difference(row, os.lstat(row.path))
    except (OSError, ValueError):
        return "it is gone"


def _gone(row: Referred, how: str) -> GdbrrError:
    return GdbrrError(f"{row.path!r}, which the demo refers to, changed since the recording: {how}", _PACK)


def contents(row: Referred) -> Iterator[tuple[int, bytes]]:
    """(place, bytes) of what the demo needs of the file, which is the recorded one in front of that and behind."""
    if how := changed(row):
        raise _gone(row, how)
    try:
        with files.regular(row.path, follow=False) as file:
            for at in range(row.start, row.end, _PIECE):
                piece = os.pread(file.fileno(), min(_PIECE, row.end - at), at)
                if how := difference(row, os.fstat(file.fileno())):
                    raise _gone(row, how)
                yield at, piece
    except OSError as error:
        raise _gone(row, error.strerror or "it cannot be read") from None


# ---------------------------------------------------------------- in a demo
def held(demo: Demo, number: int) -> bool:
    """Whether the demo has all of the contents itself."""
    row = demo.files[number]
    at = row.start
    for first, end in sorted(_spans(demo, number)):
        if first > at:
            return False
        at = max(at, end)
    return at >= row.end


def _spans(demo: Demo, number: int) -> list[tuple[int, int]]:
    blocks = [demo.block(block) for block in demo.content_blocks.get(number, ())]
    return [(block.first, block.first + block.raw) for block in blocks]


def missing(demo: Demo) -> list[Referred]:
    """What the demo refers to and does not hold."""
    return [row for number, row in enumerate(demo.files) if not held(demo, number)]


def take_out(demo: Demo, number: int, out: BinaryIO) -> None:
    """Write the contents to OUT, where they stand in the file."""
    out.truncate(demo.files[number].size)
    for block in demo.content_blocks.get(number, ()):
        out.seek(demo.block(block).first)
        out.write(demo.content(block))
    out.flush()


def reader(demo: Demo, number: int) -> Callable[[int, int], bytes]:
    """A function that tells so many bytes of a file from a place on, from the demo or from the file itself."""
    row = demo.files[number]
    if held(demo, number):
        blocks = [(demo.block(block).first, block) for block in demo.content_blocks.get(number, ())]

        def from_demo(at: int, size: int) -> bytes:
            found = bytearray(size)
            for first, block in blocks:
                if first < at + size and first + demo.block(block).raw > at:
                    piece = demo.cached(block)
                    start, end = max(first, at), min(first + len(piece), at + size)
                    found[start - at : end - at] = piece[start - first : end - first]
            return bytes(found)

        return from_demo
    if how := changed(row):
        raise _gone(row, how)

    def from_file(at: int, size: int) -> bytes:
        with files.regular(row.path, follow=False) as file:
            found = os.pread(file.fileno(), size, at)
            if (how := difference(row, os.fstat(file.fileno()))) or len(found) < size:
                raise _gone(row, how or "it is shorter")
            return found

    return from_file


# ---------------------------------------------------------------- writing
def write(
    writer: Writer, rows: Sequence[Referred], kept: Sequence[Kept], log: int, carry: int | None
) -> tuple[list[Referred], list[str]]:
    """What a recording refers to, into its demo: KEPT pieces from the LOG, and files of CARRY bytes together.

    Returns what stays where it is, and sentences about what is lost. CARRY None: no file is opened."""
    if not rows:
        return [], []
    writer.files(texts.dumps([list(row) for row in rows]).encode(), len(rows))
    whole: dict[int, int] = {}
    for piece in kept:
        if piece.number < len(rows) and piece.at + piece.size <= rows[piece.number].size:
            writer.content(piece.number, os.pread(log, piece.size, piece.offset), piece.at, rows[piece.number].size)
            whole[piece.number] = whole.get(piece.number, 0) + piece.size
    stay, lost = [], []
    left = carry or 0
    for number, row in sorted(enumerate(rows), key=lambda item: item[1].end - item[1].start):
        need = row.end - row.start
        if whole.get(number, 0) >= need:
            continue
        if how := changed(row):
            who = "was changed by somebody else while it was read"
            lost.append(f"{row.path!r} {who} ({how}): the demo cannot be replayed")
        elif need <= left:
            left -= need
            bring(writer, number, row)
        else:
            stay.append(row)
    return stay, lost


def bring(writer: Writer, number: int, row: Referred) -> None:
    for at, piece in contents(row):
        writer.content(number, piece, at, row.size)


def copy(demo: Demo, writer: Writer) -> None:
    """The same blocks once more."""
    if not demo.files:
        return
    writer.files(texts.dumps([list(row) for row in demo.files]).encode(), len(demo.files))
    for number, blocks in demo.content_blocks.items():
        for block in blocks:
            writer.content(number, demo.content(block), demo.block(block).first, demo.files[number].size)


# ---------------------------------------------------------------- a demo without references
def inlined(demo: Demo, data: bytes, stores: int, read: Sequence[Callable[[int, int], bytes]]) -> tuple[bytes, int]:
    """The DATA of a call's end with the bytes in it that it refers to, and the length of its STORES."""
    first = len(data) - stores
    found, at = bytearray(), first
    while at + STORE.size <= len(data):
        address, size, kind, argument = STORE.unpack_from(data, at)
        at += STORE.size
        behind = -(-size // 8) * 8 if kind in WITH_BYTES else PLACE.size if kind == STORE_FILE else 0
        if at + behind > len(data):
            raise demo.broken("a call has a store longer than its data")
        if kind != STORE_FILE:
            found += data[at - STORE.size : at + behind]
        else:
            if argument >= len(read) or size > _EVENT_MOST:
                raise GdbrrError(
                    f"{demo.path} refers to {size:,} bytes of a file at once, which no operation can hold",
                    "record it again with --set engine.references=off",
                )
            raw = read[argument](PLACE.unpack_from(data, at)[0], size)
            found += STORE.pack(address, size, STORE_BYTES, 0) + raw + bytes(-size % 8)
        at += behind
    head = data[: first - 4] if stores else data
    return head + len(found).to_bytes(4, "little") + found, len(found)


def expand(demo: Demo, out: Path) -> None:
    """DEMO at OUT as if nothing had been referred to: contents stand where they were read, each time.

    For whoever looks at or changes what was read."""
    from gdbrr.demo import carried
    from gdbrr.demo.writer import Writer

    read = [reader(demo, number) for number in range(len(demo.files))]

    def change(number: int, raw: bytes) -> Iterator[bytes]:
        return _expanded(demo, number, raw, read)

    with files.draft(out, lasts=False) as file:
        carried.copy(demo, Writer(file, demo.manifest), split=change, refers=False)


def _expanded(demo: Demo, number: int, raw: bytes, read: Sequence[Callable[[int, int], bytes]]) -> Iterator[bytes]:
    from gdbrr.demo import format as fmt

    event, last, before = ffi.new("struct gr_event *"), ffi.new("uint64_t *"), ffi.new("uint64_t *")
    base = ffi.from_buffer(raw)
    last[0] = demo.block(number).base
    at, pending = 0, bytearray()
    while at < len(raw):
        before[0] = last[0]
        took = lib.gr_event_decode(base + at, len(raw) - at, event, last)
        if not took:
            raise demo.broken("a stream block holds no valid events")
        new = raw[at : at + took]
        at += took
        if event.kind == lib.GR_OP_SYS_END and event.object and _refers(event):
            data, stores = inlined(demo, bytes(ffi.buffer(event.data, event.len)), event.object, read)
            event.object, event.len = stores, len(data)
            event.data = keep = ffi.from_buffer(data)
            room = ffi.new("uint8_t[]", lib.GR_EVENT_MAX_HEAD + len(data))
            new = bytes(ffi.buffer(room, lib.gr_event_encode(room, event, before)))
            del keep
        if pending and len(pending) + len(new) > fmt.STREAM_RAW:
            yield bytes(pending)
            pending.clear()
        pending += new
    if pending:
        yield bytes(pending)


def _refers(event: Any) -> bool:
    stores = min(int(event.object), int(event.len))
    raw = bytes(ffi.buffer(event.data + event.len - stores, stores))
    at = 0
    while at + STORE.size <= len(raw):
        _, size, kind, _ = STORE.unpack_from(raw, at)
        if kind == STORE_FILE:
            return True
        at += STORE.size + (-(-size // 8) * 8 if kind in WITH_BYTES else 0)
    return False
