"""Hits: which points a worker can count at once, one run over a span with them armed, and what it found.

Runs in: the server and scripts. May call: errors, ctl, launch.
Owns: the worker of a pass.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from gdbrr.abi import lib
from gdbrr.ctl.control import DEBUG_REGISTER, FOREVER, NOBODY, Armed, PointHit, ProcessEnded, has_ended
from gdbrr.errors import GdbrrError
from gdbrr.timeline.model import FEW, Hit, Moment, Point, PointKind, Progress
from gdbrr.timeline.order import Order
from gdbrr.timeline.step.code import USER
from gdbrr.timeline.worker import Checkpoint

_NAP = 0.002
_NEAREST = 4
"""Ticks between where a pass is and where another one may take over from it."""
STORES = (PointKind.WRITE, PointKind.CHANGE)
KINDS = {
    PointKind.WRITE: lib.GR_POINT_WRITE,
    PointKind.ACCESS: lib.GR_POINT_ACCESS,
    PointKind.EXEC: lib.GR_POINT_EXEC,
    PointKind.CHANGE: lib.GR_POINT_CHANGE,
}
WIDEST = 1 << 31
"""Bytes of one point."""
WIDEST_WRITE = 1 << 20
"""The same of one that looks for all stores."""
# Operations of GDB's agent bytecode that the engine knows, and the bytes behind each.
_CODES = {
    **dict.fromkeys([*range(0x02, 0x0C), *range(0x0E, 0x16), *range(0x17, 0x1B), 0x27, 0x28, 0x29, 0x2B, 0x33], 0),
    **dict.fromkeys([0x16, 0x22, 0x2A, 0x32], 1),
    **dict.fromkeys([0x20, 0x21, 0x23, 0x26], 2),
    0x24: 4,
    0x25: 8,
}


@dataclass(frozen=True)
class Piece:
    """What one debug register counts: all of a point, or eight aligned bytes of it; or what no register does."""

    point: Point
    addr: int
    length: int

    @cached_property
    def executes(self) -> bool:
        return self.point.kind is PointKind.EXEC

    @property
    def by_pages(self) -> bool:
        """Its pages are protected instead."""
        return self.length > DEBUG_REGISTER

    def armed(self, from_tick: int, stop_at: int = 0) -> Armed:
        point = self.point
        kind = KINDS[point.kind]
        return Armed(self.addr, self.length, kind, from_tick, stop_at, point.thread, point.condition)

    def clashes(self, other: Piece) -> bool:
        """Whether one instruction's hit of both would be one trap."""
        if self.executes != other.executes:
            return False
        return self.addr < other.addr + other.length and other.addr < self.addr + self.length


def pieces_of(point: Point) -> list[Piece]:
    """A region is cut into aligned pieces of 1, 2, 4 and 8 bytes, as the processor wants them. Of one that is large and
    looked at for reads, the first byte tells of accesses that begin in front of it, of the others their pages do."""
    if point.kind is PointKind.EXEC:
        return [Piece(point, point.addr, 1)]
    if point.kind is PointKind.ACCESS and point.length > FEW:
        if point.addr % lib.GR_PAGE == 0:
            return [Piece(point, point.addr, point.length)]
        return [Piece(point, point.addr, 1), Piece(point, point.addr + 1, point.length - 1)]
    pieces, addr, end = [], point.addr, point.addr + point.length
    while addr < end:
        size = next(size for size in (DEBUG_REGISTER, 4, 2, 1) if addr + size <= end and addr % size == 0)
        pieces.append(Piece(point, addr, size))
        addr += size
    return pieces


def check_points(points: Sequence[Point], widest: int = WIDEST) -> None:
    """Refuse what the engine would only find out at a hit, and what would take too long."""
    for point in points:
        if point.length < 1:
            raise GdbrrError(f"nothing of {point.addr:#x} is to be watched", "a point has at least one byte")
        if not 0 <= point.addr <= USER - point.length:
            raise GdbrrError(f"{point.addr:#x} is not an address of the program", "look elsewhere")
        every = point.kind is PointKind.WRITE
        most = min(WIDEST_WRITE if every else WIDEST, widest)
        if point.length > most:
            what = " for every store" if every else ""
            raise GdbrrError(
                f"{point.length} bytes at {point.addr:#x} are too many to be watched{what}",
                f"{most} are possible: watch a part of it",
            )
        code = _unknown(point.condition)
        if code is not None:
            raise GdbrrError(
                f"a condition uses operation {code:#04x} of the agent bytecode, which is not known here",
                "conditions are of integers, memory and general registers",
            )


