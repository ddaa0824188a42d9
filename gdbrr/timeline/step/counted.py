"""The last hit in a segment that is counted.

Runs in: the server and scripts. May call: errors, abi, ctl, the timeline's workers.
Owns: the workers of such a search.

How often an instruction was executed up to a moment is known there, so its last execution needs no search. Whatever
else is looked for, stores and conditions, is looked for between copies on the way, from the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gdbrr.abi import lib
from gdbrr.ctl.control import Armed, PointHit, ProcessEnded
from gdbrr.timeline.course import Course, Courses, Mark
from gdbrr.timeline.model import FEW, Hit, Moment, Point, PointKind, Progress
from gdbrr.timeline.order import Order
from gdbrr.timeline.segment import is_repeated
from gdbrr.timeline.step.points import Piece, groups_of
from gdbrr.timeline.step.row import MANY
from gdbrr.timeline.worker import Worker

_NAP = 0.002
_SHORT = 4000
"""Instructions of a stretch that is not cut any more, however often it meets its points."""
_PARTS = (8, 64, 512, 4096)
"""Of a stretch with many hits: so far from its end others begin."""


class _Last(NamedTuple):
    """A hit, and how many instructions of the segment are in front of it."""

    place: int
    hit: Hit


@dataclass(frozen=True)
class _Stretch:
    source: Mark | None
    """None: the segment's beginning."""
    end: Moment | None
    """None: that of the segment."""
    length: int

    @property
    def at(self) -> int:
        return self.source.at if self.source else 0


class _Pass:
    """A run over a stretch with points armed."""

    def __init__(
        self,
        search: CountedSearch,
        course: Course,
        stretch: _Stretch,
        pieces: Sequence[Piece],
        stops: Sequence[int] = (),
    ) -> None:
        self.pieces, self.stretch, self.course = list(pieces), stretch, course
        tick, end = course.tick, stretch.end
        self.worker, there = search.courses.woken(course, stretch.source, None)
        try:
            if there is not stretch.source:
                raise ProcessEnded("a copy in the middle of a segment was ended from outside", "try again")
            armed = [piece.armed(tick, stop) for piece, stop in zip(pieces, stops or [0] * len(pieces), strict=True)]
            if end is not None and end.pc is not None:
                done = stretch.source.executed([end.pc])[end.pc] if stretch.source else 0
                same = next((at for at, piece in enumerate(pieces) if piece.executes and piece.addr == end.pc), None)
                if same is None:
                    armed.append(Armed(end.pc, 1, lib.GR_POINT_EXEC, tick, end.nth - done))
                elif not armed[same].stop_at:
                    armed[same] = armed[same]._replace(stop_at=end.nth - done)
            self.worker.begin(tick + 1, armed, counted=True)
        except BaseException:
            self.worker.drop()
            raise

    def hits(self) -> list[PointHit]:
        return [hit for hit in self.worker.slot.hits() if hit.point < len(self.pieces) and self._counts(hit)]

    def _counts(self, hit: PointHit) -> bool:
        piece, end = self.pieces[hit.point], self.stretch.end
        if hit.by_operation:
            return False
        if piece.point.kind is PointKind.CHANGE:
            return hit.old != hit.new
        return not (piece.executes and end and hit.pc == end.pc and hit.nth >= end.nth)


