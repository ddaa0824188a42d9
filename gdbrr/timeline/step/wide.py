"""Stores to more bytes than debug registers hold: which pages a stretch of time wrote to leads to the segment, and the
words of these pages are counted there, as many at a time as there are registers; of many pages, those that a run of the
segment says were changed first or last, in which each of its stores to these pages is stepped over.

Runs in: the server and scripts. May call: errors, ctl, launch.
Owns: its workers. What it finds is exact: a word that changed and changed back has made its page the process's own.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gdbrr.abi import lib
from gdbrr.ctl.changes import written_pages
from gdbrr.errors import GdbrrError
from gdbrr.timeline.checkpoints import Checkpoints
from gdbrr.timeline.hits import Pass
from gdbrr.timeline.model import Moment, Point, PointKind, Progress
from gdbrr.timeline.order import Order
from gdbrr.timeline.step.found import Found
from gdbrr.timeline.step.points import STORES, WIDEST_WRITE, Piece, pieces_of
from gdbrr.timeline.step.protected import Segment
from gdbrr.timeline.worker import Checkpoint, Worker

WIDE = 16 * lib.GR_WATCHES
"""Bytes of a point, of which more are looked for here; so many are counted by a few runs over the whole span."""
_FEW = WIDE // 8
_PAGES = 2 * lib.GR_PAGE
"""Bytes of pages whose words are counted rather than their stores stepped over: those of others there may be many."""
_GROWTH = 8


class Stretch(NamedTuple):
    """From SOURCE up to tick END, and on to INSIDE where that is in the segment behind; but for what is in front of
    SINCE, which is in the first segment."""

    source: Checkpoint
    end: int
    inside: Moment | None = None
    since: Moment | None = None


@dataclass
class Search:
    """What is looked for, and how."""

    points: Sequence[Point]
    registers: int
    at_once: int
    newest: bool
    progress: Progress | None


class Wide:
    def __init__(self, checkpoints: Checkpoints, order: Order) -> None:
        self._checkpoints = checkpoints
        self._order = order
        self._shortest = 1
        """Ticks that are not cut in two any more. Where a page is written to all the time, and the bytes that are
        looked for are not, it is cheaper to run on."""

    def last(self, stretch: Stretch, search: Search) -> Found | None:
        """The last hit of a stretch."""
        return self._find(stretch, search, search.points)

    def first(self, after: Moment, end: Moment, search: Search) -> Found | None:
        """The first hit from AFTER up to END."""
        since, behind = (after if after.pc is not None else None), after.tick + 1
        with self._at(after.tick, search) as source:
            to_end = after.tick == end.tick
            inside = end if to_end and end.pc is not None else None
            found = self._find(Stretch(source, min(behind, end.tick), inside, since), search, search.points)
            if found or to_end:
                return found
        for number, (source, last) in reversed([*enumerate(self._checkpoints.spans(end, search.progress))]):
            inside = end if number == 0 and end.pc is not None else None
            if last <= behind and inside is None:
                continue
            possible = [point for point in search.points if not self._misses(source, last, point)]
            with contextlib.nullcontext(source) if source.tick >= behind else self._at(behind, search) as begun:
                if found := self._find(Stretch(begun, last, inside), search, possible):
                    return found
        return None

    def _misses(self, source: Checkpoint, end: int, point: Point) -> bool:
        return point.kind in STORES and self._checkpoints.untouched((source, end), point.addr, point.length)

    @contextlib.contextmanager
    def _at(self, tick: int, search: Search) -> Iterator[Checkpoint]:
        worker = self._checkpoints.worker_at(tick, search.progress)
        with _frozen(worker) as source:
            yield source

    def _find(self, stretch: Stretch, search: Search, points: Sequence[Point]) -> Found | None:
        if stretch.source.tick == stretch.end and stretch.inside is None:
            return None
        if reads := [point for point in points if point.kind not in STORES]:
            return self._with_reads(stretch, search, reads, [point for point in points if point not in reads])
        points = self._written(stretch, search, points)
        if not points:
            return None
        size = sum(point.length for point in points)
        many = size > _PAGES and all(point.kind is PointKind.CHANGE for point in points)
        middle = stretch.end if stretch.inside else (stretch.source.tick + stretch.end) // 2
        longer = stretch.source.tick < middle and (many or stretch.end - stretch.source.tick > self._shortest)
        if size > 8 * _FEW and longer:
            return self._cut(stretch, middle, search, points)
        if many:
            segment = Segment(stretch.source, stretch.inside, stretch.since, self._order, search.progress)
            if not segment.is_searched:
                return self._counted(stretch, search, segment.changed(points, search.registers, search.newest))
            if size > WIDEST_WRITE:
                raise GdbrrError(
                    f"the segment of tick {stretch.source.tick} stores to {size} bytes of what is watched, and ends"
                    " in the middle of a computation",
                    "watch a part of it",
                )
        found = self._counted(stretch, search, [piece for point in points for piece in pieces_of(point)])
        self._shortest = 1 if found else self._shortest * _GROWTH
        return found

    def _with_reads(
        self, stretch: Stretch, search: Search, reads: Sequence[Point], stores: Sequence[Point]
    ) -> Found | None:
        """Page tables tell of stores only, so of reads the whole stretch is run."""
        found = self._counted(stretch, search, [piece for point in reads for piece in pieces_of(point)])
        other = self._find(stretch, search, stores) if stores else None
        if found and other:
            return self._counted(stretch, search, [found.piece, other.piece])
        return found or other

    def _cut(self, stretch: Stretch, middle: int, search: Search, points: Sequence[Point]) -> Found | None:
        """The same in two halves, of which the nearer one may be enough."""
        earlier = stretch._replace(end=middle, inside=None)
        if not search.newest and (found := self._find(earlier, search, points)):
            return found
        worker = stretch.source.wake(self._order.final_thread)
        worker.run(middle, progress=search.progress, what="searching")
        with _frozen(worker) as source:
            found = self._find(Stretch(source, stretch.end, stretch.inside), search, points)
        return found or (self._find(earlier, search, points) if search.newest else None)

    def _written(self, stretch: Stretch, search: Search, points: Sequence[Point]) -> list[Point]:
        """What of POINTS is in pages that a stretch may have written to."""
        run = Pass(stretch.source, self._order, [], stretch.end, stretch.inside)
        try:
            run.wait(search.progress, "searching", 0.0)
            regions = [(point.addr, point.addr + point.length) for point in points]
            written = written_pages(run.worker.pid, run.worker.slot, stretch.source.pid, regions)
        finally:
            run.drop()
        found: list[Point] = []
        for point, (start, end) in zip(points, regions, strict=True):
            for one, other in written:
                first, last = max(one, start), min(other, end)
                if first < last:
                    found.append(dataclasses.replace(point, addr=first, length=last - first))
        return found

    def _counted(self, stretch: Stretch, search: Search, pieces: Sequence[Piece]) -> Found | None:
        """Of all PIECES the one that is hit last, or first: winners of runs with few of them meet in further runs."""
        room = search.registers - (stretch.inside is not None) - (stretch.since is not None)
        while pieces:
            groups = [pieces[at : at + room] for at in range(0, len(pieces), room)]
            won: list[Found] = []
            for at in range(0, len(groups), search.at_once):
                won += self._won(stretch, search, groups[at : at + search.at_once], at / len(groups))
            if len(groups) == 1:
                return won[0] if won else None
            pieces = [found.first for found in won]
        return None

    def _won(
        self, stretch: Stretch, search: Search, groups: Sequence[Sequence[Piece]], fraction: float
    ) -> Iterator[Found]:
        since, passes = stretch.since, []
        extra = [] if since is None else [Piece(Point(PointKind.EXEC, since.pc or 0), since.pc or 0, 1)]
        try:
            for group in groups:
                whole = bool(extra) or not search.newest  # of all but the last hits, the newest are not enough
                passes.append(Pass(stretch.source, self._order, [*group, *extra], stretch.end, stretch.inside, whole))
            for one in passes:
                # INVARIANT(taken-back): what a search for a signal's place hits counts only when it has ended; reads by
                # pages are not looked at there.
                first = not search.newest and since is None and one.by_pages
                while not one.done() and not (first and one.logged):
                    one.nap(search.progress, "searching", fraction)
                hits = one.hits()
                if since is not None:
                    began = next(
                        at for at, found in enumerate(hits) if found.piece in extra and found.hit.nth == since.nth
                    )
                    hits = [found for found in hits[began:] if found.piece not in extra]
                if hits:
                    yield hits[-1 if search.newest else 0]
        finally:
            for one in passes:
                one.drop()


@contextlib.contextmanager
def _frozen(worker: Worker) -> Iterator[Checkpoint]:
    """A checkpoint where WORKER stands, which ends."""
    try:
        source = worker.freeze()
    finally:
        worker.drop()
    try:
        yield source
    finally:
        source.drop()
