"""Whether everybody who stands at a tick has the state that whoever stood there first had.

Runs in: the server and scripts; the skeleton's own thread, too. May call: errors, ctl.
Owns: the state at each tick at which somebody stood.

A process keeps a hash of each page, and brings those up to date that were written to since its newest look (see
preload/digest/kept.h); a copy inherits them. So a state costs what changed. Where two states are not equal, both
processes are looked at in full, and the first object that differs is named.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gdbrr.abi import lib
from gdbrr.ctl import changes
from gdbrr.ctl.control import Slot
from gdbrr.ctl.digest import Digest
from gdbrr.errors import EXIT_DESYNC, GdbrrError
from gdbrr.timeline.leaf import views
from gdbrr.timeline.model import Progress, ThreadView
from gdbrr.timeline.state import places

if TYPE_CHECKING:
    from gdbrr.timeline.worker import Checkpoint, Process, Worker

_WORD = 4
_DIGITS = 10
_LOCK = 0x3FFFFFFF
"""FUTEX_TID_MASK."""
_LEFT_OUT = ("rcx", "r11", "gs_base")
_FLAGS = ~0x10100
"""Less what belongs to a debugger, and what a system call destroys: see visible() in preload/digest/digest.c."""


class Differs(GdbrrError):
    """Two processes of one replay stand at one tick and are not equal."""

    def __init__(self, tick: int, what: Sequence[str]) -> None:
        more = f", and {len(what) - 1} more" if len(what) > 1 else ""
        super().__init__(
            f"the state at tick {tick} is not what it was the first time: {what[0]}{more}",
            "the replay is not the same each time; please report it, with the demo",
            EXIT_DESYNC,
        )
        self.tick = tick
        self.what = tuple(what)
        """What differs, a few words each, in the order of addresses."""


@dataclass(frozen=True)
class State:
    """Equal states have equal numbers."""

    memory: int
    ranges: int
    registers: int
    threads: int


class States:
    def __init__(self, born: int, again: Callable[[int], Worker]) -> None:
        """BORN is how many threads the run has; AGAIN makes another process that stands at a tick."""
        self._born = born
        self._again = again
        self._known: dict[int, State] = {}
        self._owner = threading.get_ident()
        self.compared = 0
        """How often a state was found equal to the one before."""
        self.looked = 0
        """Pages that were looked at."""

    @property
    def ticks(self) -> list[int]:
        return sorted(self._known)

    def look(self, process: Process) -> None:
        """PROCESS stands. The first one at a tick is remembered, all others are compared; raises Differs."""
        tick = process.slot.tick
        found, pages = state_of(process.slot)
        self.looked += pages
        known = self._known.setdefault(tick, found)
        if known is found:
            return
        if known == found or not self._differs(tick, process, found):
            self.compared += 1

    def _differs(self, tick: int, process: Process, found: State) -> bool:
        # The skeleton: it was never there before, and its thread wakes no copies.
        if threading.get_ident() != self._owner:
            raise Differs(tick, ["the skeleton's, which another process had reached before"])
        other = self._again(tick)
        try:
            what = list(differences(process, other, self._born))
            if what:
                raise Differs(tick, what)
            # These two are equal, but for kernel ids. So are their numbers, unless ids are in them: then the numbers of
            # the first one may differ for the same reason, else it was another state.
            third, known = state_of(other.slot)[0], self._known[tick]
        finally:
            other.drop()
        for name in ("memory", "ranges", "registers", "threads"):
            if getattr(third, name) == getattr(found, name) != getattr(known, name):
                raise Differs(tick, [f"other {name} than in a process that is gone"])
        return False


def _stretches(kept: Sequence[Checkpoint], known: Sequence[int], end: int) -> Iterator[tuple[Checkpoint, list[int]]]:
    """Where to run from each checkpoint, up to the next one, to be compared with who was there."""
    ticks = [*known, *([] if end in known else [end])]
    for place, one in enumerate(kept):
        last = kept[place + 1].tick if place + 1 < len(kept) else end
        if stops := [tick for tick in ticks if one.tick < tick <= last]:
            yield one, stops
            if place + 1 == len(kept):  # nobody but a leaf comes to the end, so two of them do
                yield one, [end]


def verify(
    states: States,
    kept: Sequence[Checkpoint],
    end: int,
    final_thread: int,
    at_once: int,
    progress: Progress | None,
) -> None:
    """Run from each of the checkpoints to the next one, and from the last one to END, and compare on the way."""
    waiting = list(_stretches(kept, states.ticks, end))
    running: list[tuple[Worker, list[int]]] = []
    total = len(waiting)
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                source, ticks = waiting.pop(0)
                running.append((source.wake(final_thread), ticks))
                running[-1][0].begin(ticks.pop(0))
            worker, ticks = running[0]
            worker.finish()
            if progress:
                progress("comparing", 1 - (len(waiting) + len(running)) / total)
            if ticks:
                worker.begin(ticks.pop(0))
            else:
                del running[0]
                worker.drop()
    finally:
        for worker, _ in running:
            worker.drop()


def state_of(slot: Slot) -> tuple[State, int]:
    """The state of a standing process, and how many pages were looked at for it."""
    looked = slot.look(changes.pages_are_merged())
    state = State(looked.memory, looked.ranges, looked.registers, looked.threads)
    return state, looked.looked


# ---------------------------------------------------------------- in full
def differences(one: Process, other: Process, born: int) -> Iterator[str]:
    """What is not equal in two standing processes, OTHER's first."""
    mine, theirs = (Digest.parse(each.control.digest(each.slot)) for each in (one, other))
    threads = [views(each.pid, born) for each in (one, other)]
    yield from _registers(*threads)
    for start, end in sorted(set(mine.ranges) ^ set(theirs.ranges)):
        yield f"memory {start:#x}-{end:#x} is in one only"
    pages = [
        page
        for page in sorted(mine.pages.keys() | theirs.pages.keys())
        if mine.pages.get(page) != theirs.pages.get(page)
    ]
    ids = [ids_of(each) for each in threads]
    for at in range(0, len(pages), lib.GR_PAGES_MOST):
        some = pages[at : at + lib.GR_PAGES_MOST]
        contents = [each.control.pages(each.slot, some) for each in (one, other)]
        for place, page in enumerate(some):
            here, there = (each[place * lib.GR_PAGE : (place + 1) * lib.GR_PAGE] for each in contents)
            found = _first(here, there, ids[0], ids[1])
            if found is not None:
                name = places.describe(one.pid, threads[0], page + found)
                yield f"{name} is {_shown(here, found)}, not {_shown(there, found)}"


