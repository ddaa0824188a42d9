"""Which instruction did a hit: of a data hit the processor tells only what comes behind.

Runs in: the server and scripts. May call: errors, abi, ctl.
Owns: its workers, and what is known of instructions that stored.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator, Sequence

from gdbrr.abi import lib
from gdbrr.ctl.control import Armed, PointHit
from gdbrr.errors import GdbrrError
from gdbrr.timeline.checkpoints import Checkpoints
from gdbrr.timeline.model import Moment, Point, PointKind, Progress
from gdbrr.timeline.order import Order
from gdbrr.timeline.segment import Segments, is_repeated
from gdbrr.timeline.step.code import LONGEST, always_stores, calls_in_front, decoded, engine_of, leads_into, leads_on
from gdbrr.timeline.step.found import Found
from gdbrr.timeline.step.points import Piece
from gdbrr.timeline.step.row import Single, made
from gdbrr.timeline.worker import Checkpoint, Worker

_SHORT = 4000
"""Instructions of a segment that are stepped through rather than run with points armed again and again."""
CORES = len(os.sched_getaffinity(0))


class Writers:
    def __init__(self, checkpoints: Checkpoints, order: Order, segments: Segments) -> None:
        self._checkpoints = checkpoints
        self._order = order
        self._segments = segments
        self.registers: int = lib.GR_WATCHES
        self.at_once = CORES
        """Workers that run beside each other."""
        self._engine: range | None = None
        self._repeated: dict[int, bool] = {}
        """By the pc behind a store: may a `rep` stand there or in front?"""
        self._ways: dict[int, frozenset[int]] = {}
        """By the same: which instructions did such stores."""
        self._always: dict[int, bool] = {}
        """Which of those store to the same place each time they are executed."""
        self._strings: set[int] = set()
        """Which of those are repeated string instructions."""
        self._known: dict[tuple[Piece, int, int], Moment] = {}
        """Moments of hits that a run has counted executions beside."""

    def forget(self) -> None:
        """Code may be another one elsewhere in time."""
        self._ways.clear()
        self._always.clear()
        self._strings.clear()
        self._known.clear()

    def repeats(self, found: Found, progress: Progress | None) -> bool:
        """Whether the store may be one of several that a repeated string instruction made."""
        hit = found.hit
        if found.piece.executes or hit.by_operation:
            return False
        if hit.pc not in self._repeated:
            with self._at(hit.tick, progress) as worker:
                code = worker.read(hit.pc - LONGEST, 2 * LONGEST)
            here = is_repeated(code[LONGEST:])
            behind = any(is_repeated(code[at:LONGEST]) for at in range(LONGEST))
            self._repeated[hit.pc] = here or behind
        return self._repeated[hit.pc]

    def moment_of(self, found: Found, progress: Progress | None) -> Moment:
        """The instant before what did FOUND."""
        hit = found.hit
        if hit.by_operation:
            return Moment(hit.tick)
        if found.point.kind is PointKind.EXEC:
            return Moment(hit.tick, hit.pc, hit.nth)
        known = self._known.get((found.piece, hit.tick, hit.nth)) or self._always_of(found)
        return known or self._writer_of(found, progress)

    # ---------------------------------------------------------------- of many
    def moments_of(self, run: Single, found: Sequence[Found], progress: Progress | None) -> list[Moment]:
        """The moment of each hit of RUN, of most of them by one more run.

        Whoever stored goes on behind itself, mostly, so each instruction behind a store names one in front of it. Where
        that stores whenever it is executed, and always there, the number of its stores is that of its executions, and
        no run is needed. Where it was executed since the store before, it did this one. The rest is looked for one by
        one.
        """
        moments: list[Moment | None] = [None] * len(found)
        stores = [at for at, one in enumerate(found) if not one.piece.executes and not one.hit.by_operation]
        rest: list[int] = []
        always: dict[int, int | None] = {}
        for at in stores if len(stores) > 1 else ():
            hit = found[at].hit
            if hit.pc not in always:
                ways = self._ways_to(found[at], progress)
                always[hit.pc] = next((pc for pc in ways if self._always.get(pc)), None)
            if (pc := always[hit.pc]) is not None and hit.stores:
                moments[at] = Moment(hit.tick, pc, hit.stores)
            elif self._ways[hit.pc]:
                rest.append(at)
        chosen: dict[Piece, set[int]] = {}
        places: dict[tuple[Piece, int, int], int] = {}
        for at in rest:
            part = next((part for part in found[at].parts if part.piece in chosen), found[at])
            chosen.setdefault(part.piece, set()).add(part.hit.pc)
            places[part.piece, part.hit.tick, part.hit.nth] = at
        room = self.registers - 1 - (run.inside is not None)
        runs = [
            Single(run.source, run.end, run.inside, (piece, *beside))
            for piece, behind in chosen.items()
            for beside in self._beside(behind, room)
        ]
        for again, both in made(runs, self._order, self.at_once, self._checkpoints.between, progress):
            for key, moment in self._paired(again.pieces[:1], again.pieces[1:], both):
                if key in places:
                    moments[places[key]] = moment
        return [moment or self.moment_of(one, progress) for one, moment in zip(found, moments, strict=True)]

    def beside(self, found: Sequence[Found], room: int, progress: Progress | None) -> list[Piece]:
        """Who made these hits, of which many more are to come: so many at most, or nothing. Where the number of its
        stores tells as much, it need not be counted."""
        ways: set[int] = set()
        for one in {one.hit.pc: one for one in reversed(found)}.values():
            if one.hit.by_operation or one.piece.executes or one.piece.by_pages:
                continue
            here = self._ways_to(one, progress)
            ways |= here if not self._always_of(one) else frozenset()
            if len(ways) > room:
                return []
        return _executions(ways)

    def keep(self, group: Sequence[Piece], beside: Sequence[Piece], both: Sequence[Found]) -> list[Found]:
        """What a run with BESIDE found of GROUP; whose moments are known from now on."""
        self._known |= self._paired(group, beside, both)
        return [one for one in both if one.piece not in beside]

    def _always_of(self, one: Found) -> Moment | None:
        """The moment, where the number of stores is that of executions."""
        hit, ways = one.hit, self._ways.get(one.hit.pc, ())
        return next((Moment(hit.tick, pc, hit.stores) for pc in ways if hit.stores and self._always.get(pc)), None)

    def _ways_to(self, one: Found, progress: Progress | None) -> frozenset[int]:
        behind = one.hit.pc
        if behind not in self._ways:
            pc = self.moment_of(one, progress).pc
            self._ways[behind] = frozenset()
            if pc is not None and 0 <= behind - pc <= LONGEST:
                self._ways[behind] = frozenset(self._looked_at(one.hit.tick, pc, behind, progress))
        return self._ways[behind]

    def _looked_at(self, tick: int, pc: int, behind: int, progress: Progress | None) -> list[int]:
        """INVARIANT(no-stack-there): what is addressed without a register is a variable; no call that leads to BEHIND
        pushes its return address there."""
        with self._at(tick, progress) as worker:
            code, around = worker.read(pc, LONGEST), worker.read(behind - LONGEST, 2 * LONGEST)
        if is_repeated(code):
            self._strings.add(pc)
        if is_repeated(around[LONGEST:]):  # it stands at itself meanwhile, and so does who is in front of it
            self._strings.add(behind)
            return [pc, behind, *(behind - back for back in range(1, LONGEST + 1) if leads_on(around, -back))]
        insn = decoded(code)
        self._always[pc] = insn is not None and pc + insn.length == behind and always_stores(code)
        return [pc]

    def _beside(self, behind: Collection[int], room: int) -> Iterator[list[Piece]]:
        """What is counted beside a piece, in as few runs as it takes: all of those that lead to one place together."""
        groups: list[set[int]] = []
        for ways in sorted(map(sorted, {self._ways[pc] for pc in behind})):
            if len(ways) > room:
                continue
            group = next((group for group in groups if len(group.union(ways)) <= room), None)
            if group is None:
                groups.append({*ways})
            else:
                group.update(ways)
        for group in groups:
            yield _executions(group)

    def _paired(
        self, pieces: Collection[Piece], beside: Sequence[Piece], both: Sequence[Found]
    ) -> Iterator[tuple[tuple[Piece, int, int], Moment]]:
        counted = {one.addr for one in beside}
        executed: dict[int, tuple[int, PointHit]] = {}
        stored = -1
        for place, one in enumerate(both):
            hit = one.hit
            if one.piece not in pieces:
                executed[hit.pc] = (place, hit)
                continue
            ways = self._ways.get(hit.pc, frozenset())
            known = [executed[pc] for pc in ways if pc in executed and executed[pc][1].tick == hit.tick]
            if known and ways <= counted:
                at, writer = max(known)
                # A repeated string instruction stores often in one execution.
                if at > stored or writer.pc in self._strings:
                    yield (one.piece, hit.tick, hit.nth), Moment(hit.tick, writer.pc, writer.nth)
            stored = place

    # ---------------------------------------------------------------- of one
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
            first = 0 if self.repeats(found, progress) else 1
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
            room = self.registers - 1
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


def _executions(pcs: Collection[int]) -> list[Piece]:
    return [Piece(Point(PointKind.EXEC, pc), pc, 1) for pc in sorted(pcs)]
