"""What was hit: of all that the engine logs of one execution of an instruction, or of one operation, one hit.

Runs in: the server and scripts. May call: ctl.
Owns: nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from gdbrr.ctl.control import PointHit
from gdbrr.timeline.model import Hit, Moment, Point
from gdbrr.timeline.step.points import Piece


class Found(NamedTuple):
    """A hit and which of the searched points it is of. Its place among others: (tick, place in that run)."""

    piece: Piece
    hit: PointHit
    others: tuple[Found, ...] = ()
    """What else of the point the same execution or operation hit, and when it did so again."""

    @property
    def point(self) -> Point:
        return self.piece.point

    @property
    def parts(self) -> tuple[Found, ...]:
        return (self, *self.others)

    def and_too(self, other: Found) -> Found:
        return self._replace(others=(*self.others, *other.parts))

    @property
    def values(self) -> tuple[int, int]:
        """Old and new, of the whole point if it has few bytes, else of the first piece."""
        if not self.piece.is_shown:
            return 0, 0
        if not self.piece.is_part:
            if not self.others:
                return self.hit.old, self.hit.new
            hits = [part.hit for part in self.parts if part.piece.addr == self.first.addr]
            return hits[0].old, hits[-1].new
        # What none of them hit is the same in front of all and behind.
        old, new = bytearray(self.hit.place), bytearray(self.parts[-1].hit.place)
        for part in self.parts:
            part.put(new, part.hit.new)
        for part in reversed(self.parts):
            part.put(old, part.hit.old)
        return int.from_bytes(old, "little"), int.from_bytes(new, "little")

    def put(self, place: bytearray, value: int) -> None:
        at, length = self.piece.addr - self.point.addr, self.piece.length
        place[at : at + length] = value.to_bytes(8, "little")[:length]

    @property
    def first(self) -> Piece:
        """Of what was hit, that with the lowest address."""
        return min((part.piece for part in self.parts), key=lambda piece: piece.addr)

    @property
    def addr(self) -> int:
        if not self.piece.is_shown:
            return self.hit.new if self.piece.by_pages else 0
        return self.first.addr


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


def at_once(hits: Sequence[Found]) -> list[Found]:
    """The same hits, but those of one point that one trap or one operation made are one. Where a trap is one of several
    of a repeated string instruction, so is its hit."""
    result: list[Found] = []
    newest: dict[int, int] = {}  # pieces of one point have one object
    for one in hits:
        at = newest.get(id(one.point))
        last = result[at].hit if at is not None else None
        same = last and last.tick == one.hit.tick and last.by_operation == one.hit.by_operation
        if at is not None and last and same and (last.by_operation or last.trap == one.hit.trap != 0):
            result[at] = result[at].and_too(one)
        else:
            newest[id(one.point)] = len(result)
            result.append(one)
    return result


Told = tuple[Found, Moment | None]
"""A hit and its moment, where that was looked for."""


def joined(hits: Iterable[Told]) -> list[Told]:
    """The same, but those of one point at one moment are one: what a repeated string instruction did, or what did not
    fit into one run."""
    result: list[Told] = []
    newest: dict[tuple[int, int, int | None, int], int] = {}
    for found, moment in hits:
        at = len(result)
        if moment:
            at = newest.setdefault((id(found.piece.point), moment.tick, moment.pc, moment.nth), at)
        if at < len(result):
            result[at] = result[at][0].and_too(found), moment
        else:
            result.append((found, moment))
    return result


def named(found: Found, moment: Moment | None) -> Hit:
    """The hit; without a MOMENT that is the operation in whose segment it is."""
    hit = found.hit
    pc = (0 if hit.by_operation else hit.pc) if moment is None else moment.pc or 0
    return Hit(moment or Moment(hit.tick), found.point, hit.thread, *found.values, found.addr, pc)
