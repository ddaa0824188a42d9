"""What is looked for, as the engine takes it: points, and the pieces of them that a debug register counts.

Runs in: the server and scripts. May call: errors, abi, ctl.
Owns: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from gdbrr.abi import lib
from gdbrr.ctl.control import DEBUG_REGISTER, Armed
from gdbrr.errors import GdbrrError
from gdbrr.timeline.model import FEW, Point, PointKind
from gdbrr.timeline.step.code import USER

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

    @cached_property
    def by_pages(self) -> bool:
        """Its pages are protected instead."""
        return self.length > DEBUG_REGISTER

    @cached_property
    def is_shown(self) -> bool:
        """Its hits have values."""
        return not self.executes and not self.by_pages

    @cached_property
    def is_part(self) -> bool:
        """Of a place that is shown as a whole."""
        return self.length < self.point.length <= FEW

    def armed(self, from_tick: int, stop_at: int = 0) -> Armed:
        point = self.point
        kind, place = KINDS[point.kind], (point.addr, point.length) if self.is_part else (0, 0)
        return Armed(self.addr, self.length, kind, from_tick, stop_at, point.thread, point.condition, place)

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
