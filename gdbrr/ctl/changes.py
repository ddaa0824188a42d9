"""Which pages were not written to between two checkpoints, as the kernel's page tables tell.

Runs in: the server and scripts. May call: abi.
Owns: what is known about each stretch of the skeleton's run; nothing of it is asked again.

A checkpoint is a fork, behind which every page is shared. INVARIANT(shared-is-unwritten): who writes to a shared page
gets one of his own, so a page that the skeleton shares when it stands again is one that it has not written to since,
whoever else lives or has ended by then; one that changed and changed back is not shared. Everything else counts as
written: a page that is not there, a file's, one in swap, one of a mapping that is shared on purpose, and where the
engine says that something was mapped, moved or dropped. A page of zeros may be the kernel's own, which many share;
see has_all.
"""

from __future__ import annotations

import bisect
import fcntl
import os
import re
from array import array
from collections.abc import Callable, Iterator, Sequence

from gdbrr.abi import ffi, lib
from gdbrr.ctl.control import Slot

_PAGE: int = lib.GR_PAGE
_SHARED_PAGE = bytes([0x80])
"""Top byte of an entry of the page map: present, and neither exclusively mapped (bit 56) nor of a file or shared memory
(61) nor in swap (62)."""
_OWN = re.compile(rb"[\x40\x41\x81\xc0\xc1]")
"""The same of one that is exclusively mapped or in swap."""
_ROWS = re.compile(re.escape(_SHARED_PAGE) + b"+")
_SCAN = 0xC0606610  # PAGEMAP_SCAN, Linux 6.7: passes over page tables that are not there
_PRESENT, _SWAPPED, _ZERO = 1 << 3, 1 << 4, 1 << 5
_NOW = bytes(1 if top == _SHARED_PAGE[0] else 2 * (top == 0) for top in range(256))
_BEFORE = bytes(3 if top == 0 else 1 for top in range(256))
"""By top byte of an entry: bit 0 where it is shared, bit 1 where nothing is there; a page for which both have a bit in
common was not written to."""
_UNLIKE = re.compile(b"\\0+")
_LOOK = 64 << 20
"""Bytes of memory that are looked at at once."""
_HUGE = "/sys/kernel/mm/transparent_hugepage/enabled"
_AT_ONCE = 512
_WITHOUT_SCAN = 256 << 20
"""Of mappings longer than this nothing is known where the kernel cannot scan."""
_MOST_ROWS = 1 << 16
_ENGINE = "/libgdbrr.so"
_KSM = "/sys/kernel/mm/ksm/run"