def is_known(condition: bytes) -> bool:
    """Whether the engine understands all of it; registers are those of the `g` packet."""
    return _unknown(condition) is None


def _unknown(condition: bytes) -> int | None:
    at = 0
    while at < len(condition):
        code = condition[at]
        if code not in _CODES:
            return code
        at += 1 + _CODES[code]
    return None


class Found(NamedTuple):
    """A hit and which of the searched points it is of. Its place among others: (tick, place in that run)."""

    piece: Piece
    hit: PointHit

    @property
    def point(self) -> Point:
        return self.piece.point

    @property
    def addr(self) -> int:
        """Where it was hit."""
        return 0 if self.piece.executes else self.hit.new if self.piece.by_pages else self.piece.addr


class Pass:
    """One worker that runs over the span start <= tick < stop with up to GR_WATCHES pieces armed.

    With `inside`, a moment in the middle of the segment of `stop`, it goes on up to there in a second run. That
    moment's pc takes a place then, unless it is one of the points anyhow: two points at one address would be one hit.
    With `every`, no hit is lost however many there are; else the newest GR_HITS of each run are known.
    """

    def __init__(
        self,
        source: Checkpoint,
        order: Order,
        pieces: Sequence[Piece],
        stop: int,
        inside: Moment | None,
        every: bool = False,
    ) -> None:
        self._pieces = list(pieces)
        self._order = order
        self._inside = inside
        self._second = inside is None
        self._looked = False
        self._every = every
        self._source = source
        self._stop = stop
        self._cut = False
        self._before: list[Found] = []
        self.lost = False
        """More were hit than are known."""
        self.worker = source.wake(order.final_thread)
        self._begin_first()

    def _begin_first(self) -> None:
        self._log: list[PointHit] = []
        try:
            if self._every:
                self.worker.slot.raw.flags |= lib.GR_SLOT_KEEP_HITS
            if self.worker.slot.tick < self._stop:
                start = self.worker.slot.tick
                self.worker.begin(self._stop, [piece.armed(start) for piece in self._pieces])
            else:
                self._begin_second()
        except BaseException:
            self.worker.drop()
            raise

    def _begin_second(self) -> None:
        inside = self._inside
        assert inside is not None and inside.pc is not None
        self._second = True
        armed, merged = [], False
        for piece in self._pieces:
            here = piece.executes and piece.addr == inside.pc
            merged |= here
            armed.append(piece.armed(inside.tick, inside.nth if here else 0))
        # INVARIANT(the-end-is-no-hit): in the log its executions would take the place of what is looked for.
        if not merged:
            armed.append(Armed(inside.pc, 1, lib.GR_POINT_EXEC, inside.tick, inside.nth, NOBODY))
        self.worker.begin(FOREVER if inside.tick >= self._order.ticks else inside.tick + 1, armed)

    def done(self) -> bool:
        if not self.ended():
            return False
        self.worker.check()
        if not self._looked:
            self._looked = True
            self.worker.look()
        if not self._second:
            self._before = self.hits()
            self._log = []
            self._begin_second()
            return False
        return True

    def ended(self) -> bool:
        """Whether it needs no processor any more; what it has logged is taken, so that it need not wait for that."""
        stands = self.worker.done()  # asked first: who still runs may pass its new end behind the look at that
        again = self._look_for_end()
        if self._every:
            self.worker.slot.take_hits(self._log)
        return stands and not again

    def nap(self, progress: Progress | None, what: str, fraction: float) -> None:
        """Let it run for a moment."""
        slot = self.worker.slot
        slot.nap(_NAP)
        if not self.done() and has_ended(slot.pid):
            raise ProcessEnded(f"process {slot.pid} of the search ended by itself", "try again")
        if progress:
            progress(what, fraction)

    def wait(self, progress: Progress | None, what: str, fraction: float) -> None:
        """Wait for its end."""
        while not self.done():
            self.nap(progress, what, fraction)

    # ---------------------------------------------------------------- a part of it is another's
    def middle(self) -> int | None:
        """A tick from which another one could take over."""
        here = self.worker.slot.tick
        at = (here + self._stop) // 2
        return None if (self._second and self._inside) or at < here + _NEAREST else at

    def end_at(self, tick: int) -> None:
        """Stand in front of TICK, which it has not come to yet."""
        self._stop, self._inside, self._second, self._cut = tick, None, True, True
        self.worker.slot.raw.stop_tick = tick

    def _look_for_end(self) -> bool:
        """INVARIANT(cut-in-time): who was past its new end when that was told runs once more, up to there."""
        past = self._cut and self.worker.slot.tick > self._stop
        if past:
            self.worker.drop()
            self.worker = self._source.wake(self._order.final_thread)
            self._begin_first()
        return past

    def hits(self) -> list[Found]:
        """What was hit before the end of the pass, in order of time."""
        slot = self.worker.slot
        if self._every:
            slot.take_hits(self._log)
        else:
            self._log = slot.hits()
            self.lost |= slot.raw.hits > len(self._log)
        hits = [hit for hit in self._log if hit.point < len(self._pieces)]
        by_pages = [at for at, piece in enumerate(self._pieces) if piece.by_pages]
        newer = [Found(self._pieces[hit.point], hit) for hit in one_by_operation(hits, by_pages)]
        return self._before + [found for found in newer if self._counts(found)]

    def _counts(self, found: Found) -> bool:
        """A change changes something; and the hit at the very moment that the pass stops at comes too late."""
        hit, inside = found.hit, self._inside
        if found.point.kind is PointKind.CHANGE and hit.old == hit.new:
            return False
        if inside is None or found.point.kind is not PointKind.EXEC:
            return True
        return not (hit.tick == inside.tick and hit.pc == inside.pc and hit.nth >= inside.nth)

    @property
    def logged(self) -> int:
        """Hits so far."""
        return int(self.worker.slot.raw.hits)

    @property
    def by_pages(self) -> bool:
        return all(piece.by_pages for piece in self._pieces)

    @property
    def arrived(self) -> bool:
        return self._inside is None or self.worker.slot.state == lib.GR_S_TRAPPED

    def drop(self) -> None:
        self.worker.drop()


