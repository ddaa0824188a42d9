"""Which pass of a loop a stopped process stands in, where several have the same registers: told by memory.

Runs in: the server and scripts. May call: errors, ctl, launch, the timeline's workers.
Owns: nothing.

INVARIANT(by-what-moves): only words count that differ between passes, other than by kernel ids. What else differs
between two processes says nothing of a pass.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack

from gdbrr.abi import lib
from gdbrr.ctl import changes
from gdbrr.ctl.control import Armed
from gdbrr.launch import watchdog
from gdbrr.timeline.leaf import views
from gdbrr.timeline.model import Progress
from gdbrr.timeline.state.states import ids_of, meant_by
from gdbrr.timeline.worker import Worker

_GRACE = 0.5
"""Seconds."""
_FIRST, _TRAP = 4.0, 1e-4
"""Seconds that a first pass takes in any case, and for each execution of its instruction."""
_FASTEST, _TICK = 20e9, 0.03
"""Instructions that a processor executes in a second at most; and by how much its time is not known."""
_ROUNDS = 8
_WORDS = 24
"""That are compared at each pass, more in each round. The last round's must fit into GR_CONDITION_ROOM."""
_CONST64, _REF64, _EQUAL, _AND, _END = b"\x25", b"\x1a", b"\x13", b"\x0f", b"\x27"


class NoOther(Exception):
    """The process that stands in a pass cannot have come to one that is so far away."""


class Patience:
    """How long passes are looked for. INVARIANT(ran-so-far): the process LIKE came to its own within the time of a
    processor that its THREAD has had, or that a replay needs for the first. Behind it there may be no other one, and no
    end: what waits for others there waits for ever."""

    def __init__(self, like: int | None, thread: int, born: int, progress: Progress | None) -> None:
        self._progress = progress
        self._most: float | None = None
        """Seconds without a pass, once the first is known."""
        tid = next((view.tid for view in views(like, born) if view.index == thread), 0) if like is not None else 0
        self._had = watchdog.ran(like, tid) if like is not None else 0.0

    @property
    def instructions(self) -> int:
        """So many the process LIKE can have executed at most."""
        return int((self._had + _TICK) * _FASTEST)

    def found(self, worker: Worker) -> None:
        self._most = self._most or _GRACE + 2 * max(self._had, watchdog.ran(worker.pid))

    def over(self, worker: Worker) -> Progress | None:
        """To be called while WORKER runs; raises NoOther."""
        begun = watchdog.ran(worker.pid)
        most, met, since = self._most, 0, begun

        def look(what: str, part: float) -> None:
            nonlocal met, since
            ran = watchdog.ran(worker.pid)
            if most is None:
                if ran - begun > _FIRST + 3 * self._had + _TRAP * worker.slot.met:
                    raise NoOther
                if self._progress:
                    self._progress(what, part)
                return
            if worker.slot.met != met:
                met, since = worker.slot.met, ran
            if ran - since > most:
                raise NoOther
            if self._progress:
                self._progress(what, part)

        return look


class Memory:
    """A stopped process, as far as two of them may differ."""

    def __init__(self, pid: int, born: int) -> None:
        self.pid = pid
        self.ids = ids_of(views(pid, born))
        self.fd = os.open(f"/proc/{pid}/mem", os.O_RDONLY)

    def own(self) -> set[int]:
        return set(changes.own_pages(self.pid))

    def page(self, address: int) -> bytes:
        try:
            return os.pread(self.fd, lib.GR_PAGE, address)
        except OSError:
            return b""

    def word(self, address: int) -> bytes:
        try:
            return os.pread(self.fd, 8, address)
        except OSError:
            return b""

    def close(self) -> None:
        os.close(self.fd)


def find(
    run: Callable[[Armed], Worker | None], pc: int, tick: int, like: int | None, born: int
) -> tuple[int, bool] | None:
    """The number of the pass, and whether it is certain; None where none has these registers.

    RUN makes a process that was stopped by a point, the registers being the wanted ones, or None if none was. LIKE is
    the process that stands in the pass; without it, it is the first one.
    """
    with ExitStack() as ends:

        def stopped(stop_at: int, condition: bytes = b"") -> tuple[Memory, int] | None:
            worker = run(Armed(pc, 1, lib.GR_POINT_EXEC, tick, stop_at, condition=condition))
            if worker is None:
                return None
            ends.callback(worker.drop)
            memory = Memory(worker.pid, born)
            ends.callback(memory.close)
            return memory, worker.slot.hits()[-1].nth

        first = stopped(1)
        if first is None:
            return None
        if like is None:
            return first[1], True
        try:
            there = Memory(like, born)
        except OSError:
            return first[1], False
        ends.callback(there.close)
        if not differing(first[0], there):
            return first[1], True  # nothing tells the two apart
        second = stopped(2)
        if second is None:
            return first[1], True
        moving, here, asked = differing(first[0], second[0]), first, dict[int, bytes]()
        for _ in range(_ROUNDS):
            wrong = sorted(at for at in moving if there.word(at) != here[0].word(at))
            if not wrong:
                return here[1], True
            asked |= {at: there.word(at) for at in some(wrong)}
            found = stopped(1, condition(asked))
            if found is None:
                break
            moving |= differing(first[0], found[0])
            here = found
        return first[1], False


def differing(one: Memory, other: Memory) -> set[int]:
    """The addresses of the words that two processes, woken from checkpoints of one skeleton, do not have in common."""
    found = set()
    for page in one.own() | other.own():
        mine, theirs = one.page(page), other.page(page)
        if mine != theirs and len(mine) == len(theirs):
            pairs = zip(array("Q", mine), array("Q", theirs), strict=True)
            found |= {
                page + 8 * at
                for at, (here, there) in enumerate(pairs)
                if here != there and not _are_ids(here, there, one.ids, other.ids)
            }
    return found


def _are_ids(here: int, there: int, mine: dict[int, int], theirs: dict[int, int]) -> bool:
    """Whether two words differ in the kernel ids of threads only."""
    for shift in (0, 32):
        halves = here >> shift & 0xFFFFFFFF, there >> shift & 0xFFFFFFFF
        whose = meant_by(halves[0], mine)
        if halves[0] != halves[1] and (whose is None or whose != meant_by(halves[1], theirs)):
            return False
    return True


def some(words: Sequence[int]) -> Collection[int]:
    """A few of them: what was written last is mostly first or last."""
    third = _WORDS // 3
    middle = words[third:-third]
    return {*words[:third], *words[-third:], *middle[:: -(-len(middle) // third) or 1]}


def condition(words: dict[int, bytes]) -> bytes:
    """GDB's agent bytecode for: these are the contents."""
    code = b""
    for address, content in words.items():
        wanted = int.from_bytes(content, "little").to_bytes(8, "big")
        code += _CONST64 + address.to_bytes(8, "big") + _REF64 + _CONST64 + wanted + _EQUAL
        code += _AND if len(code) > 20 else b""
    return code + _END
