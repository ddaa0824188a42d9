"""One run over a span with points armed, and what it found.

Runs in: the server and scripts. May call: errors, ctl, launch.
Owns: the worker of a pass.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdbrr.abi import lib
from gdbrr.ctl.control import FOREVER, NOBODY, Armed, PointHit, ProcessEnded, has_ended
from gdbrr.timeline.model import Moment, PointKind, Progress
from gdbrr.timeline.order import Order
from gdbrr.timeline.step.found import Found, at_once, one_by_operation
from gdbrr.timeline.step.points import Piece
from gdbrr.timeline.worker import Checkpoint

_NAP = 0.002
_NEAREST = 4
"""Ticks between where a pass is and where another one may take over from it."""


class Pass:
    """One worker that runs over the span start <= tick < stop with up to GR_WATCHES pieces armed.

    With `inside`, a moment in the middle of the segment of `stop`, it goes on up to there in a second run. That
    moment's pc takes a place then, unless it is one of the points anyhow: two points at one address would be one hit.
    With `every`, no hit is lost however many there are; else the newest GR_HITS of each run are known.
    """

    def __init__(
        self,
        source: Checkpoint,
        order: Order,
        pieces: Sequence[Piece],
        stop: int,
        inside: Moment | None,
        every: bool = False,
    ) -> None:
        self._pieces = list(pieces)
        self._order = order
        self._inside = inside
        self._second = inside is None
        self._looked = False
        self._every = every
        self._source = source
        self._stop = stop
        self._cut = False
        self._before: list[Found] = []
        self.lost = False
        """More were hit than are known."""
        self._closed: tuple[list[Found], bool, int] | None = None
        """Of one whose process has gone: its hits, whether it arrived, and how many were logged."""
        self.worker = source.wake(order.final_thread)
        self._begin_first()

    def _begin_first(self) -> None:
        self._log: list[PointHit] = []
        try:
            if self._every:
                self.worker.slot.flag(lib.GR_SLOT_KEEP_HITS)
            if self.worker.slot.tick < self._stop:
                start = self.worker.slot.tick
                self.worker.begin(self._stop, [piece.armed(start) for piece in self._pieces])
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
        for piece in self._pieces:
            here = piece.executes and piece.addr == inside.pc
            merged |= here
            armed.append(piece.armed(inside.tick, inside.nth if here else 0))
        # INVARIANT(the-end-is-no-hit): in the log its executions would take the place of what is looked for.
        if not merged:
            armed.append(Armed(inside.pc, 1, lib.GR_POINT_EXEC, inside.tick, inside.nth, NOBODY))
        self.worker.begin(FOREVER if inside.tick >= self._order.ticks else inside.tick + 1, armed)

    def done(self) -> bool:
        if self._closed is not None:
            return True
        if not self.ended():
            return False
        self.worker.check()
        if not self._looked:
            self._looked = True
            self.worker.look()
        if not self._second:
            self._before = self.hits()
            self._log = []
            self._begin_second()
            return False
        return True

    def ended(self) -> bool:
        """Whether it needs no processor any more; what it has logged is taken, so that it need not wait for that."""
        if self._closed is not None:
            return True
        stands = self.worker.done()  # asked first: who still runs may pass its new end behind the look at that
        again = self._look_for_end()
        if self._every:
            self.worker.slot.take_hits(self._log)
        return stands and not again

    def close(self) -> None:
        """The process of one that has ended goes, if nothing is left for it to do: there are not many at a time. What
        it has found stays; what it failed with is said when it is its turn."""
        if self._closed is not None or not self._second or self.worker.slot.panic:
            return
        if not self._looked:
            self._looked = True
            self.worker.look()
        self._closed = self.hits(), self.arrived, self.logged
        self.worker.drop()

    def nap(self, progress: Progress | None, what: str, fraction: float) -> None:
        """Let it run for a moment."""
        slot = self.worker.slot
        slot.nap(_NAP)
        if not self.done() and has_ended(slot.pid):
            raise ProcessEnded(f"process {slot.pid} of the search ended by itself", "try again")
        if progress:
            progress(what, fraction)

    def wait(self, progress: Progress | None, what: str, fraction: float) -> None:
        """Wait for its end."""
        while not self.done():
            self.nap(progress, what, fraction)

    # ---------------------------------------------------------------- a part of it is another's
    def middle(self) -> int | None:
        """A tick from which another one could take over."""
        here = self.worker.slot.tick
        at = (here + self._stop) // 2
        return None if (self._second and self._inside) or at < here + _NEAREST else at

    def end_at(self, tick: int) -> None:
        """Stand in front of TICK, which it has not come to yet."""
        self._stop, self._inside, self._second, self._cut = tick, None, True, True
        self.worker.slot.stop_at(tick)

    def _look_for_end(self) -> bool:
        """INVARIANT(cut-in-time): who was past its new end when that was told runs once more, up to there."""
        past = self._cut and self.worker.slot.tick > self._stop
        if past:
            self.worker.drop()
            self.worker = self._source.wake(self._order.final_thread)
            self._begin_first()
        return past

    def hits(self) -> list[Found]:
        """What was hit before the end of the pass, in order of time."""
        if self._closed is not None:
            return self._closed[0]
        slot = self.worker.slot
        if self._every:
            slot.take_hits(self._log)
        else:
            self._log = slot.hits()
            self.lost |= slot.logged > len(self._log)
        hits = [hit for hit in self._log if hit.point < len(self._pieces)]
        by_pages = [at for at, piece in enumerate(self._pieces) if piece.by_pages]
        newer = [Found(self._pieces[hit.point], hit) for hit in one_by_operation(hits, by_pages)]
        newer = [found for found in newer if self._counts(found)]
        parts = any(piece.length < piece.point.length for piece in self._pieces)
        return self._before + (at_once(newer) if parts else newer)

    def _counts(self, found: Found) -> bool:
        """A change changes something; and the hit at the very moment that the pass stops at comes too late."""
        hit, inside = found.hit, self._inside
        if found.point.kind is PointKind.CHANGE and hit.old == hit.new:
            return False
        if inside is None or found.point.kind is not PointKind.EXEC:
            return True
        return not (hit.tick == inside.tick and hit.pc == inside.pc and hit.nth >= inside.nth)

    @property
    def logged(self) -> int:
        """Hits so far."""
        return self._closed[2] if self._closed is not None else self.worker.slot.logged

    @property
    def by_pages(self) -> bool:
        return all(piece.by_pages for piece in self._pieces)

    @property
    def arrived(self) -> bool:
        if self._closed is not None:
            return self._closed[1]
        return self._inside is None or self.worker.slot.state == lib.GR_S_TRAPPED

    def drop(self) -> None:
        self.worker.drop()
