"""Searching backwards: the last hit of some points before a moment, by replaying spans between checkpoints.

Runs in: the server and scripts. May call: errors, ctl, launch.
Owns: the workers of a search, and the rule which of several hits was the last.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from gdbrr.abi import lib
from gdbrr.ctl.control import Armed, PointHit
from gdbrr.errors import GdbrrError
from gdbrr.timeline.checkpoints import Checkpoints
from gdbrr.timeline.hits import STORES, Found, Pass, Piece, groups_of, joined, named
from gdbrr.timeline.model import Hit, Moment, Point, PointKind, Progress
from gdbrr.timeline.order import Order
from gdbrr.timeline.segment import Segments, is_repeated
from gdbrr.timeline.step import wide
from gdbrr.timeline.step.code import LONGEST, calls_in_front, engine_of, leads_into, leads_on
from gdbrr.timeline.step.row import MANY, Row
from gdbrr.timeline.tracer import NoProcess
from gdbrr.timeline.worker import Checkpoint, NoRegister, Worker

_SHORT = 4000
"""Instructions of a segment that are stepped through rather than run with points armed again and again."""
_MOST_STORES = 8
"""Of one repeated instruction to one piece."""
CORES = len(os.sched_getaffinity(0))
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


class Search:
    """All searches over one timeline."""

    def __init__(self, checkpoints: Checkpoints, order: Order, segments: Segments) -> None:
        self._checkpoints = checkpoints
        self._order = order
        self._segments = segments
        self._registers: int = lib.GR_WATCHES
        self.at_once = CORES
        """Workers that run beside each other."""
        self._wide = wide.Wide(checkpoints, order)
        self._engine: range | None = None
        self._repeated: dict[int, bool] = {}
        """By the pc behind a store: may a `rep` stand there or in front?"""

    def with_registers(self, ask: Callable[[int], _Answer]) -> _Answer:
        """What ASK answers, given how many debug registers there are for it.

        A replay that has to find the place of a signal in a loop takes one for itself.
        """
        while True:
            try:
                with self._checkpoints.pinned():
                    return ask(self._registers)
            except NoRegister:
                if self._registers < lib.GR_WATCHES:
                    raise
                self._registers -= 1
            except NoProcess:
                if self.at_once == 1 and not self._checkpoints.make_room(None):
                    raise
                self.at_once = 1

    # ---------------------------------------------------------------- the last hit

    def last_hit(self, points: Sequence[Point], before: Moment, progress: Progress | None, count: int) -> Hit | None:
        """The COUNT-th last hit before BEFORE."""
        return self.with_registers(lambda registers: self._last(points, before, progress, count, registers))

    def _last(
        self, points: Sequence[Point], before: Moment, progress: Progress | None, count: int, registers: int
    ) -> Hit | None:
        while True:
            oldest = None
            for found, whole in self._backwards(points, before, progress, registers):
                if count > 1 and any(self._repeats(one, progress) for one in found):
                    told = joined([self.hit_of(one, progress) for one in found[-count * _MOST_STORES :]])
                    whole &= len(found) <= count * _MOST_STORES
                    if len(told) >= count:
                        return told[-count]
                    count -= len(told)
                    if not whole:
                        oldest = told[0]
                        break
                elif len(found) >= count:
                    return self._whole(found[-count], progress)
                else:
                    count -= len(found)
                if not whole:
                    oldest = self.hit_of(found[0], progress)
                    break
            if oldest is None:
                return None
            before = oldest.moment

    def first_hit(self, points: Sequence[Point], after: Moment, end: Moment, progress: Progress | None) -> Found | None:
        """The first hit from AFTER up to END, of data only."""
        return self.with_registers(
            lambda registers: self._wide.first(
                after, end, wide.Search(points, registers, self.at_once, False, progress)
            )
        )

    def _repeats(self, found: Found, progress: Progress | None) -> bool:
        """Whether the store may be one of several that a repeated string instruction made."""
        hit = found.hit
        if found.piece.executes or hit.by_operation:
            return False
        if hit.pc not in self._repeated:
            worker = self._checkpoints.worker_at(hit.tick, progress)
            try:
                code = worker.read(hit.pc - LONGEST, 2 * LONGEST)
            finally:
                worker.drop()
            here = is_repeated(code[LONGEST:])
            behind = any(is_repeated(code[at:LONGEST]) for at in range(LONGEST))
            self._repeated[hit.pc] = here or behind
        return self._repeated[hit.pc]

    def _whole(self, found: Found, progress: Progress | None) -> Hit:
        """The hit, with the value in front of all that its instruction stored."""
        hit = self.hit_of(found, progress)
        moment = hit.moment
        if moment.pc is None or found.piece.by_pages or not self._repeats(found, progress):
            return hit
        worker = self._checkpoints.worker_at(moment.tick, progress)
        try:
            armed = Armed(moment.pc, 1, lib.GR_POINT_EXEC, moment.tick, moment.nth)
            worker.run_segment(moment.tick, self._order.ticks, [armed], progress=progress)
            old = int.from_bytes(worker.read(found.piece.addr, found.piece.length), "little")
        finally:
            worker.drop()
        return dataclasses.replace(hit, old=old)

    def _backwards(
        self, points: Sequence[Point], before: Moment, progress: Progress | None, registers: int
    ) -> Iterator[tuple[list[Found], bool]]:
        """The hits of each span that has any, the nearest span first, in order of time; and whether these are all."""
        runs = self.runs(self._checkpoints.spans(before, progress), points, before, registers)
        row = Row(runs, self._begun, self.at_once, self._checkpoints.between, newest_first=True)
        uncut: Run | None = None
        try:
            while row.fill():
                run, passes = row.first
                if late := next((one for one in passes if not one.done()), None):
                    if late.logged > MANY and run is not uncut:
                        if halves := self._halves(run):
                            row.instead(halves)
                        uncut = None if halves else run
                    else:
                        late.nap(progress, "searching", row.fraction)
                    continue
                if len(passes) == 1 and passes[0].arrived and not run.wide:
                    found, whole = passes[0].hits(), not passes[0].lost
                else:
                    far = wide.Search(run.wide, registers, self.at_once, True, progress)
                    most = self._wide.last(wide.Stretch(run.source, run.end, run.inside), far) if run.wide else None
                    winner = self._newest(passes, before, progress, most)
                    found, whole = [winner] if winner else [], not winner
                row.pop()
                if found:
                    yield found, whole
        finally:
            row.drop()

    def _begun(self, run: Run) -> list[Pass]:
        return [Pass(run.source, self._order, group, run.end, run.inside) for group in run.groups]

    def _halves(self, run: Run) -> list[Run]:
        """The same in two, the later one first: where there are many hits, most of them are of no use."""
        middle = (run.source.tick + run.end) // 2
        source = self._checkpoints.between(run.source, middle) if middle > run.source.tick else None
        if source is None:
            return []
        later, earlier = (source, run.end, run.inside), (run.source, middle, None)
        return [Run(*half, run.groups, run.wide) for half in (later, earlier)]

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
            moments = [self.hit_of(each, progress).moment for each in (one, other)]
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

    # ---------------------------------------------------------------- the moment of a hit

    def hit_of(self, found: Found, progress: Progress | None) -> Hit:
        hit = found.hit
        if hit.by_operation:
            moment = Moment(hit.tick)
        elif found.point.kind is PointKind.EXEC:
            moment = Moment(hit.tick, hit.pc, hit.nth)
        else:
            moment = self._writer_of(found, progress)
        return named(found, moment)

    def _writer_of(self, found: Found, progress: Progress | None) -> Moment:
        """The instant before the instruction that did a data hit, of which only the next instruction is known.

        The writer is, of those that may stand in front of the next instruction, the one executed last before the hit.
        A trace names them; in a segment too long for one, they are the addresses just in front.
        """
        hit = found.hit
        others: list[int] = []
        calls: list[int] | None = None
        inside = self._engine_has(hit, progress)
        trace = self._segments.short_trace(hit.tick, None if inside else _SHORT, progress)
        if inside:  # the allocator, say: one step of the program, the jump that leads there
            trace = trace or self._segments.trace(hit.tick, progress)
            candidates = self._ways_in(hit.tick, trace.pcs, progress)
        elif trace:
            candidates = trace.in_front_of(hit.pc)
            if len(candidates) == 1 and trace.pcs.count(candidates[0]) == 1:
                return Moment(hit.tick, candidates[0], 1)
        else:
            # Only a `rep` stands at itself behind a store; any other instruction there may be a loop's hottest.
            first = 0 if self._repeats(found, progress) else 1
            candidates = [hit.pc - back for back in range(first, LONGEST + 1)]
        worker = self._checkpoints.worker_at(hit.tick, progress)
        try:
            if not trace:
                code = worker.read(hit.pc - LONGEST, 2 * LONGEST)
                others = [pc for pc in candidates if pc != hit.pc and not leads_on(code, pc - hit.pc)]
                candidates = [pc for pc in candidates if pc not in others]
            source = worker.freeze()
        finally:
            worker.drop()
        try:
            room = self._registers - 1
            while candidates or others:
                candidates, others = (candidates, others) if candidates else (others, [])
                groups = [candidates[at : at + room] for at in range(0, len(candidates), room)]
                winners = self._last_executed(source, found, groups)
                if len(winners) == 1:
                    return Moment(hit.tick, winners[0].pc, winners[0].nth)
                candidates = [winner.pc for winner in winners]
                if inside and not candidates:
                    return Moment(hit.tick)  # what the operation did when it had been done
                if not candidates and not others and calls is None and not trace:  # it did not go on behind itself
                    candidates = calls = self._calls(source, found)
                if not candidates and not others and not trace:
                    trace = self._segments.trace(hit.tick, progress)
                    candidates = trace.in_front_of(hit.pc)
        finally:
            source.drop()
        raise GdbrrError(
            f"the instruction in front of {hit.pc:#x} that touched {found.addr:#x} was not found",
            "set a breakpoint near it and use reverse-continue",
        )

    def _calls(self, source: Checkpoint, found: Found) -> list[int]:
        """The calls that return to what was stored, if that is an address."""
        hit, word = found.hit, found.addr & -8
        worker = source.wake(self._order.final_thread)
        try:
            worker.run_segment(hit.tick, self._order.ticks, [found.piece.armed(hit.tick, hit.nth)])
            return calls_in_front(int.from_bytes(worker.read(word, 8), "little"), worker.read)
        finally:
            worker.drop()

    def _engine_has(self, hit: PointHit, progress: Progress | None) -> bool:
        """Whether the store was made by the engine's code, in the middle of a segment."""
        if self._engine is None:
            with self._at(hit.tick, progress) as worker:
                self._engine = engine_of(worker.pid)
        return hit.pc in self._engine

    def _ways_in(self, tick: int, pcs: Sequence[int], progress: Progress | None) -> list[int]:
        """The jumps of a segment that may lead into the engine."""
        assert self._engine is not None
        with self._at(tick, progress) as worker:
            return [pc for pc in sorted(set(pcs)) if leads_into(self._engine, pc, worker.read)]

    @contextlib.contextmanager
    def _at(self, tick: int, progress: Progress | None) -> Iterator[Worker]:
        worker = self._checkpoints.worker_at(tick, progress)
        try:
            yield worker
        finally:
            worker.drop()

    def _last_executed(self, source: Checkpoint, found: Found, groups: Sequence[Sequence[int]]) -> list[PointHit]:
        """Of each group of at most three addresses the one that was executed last before the hit, if any was."""
        hit = found.hit
        waiting, running = list(groups), list[tuple[Worker, int]]()
        winners = []
        try:
            while waiting or running:
                while waiting and len(running) < self.at_once:
                    armed = [Armed(pc, 1, lib.GR_POINT_EXEC, hit.tick) for pc in waiting[0]]
                    running.append((source.wake(self._order.final_thread), len(waiting.pop(0))))
                    armed.append(found.piece.armed(hit.tick, hit.nth))
                    running[-1][0].begin_segment(hit.tick, self._order.ticks, armed)
                worker, count = running[0]
                worker.finish()
                winners += [one for one in worker.slot.hits() if one.point < count][-1:]
                worker.drop()
                del running[0]
        finally:
            for worker, _ in running:
                worker.drop()
        return winners
