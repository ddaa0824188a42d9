"""The skeleton, which runs ahead once, and the checkpoints it leaves behind at the starts of epochs.

Runs in: the server and scripts; the skeleton is driven by a thread of its own. May call: errors, demo, ctl, launch.
Owns: which checkpoints exist. INVARIANT(one-at-the-list): whoever looks at them or changes them holds the lock; the
thread alone commands the skeleton, and nobody but who opened the timeline wakes anything else.
"""

from __future__ import annotations

import bisect
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from gdbrr.abi import lib
from gdbrr.ctl.changes import Changes, has_all, unwritten_pages
from gdbrr.ctl.control import FOREVER, Soft
from gdbrr.demo.reader import Demo
from gdbrr.errors import GdbrrError
from gdbrr.launch import replay as replays
from gdbrr.launch.watchdog import Watchdog
from gdbrr.timeline.course import Course, Uncounted, go_through
from gdbrr.timeline.model import Interrupted, Moment, Progress
from gdbrr.timeline.state.states import States, verify
from gdbrr.timeline.step.near import Near, least_needed
from gdbrr.timeline.tracer import NoProcess, start_thread
from gdbrr.timeline.worker import Checkpoint, Desynchronised, Worker, late

_Answer = TypeVar("_Answer")
_SPACING = 20
"""How many times longer the replay between two checkpoints takes than making one, once they had to be thinned out."""
_SPARE = 8
"""Checkpoints beyond the limit while none may go."""
_COSTLY = 0.02
"""Seconds from a checkpoint to a place, after which that gets one, too."""
_ON_THE_WAY = (8, 64)
"""Parts of such a way in front of its end at which others are left: steps back from there are short ways."""
_FEW = 256
"""Ticks of a way, below which none are."""
_TAKES_LONG = 0.15
"""Seconds in one segment, from which on copies are left in its middle."""
_COURSES = 32
_LOOK = 0.02
"""Seconds between two looks at Ctrl-C while the skeleton is waited for."""


class _Long(Exception):
    """A segment takes long."""

    def __init__(self, tick: int) -> None:
        self.tick = tick


class _Watch:
    """Looks at a run whose segments may take long."""

    def __init__(self, worker: Worker, checkpoints: Checkpoints, progress: Progress | None) -> None:
        self._worker = worker
        self._checkpoints = checkpoints
        self._progress = progress
        self._tick, self._since = -1, 0.0

    def look(self, what: str, fraction: float) -> None:
        if self._progress:
            self._progress(what, fraction)
        tick, now = self._worker.slot.tick, time.monotonic()
        if tick != self._tick:
            self._tick, self._since = tick, now
        elif now - self._since > _TAKES_LONG and tick and not self._is_known(tick - 1):
            raise _Long(tick - 1)

    def _is_known(self, tick: int) -> bool:
        return tick in self._checkpoints.courses or tick in self._checkpoints.uncounted


