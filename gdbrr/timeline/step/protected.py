"""Which word of many pages one segment changed first, or last: by what its operation left, and by a run of its code
with these pages protected (preload/watch/pages.h).

Runs in: the server and scripts. May call: errors, ctl, launch.
Owns: its workers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gdbrr.abi import lib
from gdbrr.ctl.changes import written_pages
from gdbrr.ctl.control import DEBUG_REGISTER, FOREVER, Armed
from gdbrr.errors import GdbrrError
from gdbrr.launch.watchdog import is_searched
from gdbrr.timeline.model import Moment, Point, PointKind, Progress
from gdbrr.timeline.order import Order
from gdbrr.timeline.step.points import Piece, pieces_of
from gdbrr.timeline.worker import Checkpoint, Worker


@dataclass(frozen=True)
class Segment:
    """The segment that SOURCE stands in front of, from SINCE up to INSIDE, where these are."""

    source: Checkpoint
    inside: Moment | None
    since: Moment | None
    order: Order
    progress: Progress | None

    @property
    def is_searched(self) -> bool:
        """It ends in the middle of a computation, and its end is looked for by the memory there: that must not be
        protected then."""
        tick = self.source.tick
        thread = self.order.final_thread if tick >= self.order.ticks else self.order.thread_of(tick)
        return is_searched(self.source.demo, thread, tick + 1)

    def changed(self, points: Sequence[Point], registers: int, newest: bool) -> list[Piece]:
        """Words among which that is which was changed last (NEWEST), or first; none, if none was changed."""
        with self._begun() as (worker, _):
            pieces = [] if self.since else self._by_operation(worker, points)
            areas = _areas(worker.pid, points)
        if pieces and not newest:
            return pieces
        room = registers - (self.inside is not None)
        for at in range(0, len(areas), room):
            pieces += self._by_code(areas[at : at + room], newest)
        return pieces

    @contextlib.contextmanager
    def _begun(self) -> Iterator[tuple[Worker, int]]:
        """A worker behind the operation, in front of the program's first instruction, or at SINCE; and how often it
        has executed where INSIDE is. Where there is no instruction it stands at the next operation."""
        worker = self.source.wake(self.order.final_thread)
        try:
            yield worker, self._begin(worker)
        finally:
            worker.drop()

    def _begin(self, worker: Worker) -> int:
        tick = worker.slot.tick
        if self.since is not None and self.since.pc is not None:
            armed = [Armed(self.since.pc, 1, lib.GR_POINT_EXEC, tick, self.since.nth)]
            other = self.inside is not None and self.inside.pc != self.since.pc
            if self.inside is not None and self.inside.pc is not None and other:
                armed.append(Armed(self.inside.pc, 1, lib.GR_POINT_EXEC, tick))
            worker.run_segment(tick, self.order.ticks, armed, progress=self.progress)
            hits = [hit for hit in worker.slot.hits() if hit.point == 1]
            return hits[-1].nth if hits else 0 if other else self.since.nth - 1
        worker.slot.flag(lib.GR_SLOT_TRACE)
        with worker.control.trace_limited(1):
            worker.run_segment(tick, self.order.ticks, progress=self.progress)
        worker.slot.flag(lib.GR_SLOT_TRACE, False)
        return 0

    def _by_operation(self, worker: Worker, points: Sequence[Point]) -> list[Piece]:
        """The first word that the operation left other than it was, if there is one: an operation is one change."""
        regions = [(point.addr, point.addr + point.length) for point in points]
        rows = written_pages(worker.pid, worker.slot, self.source.pid, regions)
        for point, (start, end) in zip(points, regions, strict=True):
            for one, other in rows:
                for page in range(max(one, start) & -lib.GR_PAGE, min(other, end), lib.GR_PAGE):
                    first, last = max(page, start), min(page + lib.GR_PAGE, end)
                    if first >= last:
                        continue
                    old, new = (process.read(first, last - first) for process in (self.source, worker))
                    if old != new:
                        at = next(at for at in range(len(old)) if old[at] != new[at])
                        return [_word(point, first + at)]
        return []

    def _by_code(self, areas: Sequence[Point], newest: bool) -> list[Piece]:
        with self._begun() as (worker, passed):
            if worker.slot.state != lib.GR_S_TRAPPED:
                return []
            tick = self.source.tick
            armed = []
            if self.inside is not None and self.inside.pc is not None:
                armed = [Armed(self.inside.pc, 1, lib.GR_POINT_EXEC, tick, self.inside.nth - passed)]
            first = len(armed)
            armed += [Armed(area.addr, area.length, lib.GR_POINT_CHANGE, tick, 0 if newest else 1) for area in areas]
            worker.begin(FOREVER if tick >= self.order.ticks else tick + 1, armed)
            worker.finish(self.progress, "searching", tick + 1)
            hits = [hit for hit in worker.slot.hits() if hit.point >= first]
            if not hits:
                return []
            hit = hits[-1 if newest else 0]
            return [_word(areas[hit.point - first], hit.new)]


def _word(point: Point, at: int) -> Piece:
    """What a debug register watches of POINT at AT."""
    start = max(at & -DEBUG_REGISTER, point.addr)
    end = min((at & -DEBUG_REGISTER) + DEBUG_REGISTER, point.addr + point.length)
    pieces = pieces_of(Point(PointKind.CHANGE, start, end - start, point.thread, point.condition))
    return next(piece for piece in pieces if piece.addr + piece.length > at)


def _areas(pid: int, points: Sequence[Point]) -> list[Point]:
    """POINTS as one for each mapping. Of memory that may hold code it is not known what to give back."""
    found: list[Point] = []
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            words = line.split(None, 2)
            low, high = (int(word, 16) for word in words[0].split("-"))
            inside = [point for point in points if point.addr < high and low < point.addr + point.length]
            if not inside or "w" not in words[1]:
                continue
            if words[1][:3] != "rw-":
                raise GdbrrError(f"the memory at {low:#x} may hold code: too much of it is watched", "watch a part")
            start = max(low, min(point.addr for point in inside))
            end = min(high, max(point.addr + point.length for point in inside))
            found.append(replace(inside[0], addr=start, length=end - start))
    return found
