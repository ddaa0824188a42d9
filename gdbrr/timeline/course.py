"""The course of a segment: what its thread executed, counted, with copies of the replay on the way.

Runs in: the server and scripts; `go_through` in the skeleton's thread, too. May call: errors, abi, ctl, workers.
Owns: the copies on the way, and what is known about each segment that was counted.

In a counted run the program's code is executed in copies that count (preload/count). So each process that was frozen in
the middle of such a run knows how often any instruction was executed in front of it, and a moment is reached from the
last copy that knows fewer of its executions than its number says.
"""

from __future__ import annotations

import bisect
import contextlib
from array import array
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gdbrr.abi import lib
from gdbrr.ctl import threads
from gdbrr.ctl.control import Armed, ProcessEnded, has_ended
from gdbrr.timeline.model import Moment, Progress
from gdbrr.timeline.order import Order
from gdbrr.timeline.tracer import NoProcess
from gdbrr.timeline.worker import Checkpoint, Process, Worker

if TYPE_CHECKING:
    from gdbrr.timeline.checkpoints import Checkpoints

SLICE = 0.05
"""Seconds between two copies on the way."""
STEPS = 20000
"""Instructions from a copy that are listed: what is in front of a moment is known from that."""
LONGEST_BLOCK = 64
"""Instructions by which a run may stop too early: it does so in front of a whole block."""
_NEAR = (1 << 22, 1 << 16, STEPS - 3 * LONGEST_BLOCK)
"""Instructions in front of a place, at which copies are left on the way there."""
_WORTH = 2e8
"""Bytes of its own that a copy may have for each second between two."""
MOST = 200
"""Copies that are left in one segment at the first time."""
_NEVER = 1 << 62
"""Executions that nothing comes to: they are counted and stop nobody."""
_KNOWN = 4096
"""Moments whose places are kept."""


Keep = Callable[[Checkpoint], None]


def counts(process: Process, addresses: Sequence[int], length: int = 1) -> tuple[int, list[int]]:
    """How many instructions were executed in front of where a process stands, and how often these.

    INVARIANT(no-other's-slot): another thread may end a copy at any time, and its slot be another's then.
    """
    found = process.slot.count(addresses, length) if process.alive else (0, [])
    if not process.alive:
        raise ProcessEnded("a copy in the middle of a segment has gone", "try again")
    return found


@dataclass(eq=False)
class Mark:
    """A copy in the middle of a segment."""

    at: int
    """So many instructions were executed in front of it."""
    copy: Checkpoint
    pcs: Sequence[int] = ()
    """What its thread executes from there on, as far as that was listed."""
    before: dict[int, int] = field(default_factory=dict)
    """Of some of these, how often they were executed in front of it."""

    def executed(self, pcs: Collection[int]) -> dict[int, int]:
        missing = [pc for pc in pcs if pc not in self.before]
        if missing:
            self.before |= zip(missing, counts(self.copy, missing)[1], strict=True)
        return {pc: self.before[pc] for pc in pcs}


@dataclass(eq=False)
class Course:
    tick: int
    length: int | None = None
    """Instructions of the segment; None as long as nobody has come to its end."""
    marks: list[Mark] = field(default_factory=list)
    """By place."""
    places: OrderedDict[Moment, int] = field(default_factory=OrderedDict)
    moments: OrderedDict[int, Moment] = field(default_factory=OrderedDict)
    times: dict[int, int] = field(default_factory=dict)
    """Of some instructions, how often the whole segment executes them."""

    def alive(self) -> list[Mark]:
        self.marks = [mark for mark in self.marks if mark.copy.alive]
        return self.marks

    def drop(self) -> None:
        for mark in self.alive():
            mark.copy.drop()

    def cost(self) -> float:
        """Seconds that a copy is worth: what is written to behind it has to be copied."""
        return max((mark.copy.held for mark in self.alive()[-3:]), default=0) / _WORTH

    def forget_dead(self) -> None:
        """Copies that were ended from outside."""
        for mark in self.alive():
            if has_ended(mark.copy.pid):
                mark.copy.drop()

    def add(self, mark: Mark) -> None:
        if not any(other.at == mark.at for other in self.alive()):
            bisect.insort(self.marks, mark, key=lambda each: each.at)

    def last(self, at: int) -> Mark | None:
        """The last one that stands at AT or in front of it."""
        return next((mark for mark in reversed(self.alive()) if mark.at <= at), None)

    def learn(self, moment: Moment, place: int) -> None:
        self.places[moment] = place
        self.moments[place] = moment
        for known in (self.places, self.moments):
            while len(known) > _KNOWN:
                known.popitem(last=False)


