"""All hits of some points, oldest first: each span between checkpoints is run once, as many at a time as the cores.

Runs in: the server and scripts. May call: errors, ctl, launch.
Owns: the workers of a history, and how the moments of many hits are found with one more run instead of one for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gdbrr.ctl.control import PointHit
from gdbrr.timeline.checkpoints import Checkpoints
from gdbrr.timeline.hits import STORES, Found, Pass, Piece, check_points, joined, named
from gdbrr.timeline.model import Hit, Moment, Point, PointKind, Progress
from gdbrr.timeline.order import Order
from gdbrr.timeline.search import Search
from gdbrr.timeline.segment import Segments
from gdbrr.timeline.step.code import always_stores, decoded
from gdbrr.timeline.step.row import Row
from gdbrr.timeline.worker import Checkpoint

_LONGEST_INSTRUCTION = 15
_COUNTED = 4096
"""Bytes of a point that looks for stores, of which each word is counted."""


@dataclass(frozen=True)
class _Run:
    """One pass that is to be made."""

    source: Checkpoint
    end: int
    inside: Moment | None
    pieces: tuple[Piece, ...]
    groups: int = 1
    """How many passes its span takes."""


class History:
    def __init__(self, checkpoints: Checkpoints, order: Order, segments: Segments, search: Search) -> None:
        self._checkpoints = checkpoints
        self._order = order
        self._segments = segments
        self._search = search
        self._writers: dict[int, int] = {}
        """Of the instruction behind a store: where the one that stored was, the first time."""
        self._always: dict[int, bool] = {}
        """Which of those store to the same place each time they are executed."""

    def all_hits(
        self, points: Sequence[Point], after: Moment, before: Moment, exact: bool, progress: Progress | None
    ) -> list[Hit]:
        return self._search.with_registers(
            lambda registers: self._all(points, after, before, exact, progress, registers)
        )

    def _all(
        self,
        points: Sequence[Point],
        after: Moment,
        before: Moment,
        exact: bool,
        progress: Progress | None,
        registers: int,
    ) -> list[Hit]:
        check_points(points)
        if wide := [point for point in points if point.length > _COUNTED and point.kind in STORES]:
            others = [point for point in points if point not in wide]
            kinds = [self._one_by_one(wide, after, before, exact, progress)]
            kinds += [self._all(others, after, before, exact, progress, registers)] if others else []
            return self._merged(kinds, exact, progress)
        self._writers.clear()
        spans = [span for span in self._checkpoints.spans(before, progress) if span[1] >= after.tick]
        runs = [
            _Run(one.source, one.end, one.inside, tuple(group), len(one.groups))
            for one in reversed(self._search.runs(spans, points, before, registers, _COUNTED))
            for group in one.groups
        ]
        hits: list[Hit] = []
        together: list[list[Hit]] = []
        for run, found in self._made(runs, progress):
            found = [one for one in found if one.hit.tick >= after.tick]
            together.append(
                self._exact(run, found, registers, progress)
                if exact
                else [named(one, Moment(one.hit.tick)) for one in found]
            )
            if len(together) == run.groups:
                hits += self._merged(together, exact, progress)
                together = []
        return self._behind(hits, after, exact, progress)

    def _one_by_one(
        self, points: Sequence[Point], after: Moment, before: Moment, exact: bool, progress: Progress | None
    ) -> list[Hit]:
        """What no debug registers can count: one search for each."""
        hits: list[Hit] = []
        while (hit := self._search.last_hit(points, before, progress, 1)) and hit.moment.tick >= after.tick:
            hits.append(hit)
            before = hit.moment
        hits = self._behind(hits[::-1], after, True, progress)
        return hits if exact else [replace(hit, moment=Moment(hit.moment.tick)) for hit in hits]

    # ---------------------------------------------------------------- running
    def _made(self, runs: Sequence[_Run], progress: Progress | None) -> Iterator[tuple[_Run, list[Found]]]:
        """What each run found, in their order."""
        row = Row(runs, self._begun, self._search.at_once, self._checkpoints.between, newest_first=False)
        try:
            while row.fill():
                run, (one,) = row.first
                if not one.done():
                    one.nap(progress, "searching", row.fraction)
                    continue
                found = one.hits()
                row.pop()
                yield run, found
        finally:
            row.drop()

    def _begun(self, run: _Run) -> list[Pass]:
        return [Pass(run.source, self._order, run.pieces, run.end, run.inside, every=True)]

    # ---------------------------------------------------------------- moments
    def _exact(self, run: _Run, found: Sequence[Found], registers: int, progress: Progress | None) -> list[Hit]:
        moments = self._moments_of_stores(run, found, registers, progress)
        return joined(
            [
                self._search.hit_of(one, progress) if moment is None else named(one, moment)
                for one, moment in zip(found, moments, strict=True)
            ]
        )

    def _moments_of_stores(
        self, run: _Run, found: Sequence[Found], registers: int, progress: Progress | None
    ) -> list[Moment | None]:
        """The moment of each hit, as far as one more run tells them.

        Whoever stored goes on behind itself, mostly, so each instruction behind a store names one in front of it. Where
        that stores whenever it is executed, and always there, the number of its stores is that of its executions, and
        no run is needed. Where it was executed since the store before, it did this one. The rest is looked for one by
        one.
        """
        moments: list[Moment | None] = [None] * len(found)
        stores = [at for at, one in enumerate(found) if not one.piece.executes and not one.hit.by_operation]
        if len(stores) < 2:
            return moments
        rest: list[int] = []
        writers: dict[int, int | None] = {}
        for at in stores:
            hit = found[at].hit
            if hit.pc not in writers:
                writers[hit.pc] = self._writer(found[at], progress)
            writer = writers[hit.pc]
            if hit.stores and writer is not None and self._always.get(writer):
                moments[at] = Moment(hit.tick, writer, hit.stores)
            else:
                rest.append(at)
        runs = []
        for piece in run.pieces if rest else ():
            behind = {found[at].hit.pc for at in rest if found[at].piece == piece}
            known = sorted({pc for one in behind if (pc := writers[one]) is not None})
            room = registers - 1 - (run.inside is not None)
            for start in range(0, len(known), room):
                extra = [Piece(Point(PointKind.EXEC, pc), pc, 1) for pc in known[start : start + room]]
                runs.append(_Run(run.source, run.end, run.inside, (piece, *extra)))
        places = {(found[at].piece, found[at].hit.tick, found[at].hit.nth): at for at in rest}
        for again, both in self._made(runs, progress):
            for key, moment in self._paired(again.pieces[0], both):
                if key in places:
                    moments[places[key]] = moment
        return moments

    def _writer(self, one: Found, progress: Progress | None) -> int | None:
        behind = one.hit.pc
        if behind not in self._writers:
            pc = self._writers[behind] = self._search.hit_of(one, progress).pc
            self._always[pc] = self._stores_always(one.hit.tick, pc, behind, progress)
        pc = self._writers[behind]
        return pc if 0 <= behind - pc <= _LONGEST_INSTRUCTION else None

    def _stores_always(self, tick: int, pc: int, behind: int, progress: Progress | None) -> bool:
        """INVARIANT(no-stack-there): what is addressed without a register is a variable; no call that leads to BEHIND
        pushes its return address there."""
        worker = self._checkpoints.worker_at(tick, progress)
        try:
            code = worker.read(pc, _LONGEST_INSTRUCTION)
        finally:
            worker.drop()
        insn = decoded(code)
        return insn is not None and pc + insn.length == behind and always_stores(code)

    def _paired(self, piece: Piece, both: Sequence[Found]) -> Iterator[tuple[tuple[Piece, int, int], Moment]]:
        executed: dict[int, tuple[int, PointHit]] = {}
        stored = -1
        for place, one in enumerate(both):
            hit = one.hit
            if one.piece != piece:
                executed[hit.pc] = (place, hit)
                continue
            writer = executed.get(self._writers.get(hit.pc, 0))
            # A repeated string instruction stores often in one execution, and stands at itself meanwhile.
            if writer and writer[1].tick == hit.tick and (writer[0] > stored or hit.pc == writer[1].pc):
                yield (piece, hit.tick, hit.nth), Moment(hit.tick, writer[1].pc, writer[1].nth)
            stored = place

    def _merged(self, together: Sequence[list[Hit]], exact: bool, progress: Progress | None) -> list[Hit]:
        """The hits of several groups of points over one span, in order of time."""
        if len(together) == 1:
            return together[0]
        hits = sorted((hit for group in together for hit in group), key=lambda hit: hit.moment.tick)
        shared = [{hit.moment.tick for hit in group} for group in together]
        ticks = {tick for at, one in enumerate(shared) for other in shared[:at] for tick in one & other}
        if not exact:
            return hits
        result: list[Hit] = []
        for tick in dict.fromkeys(hit.moment.tick for hit in hits):
            here = [hit for hit in hits if hit.moment.tick == tick]
            result += self._sorted(tick, here, progress) if tick in ticks else here
        return result

    def _sorted(self, tick: int, hits: Sequence[Hit], progress: Progress | None) -> list[Hit]:
        places = self._segments.places(tick, [hit.moment for hit in hits], progress)
        order = sorted(range(len(hits)), key=lambda at: places[at])
        return [hits[at] for at in order]

    def _behind(self, hits: list[Hit], after: Moment, exact: bool, progress: Progress | None) -> list[Hit]:
        """Those at AFTER or behind it."""
        if after.pc is None or not exact:
            return hits
        here = [hit for hit in hits if hit.moment.tick == after.tick]
        places = self._segments.places(after.tick, [after, *(hit.moment for hit in here)], progress)
        kept = [hit for hit, place in zip(here, places[1:], strict=True) if place >= places[0]]
        return kept + hits[len(here) :]