def one_by_operation(hits: Sequence[PointHit], by_pages: Collection[int] = ()) -> list[PointHit]:
    """The same hits, but those that one operation made byte by byte are one. Of points BY_PAGES it is the first."""
    joined: list[PointHit] = []
    newest: dict[int, int] = {}  # point: where its newest hit stands
    for hit in hits:
        at = newest.get(hit.point)
        last = joined[at] if at is not None else None
        if at is not None and last and last.by_operation and hit.by_operation and last.tick == hit.tick:
            joined[at] = last if hit.point in by_pages else hit._replace(old=last.old)
        else:
            newest[hit.point] = len(joined)
            joined.append(hit)
    return joined


def groups_of(points: Sequence[Point], room: int) -> list[list[Piece]]:
    """The points in groups of at most ROOM pieces that one worker can count: two on the same bytes would be one hit."""
    groups: list[list[Piece]] = []
    for piece in dict.fromkeys(piece for point in points for piece in pieces_of(point)):
        for group in groups:
            if len(group) < room and not any(piece.clashes(other) for other in group):
                group.append(piece)
                break
        else:
            groups.append([piece])
    return groups


def joined(hits: Sequence[Hit]) -> list[Hit]:
    """The same hits, but those that one instruction made of the same bytes, or of what is watched by pages, are one."""
    result: list[Hit] = []
    newest: dict[tuple[int, int], int] = {}  # hits of one point have one object
    for hit in hits:
        by_pages = hit.point.kind is PointKind.ACCESS and hit.point.length > FEW
        key = id(hit.point), 0 if by_pages else hit.addr
        at = newest.get(key)
        if at is None or hit.moment.pc is None or result[at].moment != hit.moment:
            newest[key] = len(result)
            result.append(hit)
        elif not by_pages:
            result[at] = replace(hit, old=result[at].old)
    return result


def named(found: Found, moment: Moment) -> Hit:
    hit, point = found.hit, found.point
    pc = moment.pc if moment.pc is not None else 0
    old, new = (0, 0) if found.piece.by_pages else (hit.old, hit.new)
    return Hit(moment, point, hit.thread, old, new, found.addr, pc)
