"""All hits of some points, oldest first: each span between checkpoints is run once, as many at a time as the cores.

Runs in: the server and scripts. May call: errors, ctl, launch.
Owns: the workers of a history.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, groupby

from gdbrr.timeline.checkpoints import Checkpoints
from gdbrr.timeline.model import Hit, Moment, Point, Progress
from gdbrr.timeline.order import Order
from gdbrr.timeline.search import Run, Search
from gdbrr.timeline.segment import Segments
from gdbrr.timeline.step.found import Found, Told, joined, named
from gdbrr.timeline.step.points import STORES, check_points
from gdbrr.timeline.step.row import Single, made

_COUNTED = 4096
"""Bytes of a point that looks for stores, of which each word is counted."""


class History:
    def __init__(self, checkpoints: Checkpoints, order: Order, segments: Segments, search: Search) -> None:
        self._checkpoints = checkpoints
        self._order = order
        self._segments = segments
        self._search = search
        self._writers = search.writers

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
            hits = sorted(chain(*kinds), key=_tick)
            return self._sorted(hits, _shared([map(_tick, hits) for hits in kinds]), progress) if exact else hits
        self._writers.forget()
        spans = [span for span in self._checkpoints.spans(before, progress) if span[1] >= after.tick]
        runs = [
            Single(one.source, one.end, one.inside, tuple(group), len(one.groups), _spread(one))
            for one in reversed(self._search.runs(spans, points, before, registers, _COUNTED))
            for group in one.groups
        ]
        found_hits: list[Hit] = []
        together: list[list[Told]] = []
        at_once = self._search.at_once
        for run, found in made(runs, self._order, at_once, self._checkpoints.between, progress):
            found = [one for one in found if one.hit.tick >= after.tick]
            together.append(self._told(run, found, exact, progress))
            if len(together) == run.groups:
                found_hits += self._merged(together, exact, progress)
                together = []
        return self._behind(found_hits, after, exact, progress)

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

    def _told(self, run: Single, found: Sequence[Found], exact: bool, progress: Progress | None) -> list[Told]:
        """With their moments, where these are wanted, or tell which of the hits are one."""
        if exact:
            return list(zip(found, self._writers.moments_of(run, found, progress), strict=True))
        behind = {one.hit.pc: one for one in found if not one.piece.executes}
        strings = {pc for pc, one in behind.items() if self._writers.repeats(one, progress)}
        if not strings and not run.spread:
            return [(one, None) for one in found]
        known = [one for one in found if id(one.point) in run.spread or one.hit.pc in strings]
        moments = dict(zip(map(id, known), self._writers.moments_of(run, known, progress), strict=True))
        return [(one, moments.get(id(one))) for one in found]

    def _merged(self, together: Sequence[list[Told]], exact: bool, progress: Progress | None) -> list[Hit]:
        """The hits of several groups of points over one span, in order of time."""
        told = joined(chain(*together))
        if len(together) > 1:
            told.sort(key=lambda one: one[0].hit.tick)
        conditions = any(found.point.condition for found, _ in told)
        name = partial(self._named, progress=progress) if conditions else named
        hits = [name(found, moment) for found, moment in told]
        if len(together) > 1:
            unknown = {found.hit.tick for found, moment in told if moment is None}
            shared = _shared([(found.hit.tick for found, _ in group) for group in together])
            hits = self._sorted(hits, shared - unknown, progress)
        if not exact and any(moment for _, moment in told):
            hits = [replace(hit, moment=Moment(hit.moment.tick)) for hit in hits]
        return hits

    def _named(self, found: Found, moment: Moment | None, progress: Progress | None) -> Hit:
        if moment is None or not found.point.condition:
            return named(found, moment)
        return self._search.named(found, moment, self._writers.repeats(found, progress), progress)

    def _sorted(self, hits: Sequence[Hit], ticks: set[int], progress: Progress | None) -> list[Hit]:
        """HITS, which are in order but for those of one tick, of TICKS."""
        result: list[Hit] = []
        for tick, together in groupby(hits, _tick):
            here = [*together]
            if tick in ticks:
                places = self._segments.places(tick, [hit.moment for hit in here], progress)
                here = [here[at] for at in sorted(range(len(here)), key=lambda at: places[at])]
            result += here
        return result

    def _behind(self, hits: list[Hit], after: Moment, exact: bool, progress: Progress | None) -> list[Hit]:
        """Those at AFTER or behind it."""
        if after.pc is None or not exact:
            return hits
        here = [hit for hit in hits if hit.moment.tick == after.tick]
        places = self._segments.places(after.tick, [after, *(hit.moment for hit in here)], progress)
        kept = [hit for hit, place in zip(here, places[1:], strict=True) if place >= places[0]]
        return kept + hits[len(here) :]


def _spread(run: Run) -> frozenset[int]:
    """The points whose pieces are in several groups."""
    seen = Counter(point for group in run.groups for point in {id(piece.point) for piece in group})
    return frozenset(point for point, groups in seen.items() if groups > 1)


def _tick(hit: Hit) -> int:
    return hit.moment.tick


def _shared(together: Sequence[Iterable[int]]) -> set[int]:
    """Ticks of which several have hits."""
    seen = Counter(tick for ticks in together for tick in {*ticks})
    return {tick for tick, groups in seen.items() if groups > 1}
