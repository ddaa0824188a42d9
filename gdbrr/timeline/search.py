"""Searching backwards: the last hit of some points before a moment, by replaying spans between checkpoints.

Runs in: the server and scripts. May call: errors, ctl, launch.
Owns: the workers of a search, and the rule which of several hits was the last.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from gdbrr.abi import lib
from gdbrr.errors import GdbrrError
from gdbrr.timeline.checkpoints import Checkpoints
from gdbrr.timeline.hits import Pass
from gdbrr.timeline.model import Hit, Moment, Point, Progress
from gdbrr.timeline.order import Order
from gdbrr.timeline.segment import Segments
from gdbrr.timeline.step import wide
from gdbrr.timeline.step.counted import CountedSearch
from gdbrr.timeline.step.found import Found, named
from gdbrr.timeline.step.points import STORES, Piece, groups_of
from gdbrr.timeline.step.row import MANY, Begin, Row
from gdbrr.timeline.step.writers import Writers
from gdbrr.timeline.tracer import NoProcess
from gdbrr.timeline.worker import Checkpoint, NoRegister, Worker

_Answer = TypeVar("_Answer")


@dataclasses.dataclass(frozen=True)
class Run:
    """A span that is to be run, once for each group of points."""

    source: Checkpoint
    end: int
    inside: Moment | None
    groups: list[list[Piece]]
    wide: list[Point] = dataclasses.field(default_factory=list)
    """What is not counted by one run for each group."""
    beside: list[Piece] = dataclasses.field(default_factory=list)
    """Executions of those that did the first of many hits, which tell the moments of the others."""


class Hits(NamedTuple):
    """Of one span, in order of time."""

    found: list[Found]
    whole: bool
    """These are all."""
    together: bool
    """Of one pass, which has seen all that was hit at once."""


class Search:
    """All searches over one timeline."""

    def __init__(self, checkpoints: Checkpoints, order: Order, segments: Segments) -> None:
        self._checkpoints = checkpoints
        self._order = order
        self._segments = segments
        self.writers = Writers(checkpoints, order, segments)
        self._wide = wide.Wide(checkpoints, order)
        self._counted = CountedSearch(order, segments.courses)

    @property
    def at_once(self) -> int:
        """Workers that run beside each other."""
        return self.writers.at_once

    @at_once.setter
    def at_once(self, number: int) -> None:
        self.writers.at_once = number

    def with_registers(self, ask: Callable[[int], _Answer]) -> _Answer:
        """What ASK answers, given how many debug registers there are for it.

        A replay that has to find the place of a signal in a loop takes one for itself.
        """
        while True:
            try:
                with self._checkpoints.pinned():
                    return ask(self.writers.registers)
            except NoRegister:
                if self.writers.registers < lib.GR_WATCHES:
                    raise
                self.writers.registers -= 1
            except NoProcess:
                if self.at_once == 1 and not self._checkpoints.make_room(None):
                    raise
                self.at_once = 1

    # ---------------------------------------------------------------- the last hit

    def last_hit(self, points: Sequence[Point], before: Moment, progress: Progress | None, count: int) -> Hit | None:
        """The COUNT-th last hit before BEFORE."""
        self.writers.forget()
        if CountedSearch.can(points) and self._segments.courses.long(0, before.tick + 1):
            return self._last_counted(points, before, progress, count)
        return self.with_registers(lambda registers: self._last(points, before, progress, count, registers))

    def _last_counted(
        self, points: Sequence[Point], before: Moment, progress: Progress | None, count: int
    ) -> Hit | None:
        hit: Hit | None = None
        for _ in range(count):
            hit = self._last_of_zones(points, hit.moment if hit else before, progress)
            if hit is None:
                break
        return hit

    def _last_of_zones(self, points: Sequence[Point], before: Moment, progress: Progress | None) -> Hit | None:
        """The last hit, where some of the segments are long, whose courses are known."""
        courses = self._segments.courses
        for tick in courses.long(0, before.tick + (before.pc is not None)):
            course = courses.of(tick, progress)
            if course is None:
                continue
            inside = before if tick == before.tick else None
            if not inside and (before.tick > tick + 1 or before.pc is not None):
                behind = functools.partial(self._last, points, before, progress, 1, floor=tick + 1)
                if hit := self.with_registers(behind):
                    return hit
            there = functools.partial(self._counted.last_hit, course, points, inside, self.at_once, progress)
            if hit := self.with_registers(there):
                return hit
            before = courses.moment(course, 0, progress) or Moment(tick)
        return self.with_registers(lambda registers: self._last(points, before, progress, 1, registers))

    def _last(
        self,
        points: Sequence[Point],
        before: Moment,
        progress: Progress | None,
        count: int,
        registers: int,
        floor: int = 0,
    ) -> Hit | None:
        """Behind tick FLOOR."""
        while True:
            oldest = None
            for span in self._backwards(points, before, progress, registers, floor):
                for one in reversed(span.found):
                    if count == 1:
                        return self._whole(one, span.together, progress)
                    count -= 1
                    if self.writers.repeats(one, progress):  # what is in front may be of the same execution
                        oldest = one
                        break
                else:
                    oldest = None if span.whole else span.found[0]
                if oldest:
                    break
            if oldest is None:
                return None
            before = self.writers.moment_of(oldest, progress)

    def first_hit(self, points: Sequence[Point], after: Moment, end: Moment, progress: Progress | None) -> Found | None:
        """The first hit from AFTER up to END, of data only."""
        return self.with_registers(
            lambda registers: self._wide.first(
                after, end, wide.Search(points, registers, self.at_once, False, progress)
            )
        )

    def _whole(self, found: Found, together: bool, progress: Progress | None) -> Hit:
        """The hit, with all that its instruction or operation did to the place; TOGETHER: one pass has seen the whole
        of the place."""
        moment = self.writers.moment_of(found, progress)
        if found.piece.is_part and not together:
            return self._landed(found, moment, progress)
        return self.named(found, moment, self.writers.repeats(found, progress), progress)

    def named(self, found: Found, moment: Moment, partly: bool, progress: Progress | None) -> Hit:
        """The hit; PARTLY: more rounds of a repeated string instruction may have gone before."""
        return self._landed(found, moment, progress) if partly else named(found, moment)

    def _landed(self, found: Found, moment: Moment, progress: Progress | None) -> Hit:
        """The same, with the old value as it is at MOMENT, and the new one of an operation as it is behind that."""
        hit, point, piece = named(found, moment), found.point, found.piece
        if piece.executes or piece.by_pages:
            return hit
        addr, length = (point.addr, point.length) if piece.is_part else (piece.addr, piece.length)
        old, new = _held(self._segments.brought_to(moment, progress), addr, length), hit.new
        if found.hit.by_operation:
            new = _held(self._segments.behind_operation(moment.tick, progress), addr, length)
        return dataclasses.replace(hit, old=old, new=new)

    def _backwards(
        self, points: Sequence[Point], before: Moment, progress: Progress | None, registers: int, floor: int
    ) -> Iterator[Hits]:
        """The hits of each span that has any, the nearest span first."""
        runs = self.runs(self._checkpoints.spans(before, progress, floor), points, before, registers)
        row = Row(runs, self._begun, self.at_once, self._checkpoints.between, newest_first=True)
        uncut: Run | None = None
        try:
            while row.fill():
                run, passes = row.first
                if late := next((one for one in passes if not one.done()), None):
                    if late.logged > MANY and run is not uncut:
                        if parts := self._halves(run):
                            uncut = None
                        else:
                            parts = [uncut := self._with_writers(run, late, registers, progress)]
                        if run is not uncut:
                            row.instead(parts)
                    else:
                        late.nap(progress, "searching", row.fraction)
                    continue
                if not row.first_is_begun:
                    continue
                if together := len(passes) == 1 and passes[0].arrived and not run.wide:
                    found, whole = passes[0].hits(), not passes[0].lost
                    if run.beside:
                        found = self.writers.keep(run.groups[0], run.beside, found)
                        if not found and not whole:  # what is known are executions behind the last hit
                            uncut = dataclasses.replace(run, beside=[])
                            row.instead([uncut])
                            continue
                else:
                    far = wide.Search(run.wide, registers, self.at_once, True, progress)
                    most = self._wide.last(wide.Stretch(run.source, run.end, run.inside), far) if run.wide else None
                    winner = self._newest(passes, before, progress, most)
                    found, whole = [winner] if winner else [], not winner
                row.pop()
                if found:
                    yield Hits(found, whole, together)
        finally:
            row.drop()

    def _begun(self, run: Run) -> list[Begin]:
        def begin(group: list[Piece]) -> Begin:
            return lambda: Pass(run.source, self._order, [*group, *run.beside], run.end, run.inside)

        return [begin(group) for group in run.groups]

    def _halves(self, run: Run) -> list[Run]:
        """The same in two, the later one first: where there are many hits, most of them are of no use."""
        middle = (run.source.tick + run.end) // 2
        source = self._checkpoints.between(run.source, middle) if middle > run.source.tick else None
        if source is None:
            return []
        later, earlier = (source, run.end, run.inside), (run.source, middle, None)
        return [Run(*half, run.groups, run.wide) for half in (later, earlier)]

    def _with_writers(self, run: Run, late: Pass, registers: int, progress: Progress | None) -> Run:
        """The same, to be begun again with the executions of who hit the points till now: else another run would count
        both up to the last hit, to find out its moment."""
        pieces = [piece for group in run.groups for piece in group]
        room = registers - len(pieces) - (run.inside is not None)
        if room < 1 or run.wide or any(piece.executes for piece in pieces):
            return run
        found = late.hits()
        late.drop()
        return dataclasses.replace(run, beside=self.writers.beside(found, room, progress))

    def runs(
        self,
        spans: Sequence[tuple[Checkpoint, int]],
        points: Sequence[Point],
        before: Moment,
        registers: int,
        most: int = wide.WIDE,
    ) -> list[Run]:
        """What is to be run for SPANS, the nearest to BEFORE first. Where none of the points can be hit, nothing is.
        Those of stores to more than MOST bytes are put aside."""
        runs = []
        for number, span in enumerate(spans):
            inside = before if number == 0 and before.pc is not None else None
            room = registers - (inside is not None)
            possible = [point for point in points if inside or not self._misses(span, point)]
            many = [point for point in possible if point.kind in STORES and point.length > most]
            groups = groups_of([point for point in possible if point not in many], room)
            if groups or many:
                runs.append(Run(span[0], span[1], inside, groups, many))
        return runs

    def _misses(self, span: tuple[Checkpoint, int], point: Point) -> bool:
        return point.kind in STORES and self._checkpoints.untouched(span, point.addr, point.length)

    def _newest(
        self, passes: Sequence[Pass], before: Moment, progress: Progress | None, wide: Found | None
    ) -> Found | None:
        """The last hit of several passes over the same span, and of what is WIDE."""
        for one in passes:
            if not one.arrived:
                raise GdbrrError(f"the moment {before} does not exist", "see rr-when for the form of a moment")
        best = [hits[-1] for hits in (one.hits() for one in passes) if hits] + ([wide] if wide else [])
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
        if one.piece.clashes(other.piece):  # these cannot be counted side by side
            moments = [self.writers.moment_of(each, progress) for each in (one, other)]
            places = self._segments.places(tick, moments, progress)
            return one if places[0] >= places[1] else other
        inside = before if before.pc is not None and before.tick == tick else None
        worker = self._checkpoints.worker_at(tick, progress)
        try:
            source = worker.freeze()
        finally:
            worker.drop()
        try:
            run = Pass(source, self._order, [one.piece, other.piece], tick if inside else tick + 1, inside)
            try:
                run.wait(progress, "searching", 1.0)
                return run.hits()[-1]
            finally:
                run.drop()
        finally:
            source.drop()


def _held(worker: Worker, addr: int, length: int) -> int:
    """What is there; that ends the worker."""
    try:
        return int.from_bytes(worker.read(addr, length), "little")
    finally:
        worker.drop()