class CountedSearch:
    def __init__(self, order: Order, courses: Courses) -> None:
        self._order = order
        self.courses = courses

    @staticmethod
    def can(points: Sequence[Point]) -> bool:
        """Whether these can be looked for here; the others need their pages to be protected."""
        return all(point.kind is PointKind.EXEC or point.length <= FEW for point in points)

    def last_hit(
        self,
        course: Course,
        points: Sequence[Point],
        end: Moment | None,
        at_once: int,
        progress: Progress | None,
        registers: int,
    ) -> Hit | None:
        """The last hit in front of END, or in all of the segment. What its operation itself does is not looked at."""
        owner = self._order.thread_of(course.tick)
        mine = [point for point in points if point.thread is None or point.thread == owner]
        plain = [point for point in mine if point.kind is PointKind.EXEC and not point.condition]
        found = self._executed(course, plain, end, progress)
        rest = [point for point in mine if point not in plain]
        last = course.length if end is None else self.courses.place(course, end, progress)
        assert last is not None
        for group in groups_of(rest, registers - 1):
            other = self._by_stretches(course, group, end, last, at_once, found.place if found else -1, progress)
            if other and (found is None or other.place > found.place):
                found = other
        return found.hit if found else None

    # ---------------------------------------------------------------- executions
    def _executed(
        self, course: Course, points: Sequence[Point], end: Moment | None, progress: Progress | None
    ) -> _Last | None:
        """Of these instructions, the one that was executed last."""
        by_pc = {point.addr: point for point in points}
        left = {pc: nth for pc, nth in self._times(course, list(by_pc), end, progress).items() if nth}
        best: Moment | None = None
        while left:
            pc, nth = left.popitem()
            best = Moment(course.tick, pc, nth)
            worker = self.courses.brought_to(course, best, progress)
            assert worker is not None
            try:
                there = dict(zip(left, worker.slot.count(list(left))[1], strict=True)) if left else {}
            finally:
                worker.drop()
            left = {pc: nth for pc, nth in left.items() if there[pc] < nth}  # it is still to come
        if best is None:
            return None
        point = by_pc[best.pc or 0]
        hit = Hit(best, point, self._order.thread_of(course.tick), pc=best.pc or 0)
        return _Last(course.places[best], hit)

    def _times(
        self, course: Course, pcs: Sequence[int], end: Moment | None, progress: Progress | None
    ) -> dict[int, int]:
        """How often these are executed in front of END."""
        if not pcs:
            return {}
        if end is not None:
            worker = self.courses.brought_to(course, end, progress)
            assert worker is not None
            try:
                return dict(zip(pcs, worker.slot.count(pcs)[1], strict=True))
            finally:
                worker.drop()
        return self.courses.all_times(course, pcs, progress)

    # ---------------------------------------------------------------- everything else
    def _by_stretches(
        self,
        course: Course,
        pieces: Sequence[Piece],
        end: Moment | None,
        last: int,
        at_once: int,
        above: int,
        progress: Progress | None,
    ) -> _Last | None:
        """The last hit of these, if it is behind ABOVE."""
        waiting = self._stretches(course, end, last)
        total = len(waiting)
        running: list[_Pass] = []
        try:
            while waiting or running:
                while waiting and len(running) < at_once:
                    stretch = waiting.pop(0)
                    if stretch.at + stretch.length <= above:
                        waiting = []
                        break
                    running.append(_Pass(self, course, stretch, pieces))
                if not running:
                    return None
                first = running[0]
                if first.worker.slot.logged > MANY and first.stretch.length > _SHORT and _stores(pieces):
                    for one in running:
                        one.worker.drop()
                    parts = self._cut(course, first.stretch, progress)
                    waiting = [*parts, *(one.stretch for one in running[1:]), *waiting]
                    running = []
                    if len(parts) > 1:
                        continue
                    running.append(_Pass(self, course, waiting.pop(0), pieces))
                    first = running[0]
                    self._wait(first, None)
                if not first.worker.done():
                    first.worker.slot.nap(_NAP)
                    first.worker.must_live()
                    if progress:
                        progress("searching", 1 - (len(waiting) + len(running)) / max(1, total))
                    continue
                first.worker.finish()
                if hits := first.hits():
                    return self._named(first, hits[-1], progress)
                running.pop(0).worker.drop()
            return None
        finally:
            for one in running:
                one.worker.drop()

    def _wait(self, one: _Pass, progress: Progress | None) -> None:
        one.worker.finish(progress, "searching")

    def _stretches(self, course: Course, end: Moment | None, last: int) -> list[_Stretch]:
        """Between the copies on the way, the last one first."""
        sources: list[Mark | None] = [None, *(mark for mark in course.alive() if mark.at < last)]
        found = []
        for number in range(len(sources) - 1, -1, -1):
            source = sources[number]
            at = source.at if source else 0
            found.append(_Stretch(source, end, last - at))
            if source is not None:
                end, last = self.courses.stands(course, source), at
        return found

    def _cut(self, course: Course, stretch: _Stretch, progress: Progress | None) -> list[_Stretch]:
        """The same in parts, which get shorter towards the end; the last one first."""
        last = stretch.at + stretch.length
        goals = [last - stretch.length // part for part in _PARTS if stretch.length // part >= _SHORT // 2]
        self.courses.leave_at(course, stretch.source, goals, progress)
        return [each for each in self._stretches(course, stretch.end, last) if each.at >= stretch.at]

    def _named(self, one: _Pass, hit: PointHit, progress: Progress | None) -> _Last:
        """The hit, with the moment of the instruction that did it."""
        course, piece = one.course, one.pieces[hit.point]
        if piece.executes:
            passed = Moment(course.tick, hit.pc, hit.nth)
            found = self.courses.place(course, passed, progress)
            assert found is not None
            return _Last(found, Hit(passed, piece.point, hit.thread, pc=hit.pc))
        stops = [hit.nth if at == hit.point else 0 for at in range(len(one.pieces))]
        again = _Pass(self, course, one.stretch, one.pieces, stops)
        try:
            self._wait(again, progress)
            place = again.worker.slot.instructions
            behind = again.worker.read(piece.point.addr, piece.point.length)
            pc = self.courses.pc(again.worker, course.tick)
            if not (is_repeated(again.worker.read(pc, 15)) and self._repeats(one, hit, pc, again.worker, progress)):
                place -= 1
        finally:
            again.worker.drop()
        moment = self.courses.moment(course, place, progress)
        assert moment is not None
        worker = self.courses.brought_to(course, moment, progress)
        assert worker is not None
        try:
            old = int.from_bytes(worker.read(piece.point.addr, piece.point.length), "little")
        finally:
            worker.drop()
        new = int.from_bytes(behind, "little")
        return _Last(place, Hit(moment, piece.point, hit.thread, old, new, piece.addr, moment.pc or 0))

    def _repeats(self, one: _Pass, hit: PointHit, pc: int, there: Worker, progress: Progress | None) -> bool:
        """Whether the repeated string instruction at which the thread stands has done it, and is not at its end; or the
        one in front of it has."""
        nth = there.slot.count([pc])[1][0] + 1
        stretch = _Stretch(one.stretch.source, Moment(one.course.tick, pc, nth), one.stretch.length)
        before = _Pass(self, one.course, stretch, one.pieces)
        try:
            self._wait(before, progress)
            return not any(each.point == hit.point and each.nth >= hit.nth for each in before.hits())
        finally:
            before.worker.drop()


def _stores(pieces: Sequence[Piece]) -> bool:
    return any(not piece.executes for piece in pieces)
