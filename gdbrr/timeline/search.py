"""Searching backwards: the last hit of some points before a moment, by replaying spans between checkpoints.

Runs in: the server and scripts. May call: errors, ctl, launch.
Owns: the workers of a search, and the rule which of several hits was the last.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from gdbrr.abi import lib
from gdbrr.ctl.control import FOREVER, Armed, PointHit, ProcessEnded, has_ended
from gdbrr.errors import GdbrrError
from gdbrr.timeline.checkpoints import Checkpoints
from gdbrr.timeline.model import Hit, Moment, Point, PointKind, Progress
from gdbrr.timeline.order import Order
from gdbrr.timeline.segment import Segments
from gdbrr.timeline.worker import Checkpoint

KINDS = {
    PointKind.WRITE: lib.GR_POINT_WRITE,
    PointKind.ACCESS: lib.GR_POINT_ACCESS,
    PointKind.EXEC: lib.GR_POINT_EXEC,
    PointKind.CHANGE: lib.GR_POINT_CHANGE,
}
_LONGEST_INSTRUCTION = 15
_SHORT = 4000
"""Instructions of a segment that are stepped through rather than run with points armed again and again."""
_NAP = 0.002
_CORES = len(os.sched_getaffinity(0))


@dataclass(frozen=True)
class Found:
    """A hit and which of the searched points it is of. Its place among others: (tick, place in that run)."""

    point: Point
    hit: PointHit


class Pass:
    """One worker that runs over the span start <= tick < stop with up to GR_WATCHES points armed.

    With `inside`, a moment in the middle of the segment of `stop`, it goes on up to there in a second run. That
    moment's pc takes a place then, unless it is one of the points anyhow: two points at one address would be one hit.
    """

    def __init__(
        self,
        source: Checkpoint,
        order: Order,
        points: Sequence[Point],
        stop: int,
        inside: Moment | None,
    ) -> None:
        self._points = list(points)
        self._order = order
        self._inside = inside
        self._second = inside is None
        self._before: list[Found] = []
        self.worker = source.wake(order.final_thread)
        try:
            if self.worker.slot.tick < stop:
                start = self.worker.slot.tick
                self.worker.begin(stop, [Armed(point.addr, point.length, KINDS[point.kind], start) for point in points])
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
        for point in self._points:
            here = point.kind is PointKind.EXEC and point.addr == inside.pc
            stop_at = inside.nth if here else 0
            merged |= here
            armed.append(Armed(point.addr, point.length, KINDS[point.kind], inside.tick, stop_at))
        if not merged:
            armed.append(Armed(inside.pc, 1, lib.GR_POINT_EXEC, inside.tick, inside.nth))
        self.worker.begin(FOREVER if inside.tick >= self._order.ticks else inside.tick + 1, armed)

    def done(self) -> bool:
        if not self.worker.done():
            return False
        self.worker.check()
        if not self._second:
            self._before = self.hits()
            self._begin_second()
            return False
        return True

    def hits(self) -> list[Found]:
        """What was hit before the end of the pass, in order of time."""
        hits = [hit for hit in self.worker.slot.hits() if hit.point < len(self._points)]
        newer = [Found(self._points[hit.point], hit) for hit in one_by_operation(hits)]
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
    def arrived(self) -> bool:
        return self._inside is None or self.worker.slot.state == lib.GR_S_TRAPPED

    def drop(self) -> None:
        self.worker.drop()


def one_by_operation(hits: Sequence[PointHit]) -> list[PointHit]:
    """The same hits, but those that one operation made byte by byte are one."""
    joined: list[PointHit] = []
    newest: dict[int, int] = {}  # point: where its newest hit stands
    for hit in hits:
        at = newest.get(hit.point)
        last = joined[at] if at is not None else None
        if at is not None and last and last.by_operation and hit.by_operation and last.tick == hit.tick:
            joined[at] = hit._replace(old=last.old)
        else:
            newest[hit.point] = len(joined)
            joined.append(hit)
    return joined


def groups_of(points: Sequence[Point], room: int) -> list[list[Point]]:
    """The points in groups of at most ROOM that one worker can count: two on the same bytes would be one hit."""
    groups: list[list[Point]] = []
    for point in dict.fromkeys(points):
        for group in groups:
            if len(group) < room and not any(_clash(point, other) for other in group):
                group.append(point)
                break
        else:
            groups.append([point])
    return groups


def _clash(one: Point, other: Point) -> bool:
    if (one.kind is PointKind.EXEC) != (other.kind is PointKind.EXEC):
        return False
    return one.addr < other.addr + other.length and other.addr < one.addr + one.length


class Search:
    """All searches over one timeline."""

    def __init__(self, checkpoints: Checkpoints, order: Order, segments: Segments) -> None:
        self._checkpoints = checkpoints
        self._order = order
        self._segments = segments

    # ---------------------------------------------------------------- the last hit

    def last_hit(self, points: Sequence[Point], before: Moment, progress: Progress | None) -> Hit | None:
        spans = self._checkpoints.spans(before, progress)
        groups = groups_of(points, lib.GR_WATCHES - (before.pc is not None))
        inside = before if before.pc is not None else None
        waiting = [
            (checkpoint, end, group, None if number else inside)
            for number, (checkpoint, end) in enumerate(spans)
            for group in groups
        ]
        running: list[Pass] = []
        total = len(waiting)
        try:
            while waiting or running:
                while waiting and len(running) < max(_CORES, len(groups)):
                    checkpoint, end, group, until = waiting.pop(0)
                    running.append(Pass(checkpoint, self._order, group, end, until))
                self._await(running[: len(groups)], progress, (total - len(waiting) - len(running)) / total)
                nearest = [running.pop(0) for _ in groups]
                try:
                    winner = self._newest(nearest, before, progress)
                finally:
                    for one in nearest:
                        one.drop()
                if winner:
                    return self._moment_of(winner, progress)
            return None
        finally:
            for one in running:
                one.drop()

    def _await(self, passes: Sequence[Pass], progress: Progress | None, fraction: float) -> None:
        for one in passes:
            while not one.done():
                slot = one.worker.slot
                slot.nap(_NAP)
                if not one.done() and has_ended(slot.pid):
                    raise ProcessEnded(f"process {slot.pid} of the search ended by itself", "try again")
                if progress:
                    progress("searching", fraction)

    def _newest(self, passes: Sequence[Pass], before: Moment, progress: Progress | None) -> Found | None:
        """The last hit of several passes over the same span."""
        for one in passes:
            if not one.arrived:
                raise GdbrrError(f"the moment {before} does not exist", "see rr-when for the form of a moment")
        best = [hits[-1] for hits in (one.hits() for one in passes) if hits]
        if not best:
            return None
        tick = max(found.hit.tick for found in best)
        rivals = [found for found in best if found.hit.tick == tick]
        while len(rivals) > 1:
            # Points of different groups met in one segment: replaying it with two of them tells who was last.
            rivals.append(self._later(rivals.pop(), rivals.pop(), before, progress))
        return rivals[0]

    def _later(self, one: Found, other: Found, before: Moment, progress: Progress | None) -> Found:
        tick = one.hit.tick
        if _clash(one.point, other.point):
            return one  # the same bytes, the same instruction
        inside = before if before.pc is not None and before.tick == tick else None
        worker = self._checkpoints.worker_at(tick, progress)
        try:
            source = worker.freeze()
        finally:
            worker.drop()
        try:
            run = Pass(source, self._order, [one.point, other.point], tick if inside else tick + 1, inside)
            try:
                self._await([run], progress, 1.0)
                return run.hits()[-1]
            finally:
                run.drop()
        finally:
            source.drop()

    # ---------------------------------------------------------------- the moment of a hit

    def _moment_of(self, found: Found, progress: Progress | None) -> Hit:
        hit, point = found.hit, found.point
        if hit.by_operation:
            moment = Moment(hit.tick)
        elif point.kind is PointKind.EXEC:
            moment = Moment(hit.tick, hit.pc, hit.nth)
        else:
            moment = self._writer_of(found, progress)
        return Hit(moment, point, hit.thread, hit.old, hit.new)

    def _writer_of(self, found: Found, progress: Progress | None) -> Moment:
        """The instant before the instruction that did a data hit, of which only the next instruction is known.

        The writer is, of those that may stand in front of the next instruction, the one executed last before the hit.
        A trace names them; in a segment too long for one, they are the addresses just in front.
        """
        hit = found.hit
        trace = self._segments.short_trace(hit.tick, _SHORT, progress)
        if trace:
            candidates = trace.in_front_of(hit.pc)
            if len(candidates) == 1 and trace.pcs.count(candidates[0]) == 1:
                return Moment(hit.tick, candidates[0], 1)
        else:
            candidates = [hit.pc - back for back in range(_LONGEST_INSTRUCTION + 1)]
        worker = self._checkpoints.worker_at(hit.tick, progress)
        try:
            source = worker.freeze()
        finally:
            worker.drop()
        try:
            room = lib.GR_WATCHES - 1
            while candidates:
                groups = [candidates[at : at + room] for at in range(0, len(candidates), room)]
                winners = [winner for group in groups if (winner := self._last_executed(source, found, group))]
                if len(winners) == 1:
                    return Moment(hit.tick, winners[0].pc, winners[0].nth)
                candidates = [winner.pc for winner in winners]
        finally:
            source.drop()
        raise GdbrrError(
            f"the instruction in front of {hit.pc:#x} that touched {found.point.addr:#x} was not found",
            "set a breakpoint near it and use reverse-continue",
        )

    def _last_executed(self, source: Checkpoint, found: Found, candidates: Sequence[int]) -> PointHit | None:
        """Which of at most three addresses was executed last before the hit."""
        hit, point = found.hit, found.point
        armed = [Armed(pc, 1, lib.GR_POINT_EXEC, hit.tick) for pc in candidates]
        armed.append(Armed(point.addr, point.length, KINDS[point.kind], hit.tick, hit.nth))
        worker = source.wake(self._order.final_thread)
        try:
            worker.run_segment(hit.tick, self._order.ticks, armed)
            executed = [one for one in worker.slot.hits() if one.point < len(candidates)]
            return executed[-1] if executed else None
        finally:
            worker.drop()
