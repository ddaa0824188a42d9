"""What stands at an address of a process: a variable, a block of the heap, a thread's stack.

Runs in: the server and scripts. May call: /proc of the process, the files it has mapped, ctl, launch.
Owns: nothing.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from gdbrr.abi import lib
from gdbrr.ctl import threads as ctl_threads
from gdbrr.ctl.control import Panic
from gdbrr.errors import GdbrrError
from gdbrr.launch.carried import names
from gdbrr.timeline.model import ThreadView

_RED_ZONE = 128
_WORD = 8
_SOME = 4
"""Variables of a page that are named."""
_LOCAL = 0x1000
"""Bytes around a thread's descriptor that hold what is the thread's own."""
_SYMTAB, _DYNSYM = 2, 11
_LOAD = 1
_NAMED = (1, 2)
"""Kinds of symbols: variable, function."""
_SMALL, _LARGE = 1, 2  # enum gr_page_kind of preload/heap/heap.h
_SPAN_PAGES = 4
_MOST_BACK = 1 << 16
_MOST_TABLE = 64 << 20
_HEAPS, _REGION = 1280, 0x800000000
"""GR_HEAPS and GR_HEAP_REGION of preload/heap/heap.h; the first one begins where the engine's zone ends."""


Threads = Sequence[ThreadView] | Sequence[ctl_threads.Thread]


class Area(NamedTuple):
    start: int
    end: int
    offset: int
    path: str


def describe(pid: int, threads: Threads, address: int) -> str:
    """A few words; nothing but the address where nothing more is known."""
    areas = list(_areas(pid))
    here = next((area for area in areas if area.start <= address < area.end), None)
    found = (
        _of_thread(threads, here, address) or _of_heap(pid, address) or _of_file(pid, areas, address) or _named(here)
    )
    return f"{address:#x}{found and f' ({found})'}"


def of_recorded(pid: int, born: int, panic: Panic) -> str:
    """What stands on the first page that a digest of the recording has otherwise; nothing where that is unknown.

    INVARIANT(pages-are-recorded): a demo holds one number for each page, so no byte of it can be named. BORN is how
    many threads the run has.
    """
    page = panic.got_object
    if panic.want_op != lib.GR_OP_DIGEST or not page:
        return ""
    try:
        areas, threads = list(_areas(pid)), ctl_threads.read(pid, born)
    except (OSError, GdbrrError):  # somebody has ended it
        return ""
    here = next((area for area in areas if area.start <= page < area.end), None)
    stack = _of_thread(threads, here, page + lib.GR_PAGE - 1, page).partition(",")[0]
    return stack or _of_heap(pid, page, lib.GR_PAGE) or _variables(pid, areas, page)


def _areas(pid: int) -> Iterator[Area]:
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            fields = line.rstrip("\n").split(None, 5)
            start, end = (int(word, 16) for word in fields[0].split("-"))
            yield Area(start, end, int(fields[2], 16), fields[5] if len(fields) > 5 else "")


def _named(area: Area | None) -> str:
    return area.path if area else ""


def _of_thread(threads: Threads, area: Area | None, address: int, page: int | None = None) -> str:
    """With PAGE, of anything on it: below the descriptor's page, what is on a page of the stack counts as stack."""
    if area is None:
        return ""
    for thread in threads:
        descriptor = thread.regs["fs_base"]
        stack = page is not None and thread.regs["rsp"] - _RED_ZONE <= address and page + lib.GR_PAGE <= descriptor
        if thread.in_engine and not stack and descriptor - _LOCAL <= address < descriptor + _LOCAL:
            return f"thread-local memory of thread {thread.index}"
    above = [thread for thread in threads if area.start <= thread.regs["rsp"] - _RED_ZONE <= address < area.end]
    if not above:
        return ""
    thread = max(above, key=lambda one: one.regs["rsp"])
    return f"the stack of thread {thread.index}, {address - thread.regs['rsp']:#x} from its pointer"


# ---------------------------------------------------------------- the heap
def _of_heap(pid: int, address: int, wide: int = 1) -> str:
    """The block that holds WIDE bytes from ADDRESS on; of several their size."""
    number, offset = divmod(address - lib.GR_ZONE_END, _REGION)
    if not 0 <= number < _HEAPS:
        return ""
    table = address - offset
    page = offset // lib.GR_PAGE
    first = max(0, page - _MOST_BACK)
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            rows = os.pread(memory.fileno(), (page + 1 - first) * 8, table + first * 8)
    except OSError:
        return "the heap"
    entries = [struct.unpack_from("<BBHI", rows, at) for at in range(0, len(rows) - 7, 8)]
    if len(entries) != page + 1 - first:
        return "the heap"
    kind, cls = entries[-1][:2]
    if kind == _SMALL:
        back = 0
        while back < len(entries) - 1 and entries[-2 - back][:2] == (kind, cls):
            back += 1
        span, size = table + (page - back % _SPAN_PAGES) * lib.GR_PAGE, _class_size(cls)
        block = span + (address - span) // size * size
        return (
            f"heap block {block:#x} of {size} bytes"
            if block + size >= address + wide
            else f"heap blocks of {size} bytes"
        )
    for back in range(len(entries)):
        kind, _, _, pages = entries[-1 - back]
        if kind == _LARGE and pages > back:
            return f"heap block {table + (page - back) * lib.GR_PAGE:#x} of {pages * lib.GR_PAGE} bytes"
    return "the heap"


