"""Which pages were not written to between two checkpoints, as the kernel's page tables tell.

Runs in: the server and scripts. May call: abi.
Owns: what is known about each stretch of the skeleton's run; nothing of it is asked again.

A checkpoint is a fork, behind which every page is shared. INVARIANT(shared-is-unwritten): who writes to a shared page
gets one of his own, so a page that the skeleton shares when it stands again is one that it has not written to since,
whoever else lives or has ended by then; one that changed and changed back is not shared. Everything else counts as
written: a page that is not there, a file's, one in swap, one of a mapping that is shared on purpose, and where the
engine says that something was mapped, moved or dropped. A page of zeros may be the kernel's own, which many share;
see Checkpoints.untouched.
"""

from __future__ import annotations

import bisect
import fcntl
import os
import re
from array import array
from collections.abc import Iterator, Sequence

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
_PRESENT = 1 << 3
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


def written_pages(pid: int, slot: Slot, source: int, regions: Sequence[tuple[int, int]]) -> list[int]:
    """The pages of REGIONS that a standing process, woken from the checkpoint SOURCE, may have written to since."""
    wanted = [page for start, end in regions for page in range(start // _PAGE * _PAGE, end, _PAGE)]
    if pages_are_merged():
        return wanted
    moved = _moved(slot)
    written = []
    with (
        open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pages,
        open(f"/proc/{source}/pagemap", "rb", buffering=0) as before,
        open(f"/proc/{pid}/mem", "rb", buffering=0) as memory,
    ):
        for page in wanted:
            entry, old = (os.pread(file.fileno(), 8, page // _PAGE * 8) for file in (pages, before))
            shared = entry[7:] == _SHARED_PAGE and any(os.pread(memory.fileno(), _PAGE, page))
            never = not any(entry) and not any(old)
            if not (shared or never) or any(start < page + _PAGE and page < end for start, end in moved):
                written.append(page)
    return written


def pages_are_merged() -> bool:
    """A daemon of the kernel that makes equal pages one, also those that were written to."""
    try:
        with open(_KSM, encoding="ascii") as state:
            return state.read(1) == "1"
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _moved(slot: Slot) -> list[tuple[int, int]]:
    """What operations mapped or moved since the last time."""
    count = min(int(slot.raw.stretches), lib.GR_STRETCHES)
    rows = [(int(slot.raw.stretch[at].start), int(slot.raw.stretch[at].end)) for at in range(count)]
    slot.raw.stretches = 0
    return [(start // _PAGE * _PAGE, -(-end // _PAGE) * _PAGE) for start, end in rows]


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
                yield start, end


def _present(pages: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    rows = ffi.new(f"uint64_t[{3 * _AT_ONCE}]")
    while start < end:
        address = int(ffi.cast("uintptr_t", rows))
        scan = array("Q", [96, 0, start, end, 0, address, _AT_ONCE, 0, 0, _PRESENT, 0, _PRESENT])
        try:
            count = fcntl.ioctl(pages, _SCAN, scan)
        except OSError:
            if end - start <= _WITHOUT_SCAN:
                yield start, end
            return
        yield from ((int(rows[3 * at]), int(rows[3 * at + 1])) for at in range(count))
        start = scan[4]


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
