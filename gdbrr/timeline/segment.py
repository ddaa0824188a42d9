"""Inside one segment: which instructions it executed, and which of them a thread stands at.

Runs in: the server and scripts. May call: errors, ctl, launch.
Owns: the cache of traces, so that stepping back again and again replays a segment once.
"""

from __future__ import annotations

import contextlib
import os
import time
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gdbrr.abi import lib
from gdbrr.ctl import threads
from gdbrr.ctl.control import Armed, Match, PointHit
from gdbrr.errors import GdbrrError
from gdbrr.timeline.checkpoints import Checkpoints
from gdbrr.timeline.course import LONGEST_BLOCK, Course, Courses
from gdbrr.timeline.model import Moment, Progress
from gdbrr.timeline.order import Order
from gdbrr.timeline.state import passes, stops
from gdbrr.timeline.step.back import StepBack
from gdbrr.timeline.step.inside import Inside
from gdbrr.timeline.worker import Worker

_TRACES = 8
_FIRST = 2000
"""Instructions of a segment that are stepped through at once; all of a longer one only if nothing else tells what was
in front of a moment, or it was asked for so often that this would have been cheaper."""
_OFTEN = 1.0
"""Seconds spent on finding single instructions of one segment, by then."""
_PREFIXES = {0x66, 0x67, 0xF2, 0xF3, *range(0x40, 0x50)}
_STRING = {*range(0xA4, 0xA8), *range(0xAA, 0xB0), *range(0x6C, 0x70)}


@dataclass(frozen=True)
class Trace:
    """The pc of every instruction that a segment executed, in order; of a repeated string instruction, once."""

    tick: int
    pcs: array[int]
    repeated: frozenset[int]
    """Which of them are repeated string instructions."""
    call: int
    """Where its thread is shown at the operation that the segment leads to: at the instruction that called it."""

    def moment(self, place: int) -> Moment:
        """In front of the instruction at PLACE; in front of the first one there is the operation."""
        if place < 0:
            return Moment(self.tick)
        pc = self.pcs[place]
        return Moment(self.tick, pc, self.pcs[: place + 1].count(pc))

    def place(self, moment: Moment) -> int | None:
        """Where the instruction of MOMENT stands, None if it was not executed so often."""
        place = -1
        for _ in range(moment.nth):
            try:
                place = self.pcs.index(moment.pc or 0, place + 1)
            except ValueError:
                return None
        return place

    def behind(self) -> int:
        """The place of the last instruction that is in front of the operation as it is shown, -1 if none is.

        What the call itself executed, on its way through the linkage table or the loader, is part of the operation.
        """
        for place in range(len(self.pcs) - 1, -1, -1):
            if self.pcs[place] == self.call:
                return place - 1
        return len(self.pcs) - 1

    def in_front_of(self, pc: int) -> list[int]:
        """The pcs of all instructions that were executed right before one at PC, or last if none is there."""
        found = {before for before, here in pairwise(self.pcs) if here == pc}
        if pc in self.repeated:
            found.add(pc)  # it went on with itself
        return sorted(found or self.pcs[-1:])