def _registers(mine: Sequence[ThreadView], theirs: Sequence[ThreadView]) -> Iterator[str]:
    others, ids = {view.index: view.regs for view in theirs}, (ids_of(mine), ids_of(theirs))
    for view in mine:
        if view.index not in others:
            yield f"thread {view.index} is in one only"
            continue
        for name, value in view.regs.items():
            other = others[view.index][name]
            mask = _FLAGS if name == "eflags" else -1
            meant = None if name == "eflags" else meant_by(value, ids[0])
            if name not in _LEFT_OUT and (value ^ other) & mask and not (meant and meant == meant_by(other, ids[1])):
                yield f"{name} of thread {view.index} is {value:#x}, not {other:#x}"
    for index in sorted(others.keys() - {view.index for view in mine}):
        yield f"thread {index} is in one only"


def ids_of(threads: Sequence[ThreadView]) -> dict[int, int]:
    """Recorded kernel ids by those of a process."""
    known = [view for view in threads if view.recorded_tid]
    return {tid: view.recorded_tid for view in known for tid in (*view.was, view.tid)}


def _first(here: bytes, there: bytes, mine: dict[int, int], theirs: dict[int, int]) -> int | None:
    """Where two pages begin to differ; kernel ids of the same thread are equal."""
    if here == there:
        return None
    for at in range(0, len(here), _WORD):
        if here[at : at + _WORD] == there[at : at + _WORD]:
            continue
        one, other = (int.from_bytes(page[at : at + _WORD], "little") for page in (here, there))
        meant = meant_by(one, mine)
        if meant and meant == meant_by(other, theirs):
            continue
        for byte in range(at, at + _WORD):
            if here[byte] != there[byte] and not _is_written(here, there, byte, mine, theirs):
                return byte
    return None


def meant_by(word: int, ids: dict[int, int]) -> tuple[int, int] | None:
    """Whose kernel id a word holds, and what else is in it: as itself, with a lock's flags, or as a clock's number."""
    if word >> 32:
        return None
    if word in ids:
        return ids[word], 0
    if word & _LOCK in ids:
        return ids[word & _LOCK], word & ~_LOCK
    of_clock = (~word & 0xFFFFFFFF) >> 3
    return (ids[of_clock], 1 | word & 7) if of_clock in ids else None


def _is_written(here: bytes, there: bytes, at: int, mine: dict[int, int], theirs: dict[int, int]) -> bool:
    """Whether a kernel id is written in digits there, as the C library does for the name of a file."""
    start, end = at, at
    while start and here[start - 1 : start].isdigit():
        start -= 1
    while end < len(here) and here[end : end + 1].isdigit():
        end += 1
    one, other = here[start:end], there[start:end]
    if not one.isdigit() or not other.isdigit() or len(one) > _DIGITS:
        return False
    return int(one) in mine and mine[int(one)] == theirs.get(int(other))


def _shown(page: bytes, at: int) -> str:
    start = at & -8
    return f"{int.from_bytes(page[start : start + 8], 'little'):#x}"