def _class_size(cls: int) -> int:
    """gr_class_size of preload/heap/heap.h."""
    if cls < 8:
        return (cls + 1) * 16
    log = 7 + (cls - 8) // 4
    return int((1 << log) + ((cls - 8) % 4 + 1) * (1 << (log - 2)))


# ---------------------------------------------------------------- variables
def _of_file(pid: int, areas: Sequence[Area], address: int) -> str:
    file, symbols, at = _file_at(pid, areas, address)
    found = [symbol for symbol in symbols if symbol.start <= at < symbol.end]
    if not found:
        return ""
    best = min(found, key=lambda symbol: symbol.end - symbol.start)
    # By whole words, as they are shown: the first byte of a number may be equal by chance.
    inside = max(0, (at & -_WORD) - best.start)
    return f"{best.name}{f'+{inside:#x}' if inside else ''} of {file}"


def _variables(pid: int, areas: Sequence[Area], page: int) -> str:
    file, symbols, at = _file_at(pid, areas, page)
    here = sorted({symbol for symbol in symbols if symbol.start < at + lib.GR_PAGE and at < symbol.end})
    names = list(dict.fromkeys(symbol.name for symbol in here))
    if not names:
        return ""
    more = f" and {len(names) - _SOME} more" if len(names) > _SOME else ""
    return f"{', '.join(names[:_SOME])}{more} of {file}"


def _file_at(pid: int, areas: Sequence[Area], address: int) -> tuple[str, Sequence[Symbol], int]:
    """The name of the file that is mapped there or in front, its symbols, and the address as they have it."""
    bases: dict[str, int] = {}
    for area in areas:
        if area.path.startswith("/") and not area.offset:
            bases.setdefault(area.path, area.start)
    below = [path for path, base in bases.items() if base <= address]
    if not below:
        return "", (), 0
    path = max(below, key=bases.__getitem__)
    carried = names.of(pid)
    lowest, symbols = _symbols(os.fsdecode(carried.here(os.fsencode(path))) if carried else path)
    return os.path.basename(path), symbols, address - bases[path] + lowest


class Symbol(NamedTuple):
    start: int
    end: int
    name: str


@lru_cache(maxsize=16)
def _symbols(path: str) -> tuple[int, tuple[Symbol, ...]]:
    """The address that the file's first byte is linked for, and what has a name and a size in it."""
    try:
        with open(path, "rb") as file:
            head = file.read(64)
            if head[:5] != b"\x7fELF\x02":
                return 0, ()
            (lowest, tables) = _tables(file.fileno(), head)
            return lowest, tuple(symbol for rows, texts in tables for symbol in _rows(rows, texts))
    except (OSError, struct.error, ValueError):
        return 0, ()


def _tables(fd: int, head: bytes) -> tuple[int, list[tuple[bytes, bytes]]]:
    segments, sections = struct.unpack_from("<QQ", head, 32)
    segment_size, segment_count, section_size, section_count = struct.unpack_from("<HHHH", head, 54)
    lowest = None
    for at in range(segment_count):
        kind, _, _, address = struct.unpack_from("<IIQQ", os.pread(fd, 56, segments + at * segment_size))
        if kind == _LOAD:
            lowest = address if lowest is None else min(lowest, address)
    rows = [
        struct.unpack_from("<IIQQQQII", os.pread(fd, 64, sections + at * section_size)) for at in range(section_count)
    ]
    tables = []
    for _, kind, _, _, offset, size, link, _ in rows:
        if kind in (_SYMTAB, _DYNSYM) and link < len(rows) and size < _MOST_TABLE:
            texts = rows[link]
            tables.append((os.pread(fd, size, offset), os.pread(fd, min(texts[5], _MOST_TABLE), texts[4])))
    return (lowest or 0) & -lib.GR_PAGE, tables


def _rows(rows: bytes, texts: bytes) -> Iterator[Symbol]:
    for name, info, _, section, value, size in struct.iter_unpack("<IBBHQQ", rows[: len(rows) // 24 * 24]):
        if section and size and info & 15 in _NAMED:
            yield Symbol(value, value + size, texts[name : texts.index(0, name)].decode(errors="replace"))
