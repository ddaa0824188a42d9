"""Copies in the middle of long segments, from which the moments behind them are a few single steps.

Runs in: the server and scripts. May call: errors, abi, ctl.
Owns: what is known about these copies; the copies themselves go with those of near.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from gdbrr.abi import lib
from gdbrr.ctl.control import Armed, ProcessEnded
from gdbrr.timeline.checkpoints import Checkpoints
from gdbrr.timeline.model import Moment, Progress
from gdbrr.timeline.order import Order
from gdbrr.timeline.tracer import NoProcess
from gdbrr.timeline.worker import Checkpoint, Worker

_BACK = (16, 1)
"""Executions of its own instruction in front of a moment, at which a copy is left: so many moments are near it."""
_MANY, _PART = 1000, 8
"""Executions, from which on another copy is left such a part of them in front: what is stepped to next is near that."""
_MOST = 6
_Trace = Callable[[Worker, Moment, "Progress | None"], Sequence[int]]


@dataclass
class Place:
    at: Moment
    copy: Checkpoint
    before: dict[int, int]
    """Of some instructions, how often the segment has executed them in front of it."""
    pcs: Sequence[int] = ()
    """What its thread executes from there on, as far as that was traced."""

    def is_in_front_of(self, moment: Moment) -> bool:
        known = self.before.get(moment.pc or 0)
        return self.copy.alive and self.at.tick == moment.tick and known is not None and known < moment.nth

    def find(self, moment: Moment) -> int | None:
        """Where MOMENT is in what was traced."""
        if not self.is_in_front_of(moment):
            return None
        rest = moment.nth - self.before[moment.pc or 0]
        places = (number for number, pc in enumerate(self.pcs) if pc == moment.pc)
        return next(islice(places, rest - 1, None), None)


class Inside:
    """INVARIANT(steps-are-true): which instruction is in front of another one is what single steps say, and its number
    is counted from the beginning of the segment."""

    def __init__(self, checkpoints: Checkpoints, order: Order, trace: _Trace) -> None:
        """TRACE steps a worker on and tells what it executes."""
        self._checkpoints = checkpoints
        self._order = order
        self._trace = trace
        self._places: list[Place] = []

    def previous(self, moment: Moment, progress: Progress | None) -> Moment | None:
        """The moment of the instruction before; None where that takes too many steps."""
        try:
            left = (self._left(moment, back, progress) for back in _BACK)
            for place in chain(self._places[:], left):
                if not place or not place.is_in_front_of(moment):
                    continue
                if number := self._steps_of(place, progress).find(moment):
                    return self._named(place, number - 1, progress)
        except (NoProcess, ProcessEnded):
            pass  # somebody needs what they take more than we do
        return None

    def _woken(self, moment: Moment) -> tuple[Worker, int] | None:
        """A copy in front of MOMENT, and how often its instruction is executed from there up to it."""
        near = [place for place in self._places if place.is_in_front_of(moment)]
        for place in sorted(near, key=lambda place: place.before[moment.pc or 0], reverse=True):
            try:
                return place.copy.wake(self._order.final_thread), moment.nth - place.before[moment.pc or 0]
            except (NoProcess, ProcessEnded):
                return None
        return None

    def _left(self, moment: Moment, back: int, progress: Progress | None) -> Place | None:
        """A copy, so many executions in front of MOMENT."""
        at = Moment(moment.tick, moment.pc, moment.nth - back)
        if at.nth < 1 or at.pc is None:
            return None
        far = at.nth // _PART if back in _BACK else 0
        if (
            far
            and at.nth > _MANY
            and not any(place.is_in_front_of(at) and place.at.nth > at.nth - far for place in self._places)
        ):
            self._left(at, far, progress)
        worker = self.brought_to(at, progress)
        if worker is None:
            return None
        try:
            copy = worker.freeze()
        finally:
            worker.drop()
        self._checkpoints.keep_inside(copy)
        made = Place(at, copy, {at.pc: at.nth - 1})
        self._places = [made, *(place for place in self._places if place.copy.alive)]
        for old in self._places[_MOST:]:
            old.copy.drop()
        return made

    def _steps_of(self, place: Place, progress: Progress | None) -> Place:
        if not place.pcs:
            worker = place.copy.wake(self._order.final_thread)
            try:
                place.pcs = self._trace(worker, place.at, progress)
            finally:
                worker.drop()
        return place

    def _named(self, place: Place, number: int, progress: Progress | None) -> Moment | None:
        pc = place.pcs[number]
        if pc not in place.before:
            worker = self.brought_to(place.at, progress, [pc])
            if worker is None:
                return None
            place.before[pc] = worker.slot.met - place.at.nth
            worker.drop()
        return Moment(place.at.tick, pc, place.before[pc] + list(place.pcs[: number + 1]).count(pc))

    def brought_to(self, to: Moment, progress: Progress | None, counted: Sequence[int] = ()) -> Worker | None:
        """A worker at TO, None where there is no such moment; where executions of something are COUNTED, as points that
        were met, from the beginning on."""
        begun = None if counted else self._woken(to)
        worker, nth = begun or (self._checkpoints.worker_at(to.tick, progress), to.nth)
        armed = [Armed(pc, 1, lib.GR_POINT_EXEC, to.tick) for pc in counted]
        armed.append(Armed(to.pc or 0, 1, lib.GR_POINT_EXEC, to.tick, nth))
        return worker if worker.stops_in(to.tick, self._order.ticks, armed, progress=progress) else None