class Segments:
    """Answers about single segments."""

    def __init__(self, checkpoints: Checkpoints, order: Order, born: int) -> None:
        """BORN is how many threads the run has."""
        self._checkpoints = checkpoints
        self._order = order
        self._born = born
        self._steps = StepBack(checkpoints, order, born)
        self.inside = Inside(checkpoints, order, self._stepped)
        self.courses = Courses(checkpoints, order, born)
        self._traces: OrderedDict[int, Trace] = OrderedDict()
        self._longer: dict[int, int] = {}
        """Segments known to have more instructions than so many."""
        self._beginnings: OrderedDict[int, Trace] = OrderedDict()
        """What those executed first."""
        self._spent: dict[int, float] = {}
        """Seconds, by tick, on instructions of those."""
        self.doubtful = False
        """The newest answer of `locate` may be another pass of a loop."""

    def locate(
        self,
        tick: int,
        thread: int,
        at: Match,
        progress: Progress | None,
        like: int | None = None,
        since: Moment | None = None,
    ) -> Moment:
        """The moment of the segment at which its thread has these registers: the first one, or the first of those at
        which memory is as in the process LIKE, which went on from SINCE. `doubtful` tells whether several are possible.
        """
        if tick < self._order.ticks and self._order.thread_of(tick) != thread:
            raise GdbrrError(f"tick {tick} is not one of thread {thread}", "select the thread that stopped")
        pc = at.regs["rip"]

        patience = passes.Patience(like, thread, self._born, progress)

        course = self.course(tick, progress)
        counted = [course is not None or tick not in self._checkpoints.uncounted]
        begun = since if course and since and since.tick == tick and since.pc is not None else None
        place = self.courses.place(course, begun, progress) if course and begun else None
        mark = course.last(place) if course and place else None

        most, begin = None, mark.at if mark else 0
        if course and like is not None:
            most = (place or 0) - begin + patience.instructions

        def run(armed: Armed) -> Worker | None:
            if course and armed.stop_at > 1 and self.courses.times(course, pc, progress) <= first[0]:
                return None
            worker, _ = self.courses.woken(course, mark, progress) if course else (None, None)
            worker = worker or self._checkpoints.worker_at(tick, progress)
            with contextlib.suppress(passes.NoOther):
                if worker.stops_in(tick, self._order.ticks, [armed], at, patience.over(worker), counted[0], most):
                    if most is not None and worker.slot.instructions > begin + most - LONGEST_BLOCK:
                        worker.drop()  # as far as it can have come
                        return None
                    patience.found(worker)
                    first.append(worker.slot.hits()[-1].nth)
                    return worker
            if counted[0] and not worker.counted:
                counted[0] = False
                return run(armed)
            return None

        first: list[int] = []
        found = passes.find(run, pc, tick, like, self._born)
        if found is None:
            raise stops.NotFound(
                f"no moment of tick {tick} has pc {pc:#x} and these registers", "go to a moment with rr-goto first"
            )
        nth, certain = found
        self.doubtful = not certain
        return Moment(tick, pc, nth)

    def stopped_at(self, thread: int, at: Match, progress: Progress | None, like: int | None) -> stops.Stopped:
        """Where the process LIKE stands in the segment that was under way when the recording ended, as nearly as its
        replay comes there; raises stops.NotFound where it does not."""
        tick, pc, code = self._order.ticks, at.regs["rip"], stops.code_at(like, at.regs["rip"])
        known = [name for name in stops.KNOWN if name in at.regs]
        whole = len(known) == len(stops.KNOWN)
        repeated = stops.in_turns_of(code, at.regs) if whole and is_repeated(code) else None
        if repeated is None and whole:
            with contextlib.suppress(stops.NotFound):
                return stops.Stopped(self.locate(tick, thread, at, progress, like), doubtful=self.doubtful)
        exact = repeated if whole else stops.with_registers(at.regs, known)
        ways = [exact] if exact is not None else []
        ways += [stops.with_registers(at.regs, names) for names in stops.NEAR if {*names} <= {*known}]
        patience = passes.Patience(like, thread, self._born, progress)
        for condition in ways:
            run = stops.passing(
                lambda: self._checkpoints.worker_at(tick, progress), self._order.ticks, condition, patience
            )
            if found := passes.find(run, pc, tick, like, self._born):
                moment = Moment(tick, pc, found[0])
                regs = self._registers_at(moment, thread, progress)
                others = tuple(name for name, value in at.regs.items() if name in stops.KNOWN and regs[name] != value)
                if condition is exact:
                    self.doubtful = not found[1]
                    return stops.Stopped(moment, inside=bool(others), doubtful=not found[1])
                self.doubtful = True
                return stops.Stopped(moment, differs=others, doubtful=True)
        raise stops.NotFound(f"no moment of tick {tick} has pc {pc:#x}", "go to a moment with rr-goto first")

    def _registers_at(self, moment: Moment, thread: int, progress: Progress | None) -> dict[str, int]:
        worker = self.brought_to(moment, progress)
        try:
            return next(each.regs for each in threads.read(worker.pid, self._born) if each.index == thread)
        finally:
            worker.drop()

    def previous(self, moment: Moment, progress: Progress | None) -> Moment | None:
        """One instruction, or one operation, earlier in the same thread."""
        if moment.pc is None:
            return self._before_operation(moment.tick, progress)
        trace = self.short_trace(moment.tick, _FIRST, progress) or self._beginning(moment)
        if (
            trace is None
            and (course := self.course(moment.tick, progress))
            and (before := self._counted_before(course, moment, progress))
        ):
            return before
        if trace is None and (before := self.inside.previous(moment, progress)):
            return before
        trace = trace or self._affordable(moment.tick, progress)
        if trace is None:
            with self._spending(moment.tick):
                before = self._steps.before(moment, progress)
            if before is not None:
                return before
            trace = self.trace(moment.tick, progress)
        place = trace.place(moment)
        if place is None:
            return self._entered_from(moment, progress)
        return trace.moment(place - 1) if place else self._at_the_beginning(moment.tick)

    def course(self, tick: int, progress: Progress | None) -> Course | None:
        """The course of a segment that is not short; None if it cannot be counted. The last one may have no end, so
        nobody goes through it."""
        if tick >= self._order.ticks:
            return None
        if self.courses.known(tick) is None and self.short_trace(tick, _FIRST, progress) is not None:
            return None
        return self.courses.of(tick, progress)

    def _counted_before(self, course: Course, moment: Moment, progress: Progress | None) -> Moment | None:
        """None where counting does not tell."""
        place = self.courses.place(course, moment, progress)
        if not place:
            return None if place is None else self._at_the_beginning(course.tick)
        return self.courses.moment(course, place - 1, progress)

    def behind_others(
        self,
        now: Moment,
        line: range,
        function: range | None,
        ask: Callable[[], Moment | None],
        progress: Progress | None,
    ) -> tuple[Moment, int] | None:
        """The first moment since which nothing but LINE was executed up to NOW, of FUNCTION or of all there is, or that
        is in LINE behind what ASK answers; and the stack pointer there. None where that is not known."""
        course = self.courses.known(now.tick)
        found = self.courses.behind_others(course, now, line, function, progress) if course and now.pc else None
        if found is None or course is None:
            return None
        hit = ask()
        places = self.places(now.tick, [found, hit], progress) if hit and hit.tick == now.tick else [0, -1]
        if hit and places[1] >= places[0]:
            found = self.courses.next_in(course, hit, line, progress)
        if found is None:
            return None
        return found, self._registers_at(found, self._order.thread_of(now.tick), progress)["rsp"]

    def _at_the_beginning(self, tick: int) -> Moment | None:
        """In front of the first instruction of a segment."""
        if tick < self._order.ticks:
            return Moment(tick)
        last = self._order.last_of(self._order.final_thread)
        return None if last is None else Moment(last)

    def _entered_from(self, moment: Moment, progress: Progress | None) -> Moment:
        """The one before a moment that no trace has: a function of the engine that is there in place of a library's is
        entered by the program, but not stepped through."""
        before = self._steps.before(moment, progress)
        if before is None:
            raise GdbrrError(f"the moment {moment} does not exist", "see rr-when for the form of a moment")
        return before

    def _affordable(self, tick: int, progress: Progress | None) -> Trace | None:
        return self.short_trace(tick, None if self._spent.get(tick, 0.0) > _OFTEN else _FIRST, progress)

    @contextlib.contextmanager
    def _spending(self, tick: int) -> Iterator[None]:
        began = time.monotonic()
        yield
        self._spent[tick] = self._spent.get(tick, 0.0) + time.monotonic() - began

    def _beginning(self, moment: Moment) -> Trace | None:
        """What the segment of MOMENT executed first, if that reaches as far."""
        trace = self._beginnings.get(moment.tick)
        return trace if trace is not None and trace.place(moment) is not None else None

    def _before_operation(self, tick: int, progress: Progress | None) -> Moment | None:
        """In front of the last instruction that the thread of TICK executed before it called that operation.

        INVARIANT(one-call-one-step): operations with no instruction between them, as the start and the end of a system
        call, are shown at the same place and are one step, backwards as forwards. At the end, too, a thread is shown at
        the call of its last operation, which it has not left.
        """
        thread = self._order.thread_of(tick)
        before = self._order.before(thread, tick)
        if before is not None and tick == self._order.ticks:
            before = self._order.before(thread, before)
        while before is not None:
            trace, found = self._affordable(before, progress), None
            if trace is None and (course := self.course(before, progress)):
                found = self._last_of(course, progress)
            if trace is None and found is None:
                with self._spending(before):
                    found = self._steps.before_operation(before, progress)
            if found is not None:
                return found
            trace = trace or self.trace(before, progress)
            if trace.pcs:
                return trace.moment(trace.behind())
            before = self._order.before(thread, before)
        return None

    def _last_of(self, course: Course, progress: Progress | None) -> Moment | None:
        """In front of the last instruction that is in front of the operation as it is shown."""
        worker = self.courses.at_end(course, progress)
        try:
            call = self._call(worker, course.tick)
        finally:
            worker.drop()
        pcs, first = self.courses.last_steps(course, progress)
        at = next((at for at in range(len(pcs) - 1, -1, -1) if pcs[at] == call), len(pcs))
        return self.courses.moment(course, first + at - 1, progress)

    def brought_to(self, moment: Moment, progress: Progress | None) -> Worker:
        if moment.pc is None:
            return self._checkpoints.worker_at(moment.tick, progress)
        if course := self.courses.known(moment.tick):
            worker = self.courses.brought_to(course, moment, progress)
        else:
            worker = self.inside.brought_to(moment, progress)
        if worker is None:
            raise GdbrrError(f"the moment {moment} does not exist", "see rr-when for the form of a moment")
        return worker

    def behind_operation(self, tick: int, progress: Progress | None) -> Worker:
        """In front of the first instruction behind an operation, or at the next one if there is none."""
        worker = self._checkpoints.worker_at(tick, progress)
        try:
            self._step(worker, tick, 1, progress)
        except BaseException:
            worker.drop()
            raise
        return worker

    def places(self, tick: int, moments: Sequence[Moment], progress: Progress | None) -> list[int]:
        """For each moment of one tick a number that says where it stands among the others."""
        if course := self.courses.known(tick):
            found_there = [self.courses.place(course, moment, progress) for moment in moments]
            if None not in found_there:
                return [place for place in found_there if place is not None]
        inside = [moment for moment in moments if moment.pc is not None]
        found: dict[Moment, int] = {}
        if len({moment.pc for moment in inside}) > 1:
            found = self._by_replay(tick, inside, progress)
        return [-1 if moment.pc is None else found.get(moment, moment.nth) for moment in moments]

    def _by_replay(self, tick: int, moments: Sequence[Moment], progress: Progress | None) -> dict[Moment, int]:
        trace = self.short_trace(tick, None, progress)
        if trace:
            counts: dict[int, int] = {}
            found = {}
            for place, pc in enumerate(trace.pcs):
                counts[pc] = counts.get(pc, 0) + 1
                found[Moment(tick, pc, counts[pc])] = 2 * place
            for moment in moments:
                if moment not in found:
                    found[moment] = found.get(self._entered_from(moment, progress), -2) + 1
        else:
            found = self._executions(tick, sorted({moment.pc or 0 for moment in moments}), progress)
        for moment in moments:
            if moment not in found:
                raise GdbrrError(f"the moment {moment} does not exist", "see rr-when for the form of a moment")
        return found

    def _executions(self, tick: int, pcs: Sequence[int], progress: Progress | None) -> dict[Moment, int]:
        """Where each execution of these addresses stands among all of them; for segments too long to step through."""
        if len(pcs) > lib.GR_WATCHES:
            raise GdbrrError(
                f"the segment of tick {tick} is too long for moments at {len(pcs)} addresses to be put in order",
                "raise limits.trace in the profile",
            )
        worker = self._checkpoints.worker_at(tick, progress)
        try:
            worker.slot.flag(lib.GR_SLOT_KEEP_HITS)
            log: list[PointHit] = []
            worker.begin_segment(tick, self._order.ticks, [Armed(pc, 1, lib.GR_POINT_EXEC, tick) for pc in pcs])
            worker.finish(progress, "putting in order", tick + 1, log)
            return {Moment(hit.tick, hit.pc, hit.nth): place for place, hit in enumerate(log)}
        finally:
            worker.drop()

    def trace(self, tick: int, progress: Progress | None) -> Trace:
        """What the segment of TICK executed."""
        found = self.short_trace(tick, None, progress)
        if found is None:
            limit = self._limit()
            raise GdbrrError(
                f"the segment of tick {tick} has more than {limit} instructions, too many to step through",
                "use reverse-continue with a breakpoint, or raise limits.trace in the profile",
            )
        return found

    def short_trace(self, tick: int, at_most: int | None, progress: Progress | None) -> Trace | None:
        """The same, or None if there are more than AT_MOST (default: trace_limit) instructions."""
        if tick in self._traces:
            self._traces.move_to_end(tick)
            return self._traces[tick]
        limit = self._limit()
        most = min(limit, at_most or limit)
        if most <= self._longer.get(tick, 0):
            return None
        worker = self._checkpoints.worker_at(tick, progress)
        try:
            ended, pcs, whole = self._step(worker, tick, most, progress)
            if not ended or not whole:
                self._longer[tick] = most
                if whole:
                    self._beginnings[tick] = _collapsed(worker, tick, pcs, 0)
                    if len(self._beginnings) > _TRACES:
                        self._beginnings.popitem(last=False)
                return None
            trace = self._traces[tick] = _collapsed(worker, tick, pcs, self._call(worker, tick))
        finally:
            worker.drop()
        if len(self._traces) > _TRACES:
            self._traces.popitem(last=False)
        return trace

    def _step(self, worker: Worker, tick: int, most: int, progress: Progress | None) -> tuple[bool, list[int], bool]:
        """At most so many single steps; whether that was all of the segment, what was executed, and whether that is
        known from the first step on."""
        with worker.control.trace_limited(most):  # one trace is made at a time
            worker.slot.flag(lib.GR_SLOT_TRACE)
            state = worker.run_segment(tick, self._order.ticks, progress=_stepping(progress, worker, most))
            return (state != lib.GR_S_TRAPPED, *worker.control.trace(worker.slot))

    def _stepped(self, worker: Worker, at: Moment, progress: Progress | None) -> Sequence[int]:
        """What WORKER, which stands at AT, executes next."""
        _, pcs, whole = self._step(worker, at.tick, min(_FIRST, self._limit()), progress)
        return _collapsed(worker, at.tick, [at.pc or 0, *pcs], 0).pcs if whole else []

    def _call(self, worker: Worker, tick: int) -> int:
        owner = self._order.thread_of(tick)
        shown = (thread.regs["rip"] for thread in threads.read(worker.pid, self._born) if thread.index == owner)
        return next(shown, 0)

    def _limit(self) -> int:
        return self._checkpoints.knob("trace_limit")


def _stepping(progress: Progress | None, worker: Worker, most: int) -> Progress | None:
    """How far a trace is on its way to its limit; the ticks tell nothing."""
    if progress is None:
        return None

    def look(what: str, fraction: float) -> None:
        progress("stepping through a segment", min(1.0, worker.slot.traced / most))

    return look


def _collapsed(worker: Worker, tick: int, pcs: Sequence[int], call: int) -> Trace:
    """A single step stops at each turn of a repeated string instruction; as a moment it is one execution."""
    twice = {pc for pc, after in pairwise(pcs) if pc == after}
    with open(f"/proc/{worker.pid}/mem", "rb", buffering=0) as memory:
        repeated = frozenset(pc for pc in twice if is_repeated(os.pread(memory.fileno(), 15, pc)))
    kept = array("Q")
    for pc in pcs:
        if not (kept and kept[-1] == pc and pc in repeated):
            kept.append(pc)
    return Trace(tick, kept, repeated, call)


def is_repeated(code: bytes) -> bool:
    for place, byte in enumerate(code):
        if byte not in _PREFIXES:
            return byte in _STRING and bool({0xF2, 0xF3} & set(code[:place]))
    return False