class Changes:
    """What is known, by ticks of the skeleton's run."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._unwritten: list[array[int]] = []
        """Addresses at which stretches of unwritten pages begin and end, in turns."""

    def add(self, start: int, end: int, unwritten: array[int]) -> None:
        """The skeleton, frozen in front of START and standing in front of END, has not written to these."""
        self._starts.append(start)
        self._ends.append(end)
        self._unwritten.append(unwritten)

    def unwritten(self, start: int, end: int, address: int, size: int) -> bool:
        """Whether it is certain that nothing between the two ticks wrote to any of these bytes."""
        at = bisect.bisect_right(self._starts, start) - 1
        reached = start
        while at >= 0 and at < len(self._starts) and self._starts[at] <= reached < end:
            if not _holds(self._unwritten[at], address, address + size):
                return False
            reached = self._ends[at]
            at += 1
        return start < end <= reached


def _holds(stretches: array[int], start: int, end: int) -> bool:
    at = bisect.bisect_right(stretches, start)
    return bool(at % 2) and end <= stretches[at]


def has_all(read: Callable[[int, int], bytes], address: int, size: int) -> bool:
    """INVARIANT(zeros-are-nobodys): a page of zeros may be one that the kernel shows to everybody who has none; it says
    nothing about what was there in between."""
    pages = range(address // _PAGE, (address + size - 1) // _PAGE + 1)
    try:
        return all(any(read(page * _PAGE, _PAGE)) for page in pages)
    except OSError:  # it was ended from outside
        return False


# ---------------------------------------------------------------- asking the kernel
def own_pages(pid: int) -> Iterator[int]:
    """The program's pages that this process does not share with the one it is a copy of, or may not."""
    with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pages:
        for start, end in _mappings(pid):
            for first, last in _present(pages.fileno(), start, end):
                entries = os.pread(pages.fileno(), (last - first) // _PAGE * 8, first // _PAGE * 8)
                yield from (first + row.start() * _PAGE for row in _OWN.finditer(entries[7::8]))


def unwritten_pages(pid: int, slot: Slot) -> array[int] | None:
    """What a standing process shares with its newest checkpoint; None where the kernel does not tell."""
    if pages_are_merged():
        return None
    moved = _moved(slot)
    found: array[int] = array("Q")
    try:
        with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pages:
            for start, end in _mappings(pid):
                for first, last in _present(pages.fileno(), start, end):
                    _add_shared(found, pages.fileno(), first, last)
                    if len(found) > _MOST_ROWS:
                        return _without(found, moved)
    except (OSError, ValueError):
        return None
    return _without(found, moved)


def written_pages(pid: int, slot: Slot, source: int, regions: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Which stretches of pages of REGIONS, as (start, end), a standing process, woken from the checkpoint SOURCE, may
    have written to since. What it costs is a matter of the pages that are there, not of how many there could be."""
    whole = [(start // _PAGE * _PAGE, -(-end // _PAGE) * _PAGE) for start, end in regions]
    if pages_are_merged():
        return whole
    moved = _moved(slot)
    found: list[tuple[int, int]] = []
    with (
        open(f"/proc/{pid}/pagemap", "rb", buffering=0) as now,
        open(f"/proc/{source}/pagemap", "rb", buffering=0) as before,
    ):
        for start, end in whole:
            for first, last in _there(now.fileno(), before.fileno(), start, end):
                found += _written(pid, now.fileno(), before.fileno(), first, last)
            found += [(max(start, first), min(end, last)) for first, last in moved if first < end and start < last]
    return _united(found)


def _there(now: int, before: int, start: int, end: int) -> list[tuple[int, int]]:
    """Where there are pages, in either of two processes; all where the kernel does not tell."""
    rows = [_scan(pages, start, end, _PRESENT | _SWAPPED) for pages in (now, before)]
    return [(start, end)] if None in rows else _united([row for found in rows for row in found or ()])


def _united(rows: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    result: list[tuple[int, int]] = []
    for start, end in sorted(rows):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result


def _written(pid: int, now: int, before: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Of pages in a row; NOW and BEFORE are the page maps.

    INVARIANT(zeros-were-zeros): a shared page may be the kernel's own of zeros, which says nothing about what was there
    in between; but where it was one before, too, or there was none, only a huge page can have been there.
    """
    for first in range(start, end, _LOOK):
        last = min(first + _LOOK, end)
        count, at = (last - first) // _PAGE, first // _PAGE * 8
        tops = [os.pread(file, count * 8, at)[7::8] for file in (now, before)]
        if len(tops[0]) < count or len(tops[1]) < count:
            yield first, last
            continue
        one, other = (
            int.from_bytes(top.translate(table), "big") for top, table in zip(tops, (_NOW, _BEFORE), strict=True)
        )
        alike = bytearray((one & other).to_bytes(count, "big"))
        for place in _doubtful(pid, now, before, first, last, tops):
            alike[place] = 0
        for row in _UNLIKE.finditer(alike):
            yield first + row.start() * _PAGE, first + row.end() * _PAGE


def _doubtful(pid: int, now: int, before: int, start: int, end: int, tops: Sequence[bytes]) -> Iterator[int]:
    """Which of the pages of zeros may have been something else in between, by their places."""
    zeros = _scan(now, start, end, _ZERO)
    if zeros is None:  # then it is one by its contents
        shared = (row.start() for row in re.finditer(re.escape(_SHARED_PAGE), tops[0]))
        yield from (place for place in shared if not _content(pid, start + place * _PAGE))
    elif zeros:
        huge = may_be_huge(pid)
        were = set() if huge else _pages(_scan(before, start, end, _ZERO) or [])
        places = ((page - start) // _PAGE for page in _pages(zeros) - were)
        yield from (place for place in places if huge or tops[1][place])


def _pages(rows: Sequence[tuple[int, int]]) -> set[int]:
    return {page for start, end in rows for page in range(start, end, _PAGE)}


def _content(pid: int, page: int) -> bytes:
    """What is in a page, but for zeros at its ends."""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        try:
            return os.pread(memory.fileno(), _PAGE, page).strip(b"\0")
        except OSError:
            return b""


def may_be_huge(pid: int) -> bool:
    """Whether the kernel may put a huge page where there were small ones, and cut it up into pages of zeros again."""
    try:
        with open(_HUGE, encoding="utf-8") as setting:
            words = setting.read()
        if "[never]" in words:
            return False
        with open(f"/proc/{pid}/smaps", encoding="utf-8", errors="surrogateescape") as maps:
            return "[always]" in words or any(line.startswith("VmFlags") and " hg" in line for line in maps)
    except FileNotFoundError:
        return False
    except OSError:
        return True


def pages_are_merged() -> bool:
    """A daemon of the kernel that makes equal pages one, also those that were written to."""
    try:
        with open(_KSM, encoding="utf-8") as state:
            return state.read(1) == "1"
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _moved(slot: Slot) -> list[tuple[int, int]]:
    """What operations mapped or moved since the last time."""
    return [(start // _PAGE * _PAGE, -(-end // _PAGE) * _PAGE) for start, end in slot.take_stretches()]


def _mappings(pid: int) -> Iterator[tuple[int, int]]:
    """The program's private memory that may be written to; not the engine's own."""
    engine = 0
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            fields = line.rstrip("\n").split(None, 5)
            start, end = (int(part, 16) for part in fields[0].split("-"))
            if (fields[5:] and fields[5].endswith(_ENGINE)) or (start == engine and not fields[5:]):
                engine = end  # what follows without a name are its variables
            elif fields[1][1] == "w" and fields[1][3] == "p" and not lib.GR_ZONE <= start < lib.GR_ZONE_END:
                area = fields[1] == "rwxp" and not fields[5:] and not (start | end) % lib.GR_COUNT_AREA
                if not area:  # of a counted run
                    yield start, end


def _present(pages: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    found = _scan(pages, start, end, _PRESENT)
    if found is None:
        found = [(start, end)] if end - start <= _WITHOUT_SCAN else []
    yield from found


def _scan(pages: int, start: int, end: int, wanted: int) -> list[tuple[int, int]] | None:
    """Where there are pages that are any of what is WANTED; None where the kernel cannot tell."""
    rows = ffi.new(f"uint64_t[{3 * _AT_ONCE}]")
    address = int(ffi.cast("uintptr_t", rows))
    found: list[tuple[int, int]] = []
    while start < end:
        scan = array("Q", [96, 0, start, end, 0, address, _AT_ONCE, 0, 0, 0, wanted, wanted])
        try:
            count = fcntl.ioctl(pages, _SCAN, scan)
        except OSError:
            return None
        found += ((int(rows[3 * at]), int(rows[3 * at + 1])) for at in range(count))
        start = scan[4]
    return found


def _add_shared(found: array[int], pages: int, start: int, end: int) -> None:
    entries = os.pread(pages, (end - start) // _PAGE * 8, start // _PAGE * 8)
    for row in _ROWS.finditer(entries[7::8]):
        first, last = start + row.start() * _PAGE, start + row.end() * _PAGE
        if found and found[-1] == first:
            found[-1] = last
        else:
            found.extend((first, last))


def _without(stretches: array[int], moved: list[tuple[int, int]]) -> array[int]:
    for start, end in moved:
        kept: array[int] = array("Q")
        for at in range(0, len(stretches), 2):
            first, last = stretches[at], stretches[at + 1]
            for one, other in ((first, min(last, start)), (max(first, end), last)):
                if one < other:
                    kept.extend((one, other))
        stretches = kept
    return stretches