class Checkpoints:
    """INVARIANT(first-checkpoint): there is always a checkpoint at tick 0; it is never thinned out."""

    grows = False
    """Behind the first one, starts are told by and by."""

    def __init__(
        self, demo: Demo, replay: replays.Replay, final_thread: int, ahead: bool = True, check: bool = False
    ) -> None:
        """AHEAD: the skeleton runs on by itself; otherwise as far as it is asked for. CHECK: states are compared."""
        self._replay = replay
        self._final_thread = final_thread
        self._most = max(2, replay.profile.knobs()["checkpoints"])
        self._most_memory = replay.profile.knobs()["checkpoint_memory"]
        self._starts = [0] if self.grows else [epoch.start for epoch in demo.epochs] or [0]
        self._next = 0
        self._kept: list[Checkpoint] = []
        self._near = Near()
        self.courses: dict[int, Course] = {}
        """Of segments that were gone through, or are, by tick."""
        self.uncounted: set[int] = set()
        """Segments that cannot be."""
        self._pinned, self._thinned = 0, False
        self._left, self._cost = time.monotonic(), 0.0  # when the newest was made, seconds that it took
        self._changes = Changes()
        self._frozen_at: int | None = None  # where the skeleton left its newest copy, if nothing went wrong
        self._lock = threading.Condition(threading.RLock())  # notified when the thread has something to do, or has done
        self._ahead = ahead
        self._wanted = -1  # a tick that somebody waits for
        self._busy = 0  # searches and ways to a place that are under way: they have the processors to themselves
        self._closing = False
        self._failed: Exception | None = None  # why the skeleton went no farther
        self._lost = False
        self._soft: Soft | None = None  # of those lost
        self._skeleton = self._first = Worker(replay.control, replay.slot, demo)
        self.states = States(len(demo.threads), self._another) if check else None
        self._skeleton.states = self.states
        self._skeleton.finish()
        self._leave()
        self._kept[0].is_expendable(0)  # all others can be made again from it
        self._thread = threading.Thread(target=self._drive, name="gdbrr skeleton", daemon=True)
        if self.grows or self._next < len(self._starts):
            start_thread(self._thread)

    # ---------------------------------------------------------------- the skeleton
    def _drive(self) -> None:
        """Run from one start to the next as long as there are any."""
        try:
            while self._may_go_on():
                if (state := self._to_next()) is None:
                    continue
                with self._lock:
                    if state != lib.GR_S_STANDING:
                        self._next = len(self._starts)  # the program's end came first
                    else:
                        self._leave()
                    self._lock.notify_all()
        except Interrupted:
            pass
        except Exception as error:  # it is for those who wait
            with self._lock:
                self._failed = error
                if isinstance(error, Desynchronised):
                    self._skeleton.stop()  # it can go nowhere any more; the checkpoints that it left can
                self._lock.notify_all()

    def _to_next(self) -> int | None:
        """Run to the next start. INVARIANT(copies-go-first): where that takes more threads than there may be, it
        answers None: checkpoints go, and another skeleton goes on, at once or where somebody asks again."""
        try:
            if self._lost:
                with self._lock:
                    self._skeleton, self._lost = self.wake(self._kept[-1]), False
            self._skeleton, state = self._run(self._skeleton, self._starts[self._next], self._stop_if_closing)
            return state
        except NoProcess as error:
            with self._lock:
                self._soft, self._frozen_at, self._lost = self.soft, None, True
                self._skeleton.stop()
                self._failed = None if self.make_room(None) else error
                self._lock.notify_all()
            return None

    def _run(self, worker: Worker, tick: int, progress: Progress | None, what: str = "replaying") -> tuple[Worker, int]:
        """Run up to TICK. Where a segment takes long, its course is gone through instead, so that every moment of it is
        at hand; then another worker goes on."""
        goal = tick
        while True:
            watch = _Watch(worker, self, progress)
            worker.begin(goal)
            try:
                return worker, worker.finish(watch.look, what, goal)
            except _Long as long:
                (worker.stop if worker is self._skeleton else worker.drop)()
                with self._lock:
                    source = self._kept[bisect.bisect_right(self.ticks, long.tick) - 1]
                    worker = self.wake(self._near.best(source.tick, long.tick) or source)
                try:
                    if worker.slot.tick < long.tick:
                        worker.run(long.tick, progress=progress, what=what)
                    self.go_through(worker, long.tick, long.tick + 1, progress)
                except BaseException:
                    worker.drop()
                    raise

    def go_through(self, worker: Worker, tick: int, stop_tick: int, progress: Progress | None) -> None:
        """Go through the segment of TICK, in front of which WORKER stands."""
        course = Course(tick)
        with self._lock:
            self.courses[tick] = course
            while len(self.courses) > _COURSES:
                self.courses.pop(next(iter(self.courses))).drop()

        watchdog = Watchdog(worker.demo, worker.pid)

        def poll() -> None:
            if overdue := watchdog.look(worker.slot.tick, time.monotonic()):
                raise late(overdue)
            if progress:
                progress("going through a segment", 0.0)

        try:
            go_through(worker, course, stop_tick, self.keep_inside, poll)
        except Uncounted:
            self.uncounted.add(tick)
        finally:
            if course.length is None:
                self.courses.pop(tick, None)
                course.drop()

    def is_going_through(self, tick: int, progress: Progress | None) -> bool:
        """Whether the skeleton goes through that segment just now; waits for a moment."""
        with self._lock:
            course = self.courses.get(tick)
            if course is None or course.length is not None:
                return False
            self._lock.wait(_LOOK)
        if progress:
            progress("going through a segment", 0.0)
        return True

    def keep_inside(self, made: Checkpoint) -> None:
        with self._lock:
            self._near.keep_inside(made)

    def _may_go_on(self) -> bool:
        with self._lock:
            while not self._closing and (self.grows or self._next < len(self._starts)):
                more = self._next < len(self._starts) and not self._failed
                if more and (self._starts[self._next] <= self._wanted or (self._ahead and not self._busy)):
                    return True
                self._lock.wait()
            return False

    def _stop_if_closing(self, what: str, fraction: float) -> None:
        if self._closing:
            raise Interrupted("the timeline is closed")

    def reach(self, tick: int, progress: Progress | None = None) -> None:
        """Wait until the skeleton has left all checkpoints in front of TICK."""
        with self._lock:
            first = self._skeleton.slot.tick
            try:
                while self._next < len(self._starts) and self._starts[self._next] <= tick:
                    if failed := self._failed:
                        self._failed = None if isinstance(failed, NoProcess) else failed
                        raise failed
                    self._wanted = tick
                    self._lock.notify_all()
                    self._lock.wait(_LOOK)
                    self._look_at_time()
                    if progress:
                        progress("replaying", min(1.0, max(0, self._skeleton.slot.tick - first) / max(1, tick - first)))
            finally:
                self._wanted = -1
            if isinstance(self._failed, Desynchronised) and tick > self._failed.tick:
                raise self._failed

    def _look_at_time(self) -> None:
        """Raise an error where the skeleton does not: it may have no demo of its own to be measured by."""

    @contextlib.contextmanager
    def _working(self) -> Iterator[None]:
        """INVARIANT(search-alone): meanwhile the skeleton begins no epoch but those that somebody waits for."""
        with self._lock:
            self._busy += 1
        try:
            yield
        finally:
            with self._lock:
                self._busy -= 1
                self._lock.notify_all()

    # ---------------------------------------------------------------- which there are
    def _leave(self) -> None:
        """Freeze the skeleton where it stands, unless the newest was made a moment ago and there are many."""
        self._next += 1
        began = time.monotonic()
        if self._thinned and began - self._left < _SPACING * self._cost:
            return
        if self._pinned and len(self._kept) >= self._most + _SPARE:
            return  # a search that runs ahead of everybody: what it goes back over is replayed from farther away
        tick, since, self._frozen_at = self._skeleton.slot.tick, self._frozen_at, None
        unwritten = unwritten_pages(self._skeleton.pid, self._skeleton.slot)
        try:
            self._keep(self._skeleton.freeze())
            self._frozen_at = tick
            if since is not None and unwritten is not None:
                self._changes.add(since, tick, unwritten)
        except NoProcess:
            if not self._kept or not self.make_room(self._kept[0]):
                raise
        self._left = time.monotonic()
        self._cost = self._left - began

    def _keep(self, made: Checkpoint) -> None:
        made.keeper = self
        at = bisect.bisect_left(self.ticks, made.tick)
        self._kept.insert(at, made)
        for before in self._kept[max(0, at - 1) : at]:  # by now it holds what has changed since
            before.held = before.private()
        self._thin()

    def _thin(self) -> None:
        if self._pinned:
            return
        self._near.thin(self._most_memory - sum(kept.held for kept in self._kept))
        while len(self._kept) > self._most or (
            len(self._kept) > 2 and sum(kept.held for kept in self._kept) > self._most_memory
        ):
            self._thinned = True
            self._end_one(None)

    def _end_one(self, needed: Checkpoint | None) -> bool:
        """End the one that leaves the smallest gap, for its age: spacing grows with the distance from the newest."""
        at = least_needed(self.ticks, self._most, needed.tick if needed else None)
        if at is None:
            return False
        self._kept.pop(at).drop()
        return True

    def make_room(self, needed: Checkpoint | None) -> bool:
        """Every second one goes; from now on there are at most as many as are left."""
        with self._lock:
            if self._pinned:
                return False
            if self._near.end(needed):
                return True
            goal = max(2, len(self._kept) // 2)
            if len(self._kept) <= goal:
                return False
            while len(self._kept) > goal and self._end_one(needed):
                pass
            self._most, self._thinned = goal, True
            return True

    def again(self, lost: Checkpoint) -> Checkpoint:
        with self._lock:
            at = bisect.bisect_left(self.ticks, lost.tick)
            if not at:
                what = "the first checkpoint of the replay was ended from outside"
                raise GdbrrError(what, "free some memory and open the demo again")
            worker = self._kept[at - 1].wake(self._final_thread)
        try:
            worker.run(lost.tick)
            return worker.freeze()
        finally:
            worker.drop()

    @contextlib.contextmanager
    def pinned(self) -> Iterator[None]:
        """None goes meanwhile."""
        with self._working():
            with self._lock:
                self._pinned += 1
            try:
                yield
            finally:
                with self._lock:
                    self._pinned -= 1
                    self._thin()

    def _another(self, tick: int) -> Worker:
        """One more process in front of TICK, which nobody compares."""
        with self._lock:
            source = self._kept[bisect.bisect_right(self.ticks, tick) - 1]
            worker = self.wake(source)
        worker.states = None
        return self._brought(worker, tick, lambda: worker.run(tick))

    def _brought(self, worker: Worker, tick: int, bring: Callable[[], object]) -> Worker:
        """WORKER at TICK, to which BRING brings it; it ends where that fails."""
        try:
            if worker.slot.tick < tick:
                bring()
        except BaseException:
            worker.drop()
            raise
        return worker

    def verify(self, end: int, at_once: int, progress: Progress | None) -> int:
        """Run every stretch up to END again, from its checkpoint; tells how many states were compared."""
        assert self.states
        before = self.states.compared
        with self.pinned():
            self.reach(end, progress)
            with self._lock:
                kept = list(self._kept)
            verify(self.states, kept, end, self._final_thread, at_once, progress)
        return self.states.compared - before

    @property
    def soft(self) -> Soft | None:
        """Output that differed while the skeleton ran."""
        return self._soft or self._skeleton.slot.soft

    def knob(self, name: str) -> int:
        """What the profile of the recording says."""
        return self._replay.profile.knobs()[name]

    def nearest(self, tick: int, progress: Progress | None = None) -> Checkpoint:
        """The last checkpoint that stands at TICK or in front of it."""
        with self._lock:
            self.reach(tick, progress)
            found = self._kept[bisect.bisect_right(self.ticks, tick) - 1]
            return self._near.best(found.tick, tick) or found

    def wake(self, checkpoint: Checkpoint) -> Worker:
        return checkpoint.wake(self._final_thread)

    def worker_at(self, tick: int, progress: Progress | None = None) -> Worker:
        """A worker that stands in front of TICK."""
        with self._working():
            return self.with_room(lambda: self._come_to(tick, progress))

    def with_room(self, ask: Callable[[], _Answer]) -> _Answer:
        """What ASK answers. Where it needs more processes or threads than there may be, checkpoints go."""
        while True:
            try:
                return ask()
            except NoProcess:
                if not self.make_room(None):
                    raise

    def _come_to(self, tick: int, progress: Progress | None) -> Worker:
        with self._lock:
            nearest = self.nearest(tick, progress)
            course = self._course_between(nearest.tick, tick)
            worker = self.wake(course.marks[-1].copy if course else nearest)
        try:
            if course:
                worker.run_counted(course.tick + 1, (), FOREVER, lambda: None)
                self._leave_near(worker, course.tick + 1)
            return self._go_on(worker, tick, progress) if worker.slot.tick < tick else worker
        except BaseException:
            worker.drop()
            raise

    def _course_between(self, start: int, tick: int) -> Course | None:
        """The last segment that takes long, on the way from START to TICK: its end is near."""
        for at in sorted(self.courses, reverse=True):
            course = self.courses[at]
            if start <= at < tick and course.length is not None:
                course.forget_dead()
                if course.alive():
                    return course
        return None

    def _go_on(self, worker: Worker, tick: int, progress: Progress | None) -> Worker:
        """INVARIANT(again-is-near): who was at a place comes there, and a little in front of it, by a short way."""
        began, way = time.monotonic(), tick - worker.slot.tick
        stops = [tick - way // part for part in _ON_THE_WAY if way > _FEW]
        for stop in (*stops, tick):
            worker, state = self._run(worker, stop, progress, "going there")
            if state != lib.GR_S_STANDING:
                break
            if time.monotonic() - began > _COSTLY:
                self._leave_near(worker, stop)
        return worker

    def _leave_near(self, worker: Worker, tick: int) -> None:
        with self._lock, contextlib.suppress(NoProcess):
            if self._near.wants(tick) and tick not in self.ticks:
                made = worker.freeze()
                made.keeper = self
                self._near.keep(made)
                self._thin()

    def between(self, source: Checkpoint, tick: int) -> Checkpoint | None:
        """One more checkpoint, at TICK behind SOURCE; None where there are too many."""
        with self._lock, contextlib.suppress(NoProcess):
            if len(self._kept) >= self._most + 2 * _SPARE or tick in self.ticks:
                return None
            worker = self.wake(source)
            try:
                if worker.run(tick) == lib.GR_S_STANDING:
                    made = worker.freeze()
                    self._keep(made)
                    return made
            finally:
                worker.drop()
        return None

    def spans(self, before: Moment, progress: Progress | None = None, floor: int = 0) -> list[tuple[Checkpoint, int]]:
        """(checkpoint, tick where the next one takes over), the nearest in front of BEFORE first; from FLOOR on, in
        front of which there is a segment that takes long."""
        if floor:
            self.worker_at(floor, progress).drop()  # that leaves a copy there
        # A checkpoint in front of BEFORE's own segment begins the span that ends in it.
        last = before.tick if before.pc is not None else before.tick - 1
        with self._lock:
            self.reach(before.tick, progress)
            kept = [checkpoint for checkpoint in self._kept if checkpoint.tick <= last]
            # Others in the newest span only: what was not written to is known between the starts of epochs.
            newest = kept[-1].tick if kept else last
            kept += self._near.between(newest if floor <= newest else floor - 1, last)
            kept.sort(key=lambda checkpoint: checkpoint.tick)
        ends = [checkpoint.tick for checkpoint in kept[1:]] + [before.tick]
        spans = list(zip(kept, ends, strict=False))[::-1]
        return [span for span in spans if not floor or span[1] > floor]  # none where BEFORE is the beginning of time

    def untouched(self, span: tuple[Checkpoint, int], address: int, size: int) -> bool:
        """Whether it is certain that these bytes are not written to in a span of `spans`."""
        start, end = span[0].tick, span[1]
        with self._lock:
            if not self._changes.unwritten(start, end, address, size):
                return False
            behind = next((kept for kept in self._kept if kept.tick == end), None)
        return behind is not None and has_all(behind.read, address, size)

    @property
    def ticks(self) -> list[int]:
        with self._lock:
            return [checkpoint.tick for checkpoint in self._kept]

    def close(self) -> None:
        with self._lock:
            self._closing = True
            self._lock.notify_all()
        if self._thread.is_alive():
            self._skeleton.slot.poke()
            self._thread.join()
        self._near.end()
        while self._kept:
            self._kept.pop().drop()
        self._skeleton.drop()
        self._first.drop()