class Uncounted(Exception):
    """A segment cannot be counted: it executes code that may change, or ends where a signal is looked for."""


def leave(worker: Worker, course: Course, keep: Keep) -> Mark | None:
    """A copy of WORKER, which stands in the middle of the segment."""
    with contextlib.suppress(NoProcess):
        mark = Mark(worker.slot.instructions, worker.freeze())
        course.add(mark)
        keep(mark.copy)
        return mark
    return None


def go_through(worker: Worker, course: Course, stop_tick: int, keep: Keep, poll: Callable[[], None]) -> None:
    """Run the whole segment, in front of which WORKER stands, and leave copies on the way; raises Uncounted, and then
    it is behind the segment all the same."""
    most = SLICE
    while worker.run_counted(stop_tick, (), most + course.cost(), poll) == lib.GR_S_TRAPPED:
        if worker.slot.counted:
            leave(worker, course, keep)
        if len(course.marks) > MOST:
            for mark in course.marks[::2]:
                mark.copy.drop()
            most *= 2
    if not worker.slot.counted:
        raise Uncounted
    course.length = worker.slot.instructions


@dataclass(frozen=True)
class _Others:
    """Instructions beside LINE: those of FUNCTION, or all."""

    line: range
    function: range | None

    def __contains__(self, pc: int) -> bool:
        return pc not in self.line and (self.function is None or pc in self.function)

    def executed(self, process: Process) -> int:
        """How many of them, in front of where a process stands."""
        total, (own,) = counts(process, [self.line.start], len(self.line))
        if self.function is not None:
            total = counts(process, [self.function.start], len(self.function))[1][0]
        return total - own


class Courses:
    """Answers about segments that are counted.

    INVARIANT(counted-or-none): each answer is of a run that was counted from the segment's beginning on; where that is
    not possible, there is none.
    """

    def __init__(self, checkpoints: Checkpoints, order: Order, born: int) -> None:
        self._checkpoints = checkpoints
        self._order = order
        self._born = born

    def known(self, tick: int) -> Course | None:
        course = self._checkpoints.courses.get(tick)
        if course is None or course.length is None:
            return None
        course.forget_dead()
        return course

    def long(self, above: int, below: int) -> list[int]:
        """Ticks from ABOVE on and below BELOW whose courses are known, the last one first."""
        return sorted((tick for tick in [*self._checkpoints.courses] if above <= tick < below), reverse=True)

    def of(self, tick: int, progress: Progress | None) -> Course | None:
        """The course of a segment, which is gone through if that was not done; None if it cannot be counted."""
        course = self.known(tick)
        while course is None and self._checkpoints.is_going_through(tick, progress):
            course = self.known(tick)
        if course is None and tick not in self._checkpoints.uncounted:
            worker = self._checkpoints.worker_at(tick, progress)
            try:
                self._checkpoints.go_through(worker, tick, tick + 1, progress)
            finally:
                worker.drop()
            course = self.known(tick)
        return course

    # ---------------------------------------------------------------- runs
    def _go_on(
        self, worker: Worker, course: Course, inside: bool, to: dict[int, int], progress: Progress | None
    ) -> int | None:
        """Run on, INSIDE of the segment or from its beginning, to where one of the instructions TO has its number, and
        tell which one; None where the segment ends. On the way copies are left."""

        def poll() -> None:
            if progress:
                progress("going there", 0.0)

        while True:
            before = worker.slot.count(list(to))[1] if inside else [0] * len(to)
            points = [
                Armed(pc, 1, lib.GR_POINT_EXEC, course.tick, nth - done)
                for (pc, nth), done in zip(to.items(), before, strict=True)
            ]
            state = worker.run_counted(course.tick + 1, points, SLICE + course.cost(), poll)
            inside = True
            if not worker.slot.counted:
                raise ProcessEnded(f"tick {course.tick} was counted, and now it cannot be", "try again")
            if state != lib.GR_S_TRAPPED:
                return None
            here, executed = self.pc(worker, course.tick), worker.slot.executed
            for (pc, nth), done in zip(to.items(), executed, strict=True):
                if here == pc and done == nth - 1:
                    course.learn(Moment(course.tick, pc, nth), worker.slot.instructions)
                    return pc
            leave(worker, course, self._checkpoints.keep_inside)

    def pc(self, worker: Process, tick: int) -> int:
        thread = self._order.thread_of(tick)
        return next((each.regs["rip"] for each in threads.read(worker.pid, self._born) if each.index == thread), 0)

    def woken(self, course: Course, mark: Mark | None, progress: Progress | None) -> tuple[Worker, Mark | None]:
        """A worker at MARK, or at the one before where that was ended from outside, or at the beginning; and which it
        is."""
        while mark is not None:
            try:
                if mark.copy.alive:
                    return mark.copy.wake(self._order.final_thread), mark
            except ProcessEnded:
                mark.copy.drop()
            mark = course.last(mark.at - 1)
        return self._checkpoints.worker_at(course.tick, progress), None

    @contextlib.contextmanager
    def _from(
        self, course: Course, mark: Mark | None, progress: Progress | None
    ) -> Iterator[tuple[Worker, Mark | None]]:
        """The same; the worker is dropped where its user fails."""
        worker, mark = self.woken(course, mark, progress)
        try:
            yield worker, mark
        except BaseException:
            worker.drop()
            raise

    # ---------------------------------------------------------------- moments
    def brought_to(self, course: Course, moment: Moment, progress: Progress | None) -> Worker | None:
        """A worker at MOMENT, in the middle of the segment; None if there is none."""
        assert moment.pc is not None
        with self._from(course, self._in_front_of(course, moment), progress) as (worker, mark):
            if self._go_on(worker, course, mark is not None, {moment.pc: moment.nth}, progress) is None:
                worker.drop()
                return None
            return worker

    def _in_front_of(self, course: Course, moment: Moment) -> Mark | None:
        """The last mark from which MOMENT is still to come."""
        marks = course.alive()
        place, pc = course.places.get(moment), moment.pc or 0
        if place is not None:
            return course.last(place)
        try:
            at = bisect.bisect_left(marks, True, key=lambda mark: mark.executed([pc])[pc] >= moment.nth)
        except ProcessEnded:
            course.forget_dead()
            return self._in_front_of(course, moment)
        return marks[at - 1] if at else None

    def place(self, course: Course, moment: Moment, progress: Progress | None) -> int | None:
        """How many instructions are in front of MOMENT."""
        if moment.pc is None:
            return -1 if moment.tick == course.tick else None
        if moment not in course.places:
            worker = self.brought_to(course, moment, progress)
            if worker is None:
                return None
            worker.drop()
        return course.places[moment]

    def moment(self, course: Course, place: int, progress: Progress | None) -> Moment | None:
        """The moment that has so many instructions in front of it."""
        if place in course.moments:
            return course.moments[place]
        for mark in reversed(course.alive()):
            if mark.at <= place < mark.at + len(mark.pcs):
                return self._named(course, mark, place)
        near = self._close_to(course, place, progress)
        if near is None:
            return None
        if not near.pcs:
            near.pcs = self._listed(course, near, progress)
        return self._named(course, near, place) if place < near.at + len(near.pcs) else None

    def _listed(self, course: Course, mark: Mark, progress: Progress | None) -> Sequence[int]:
        """What is executed from MARK on."""
        with self._from(course, mark, progress) as (worker, there):
            if there is not mark:
                worker.drop()
                return ()
            worker.slot.flag(lib.GR_SLOT_TRACE)
            worker.begin(course.tick + 1, counted=True, instructions=STEPS)
            worker.finish(progress, "stepping back")
            pcs, whole = worker.control.trace(worker.slot)
            until = worker.slot.instructions - mark.at
            worker.drop()
        return pcs[:until] if whole else ()

    def _named(self, course: Course, mark: Mark, place: int) -> Moment:
        pc, upto = mark.pcs[place - mark.at], array("Q", mark.pcs[: place - mark.at + 1])
        found = Moment(course.tick, pc, mark.executed([pc])[pc] + upto.count(pc))
        course.learn(found, place)
        return found

    def behind_others(
        self, course: Course, now: Moment, line: range, function: range | None, progress: Progress | None
    ) -> Moment | None:
        """The first moment since which nothing but LINE was executed up to NOW: of FUNCTION, or of all there is. None
        where that is not found."""
        last = self.place(course, now, progress)
        if last is None:
            return None
        place = self._last_other(course, last, now, _Others(line, function), progress)
        return self.moment(course, place + 1, progress) if place is not None and place + 1 < last else None

    def next_in(self, course: Course, after: Moment, line: range, progress: Progress | None) -> Moment | None:
        """The next instruction of LINE behind AFTER, if that is near."""
        place = self.place(course, after, progress)
        near = self._close_to(course, place, progress) if place is not None else None
        if near is None or place is None:
            return None
        near.pcs = near.pcs or self._listed(course, near, progress)
        first = place + 1 - near.at
        found = next((at for at in range(first, len(near.pcs)) if near.pcs[at] in line), None)
        return None if found is None else self.moment(course, near.at + found, progress)

    def _last_other(
        self, course: Course, last: int, now: Moment, others: _Others, progress: Progress | None
    ) -> int | None:
        """The place of the last instruction of OTHERS in front of NOW, which is at LAST."""
        worker = self.brought_to(course, now, progress)
        if worker is None:
            return None
        wanted = others.executed(worker)
        worker.drop()
        marks = [mark for mark in course.alive() if mark.at < last]
        at = bisect.bisect_left(marks, True, key=lambda mark: others.executed(mark.copy) >= wanted)
        low, high = marks[at - 1] if at else None, marks[at].at if at < len(marks) else last
        while high - (low.at if low else 0) > STEPS:
            middle = (high + (low.at if low else 0)) // 2
            self.leave_at(course, low, [middle], progress)
            made = course.last(middle)
            if made is None or made is low:
                return None
            if others.executed(made.copy) < wanted:
                low = made
            else:
                high = made.at
        if low is None:
            low = self._close_to(course, 0, progress)
        if low is None:
            return None
        low.pcs = low.pcs or self._listed(course, low, progress)
        found = [at for at, pc in enumerate(low.pcs) if pc in others and low.at + at < last]
        return low.at + found[-1] if found else None

    def times(self, course: Course, pc: int, progress: Progress | None) -> int:
        """How often the whole segment executes PC."""
        if pc not in course.times:
            course.times |= self.all_times(course, [pc], progress)
        return course.times[pc]

    def all_times(self, course: Course, pcs: Sequence[int], progress: Progress | None) -> dict[int, int]:
        times: dict[int, int] = {}
        marks = course.alive()
        for at in range(0, len(pcs), lib.GR_WATCHES):
            some = pcs[at : at + lib.GR_WATCHES]
            worker, _ = self.woken(course, marks[-1] if marks else None, progress)
            try:
                points = [Armed(pc, 1, lib.GR_POINT_EXEC, course.tick, _NEVER) for pc in some]
                worker.begin(course.tick + 1, points, counted=True)
                worker.finish(progress, "going through a segment")
                times |= zip(some, worker.slot.executed, strict=True)
            finally:
                worker.drop()
        return times

    def at_end(self, course: Course, progress: Progress | None) -> Worker:
        """Where the segment ends, at the operation that it leads to."""
        marks = course.alive()
        with self._from(course, marks[-1] if marks else None, progress) as (worker, _):
            worker.begin(course.tick + 1, counted=True)
            worker.finish(progress, "going through a segment")
            return worker

    def last_steps(self, course: Course, progress: Progress | None) -> tuple[Sequence[int], int]:
        """The last instructions of the segment, and the place of the first of them."""
        assert course.length is not None
        self.moment(course, course.length - 1, progress)
        mark = course.last(course.length - 1)
        return (mark.pcs, mark.at) if mark else ((), 0)

    def _close_to(self, course: Course, place: int, progress: Progress | None) -> Mark | None:
        """A mark at most STEPS in front of PLACE, which is left on the way if there is none."""
        mark = course.last(place)
        if mark is not None and place - mark.at < STEPS:
            return mark
        first = mark.at if mark else 0
        self.leave_at(course, mark, [goal for far in _NEAR if (goal := place - far) > first] or [first], progress)
        return course.last(place)

    def leave_at(self, course: Course, mark: Mark | None, goals: Sequence[int], progress: Progress | None) -> None:
        """Leave copies at these places, which rise, or a few instructions in front of them, on a way from MARK."""
        with self._from(course, mark, progress) as (worker, mark):
            at = mark.at if mark else 0
            for goal in goals:
                if goal < at:
                    continue
                worker.begin(course.tick + 1, counted=True, instructions=goal - at)
                state = worker.finish(progress, "stepping back")
                if not worker.slot.counted or state != lib.GR_S_TRAPPED:
                    break
                at = worker.slot.instructions
                leave(worker, course, self._checkpoints.keep_inside)
            worker.drop()

    def stands(self, course: Course, mark: Mark) -> Moment:
        """The moment that a mark stands at."""
        if mark.at not in course.moments:
            pc = self.pc(mark.copy, course.tick)
            course.learn(Moment(course.tick, pc, mark.executed([pc])[pc] + 1), mark.at)
        return course.moments[mark.at]
