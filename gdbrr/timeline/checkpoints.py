"""The skeleton, which runs ahead once, and the checkpoints it leaves behind at the starts of epochs.

Runs in: the server and scripts. May call: errors, demo, ctl, launch.
Owns: which checkpoints exist.
"""

from __future__ import annotations

import bisect
import contextlib
import time
from collections.abc import Iterator

from gdbrr.abi import lib
from gdbrr.ctl.changes import Changes, unwritten_pages
from gdbrr.ctl.control import Soft
from gdbrr.demo.reader import Demo
from gdbrr.errors import GdbrrError
from gdbrr.launch import replay as replays
from gdbrr.timeline.model import Moment, Progress
from gdbrr.timeline.tracer import NoProcess
from gdbrr.timeline.worker import Checkpoint, Desynchronised, Worker

_SPACING = 20
"""How many times longer the replay between two checkpoints takes than making one, once they had to be thinned out."""
_SPARE = 8
"""Checkpoints beyond the limit while none may go."""
_COSTLY = 0.1
"""Seconds from a checkpoint to a place, after which that gets one, too."""


class Checkpoints:
    """INVARIANT(first-checkpoint): there is always a checkpoint at tick 0; it is never thinned out."""

    def __init__(self, demo: Demo, replay: replays.Replay, final_thread: int) -> None:
        self._replay = replay
        self._final_thread = final_thread
        self._most = max(2, replay.profile.knobs()["checkpoints"])
        self._most_memory = replay.profile.knobs()["checkpoint_memory"]
        self._starts = [epoch.start for epoch in demo.epochs] or [0]
        self._next = 0
        self._under_way = False  # the skeleton runs to the next start, because somebody was interrupted
        self._kept: list[Checkpoint] = []
        self._pinned = 0
        self._thinned = False
        self._left = time.monotonic()  # when the newest was made
        self._cost = 0.0  # seconds that it took
        self._changes = Changes()
        self._frozen_at: int | None = None  # where the skeleton left its newest copy, if nothing went wrong
        self._skeleton = Worker(replay.control, replay.slot, demo)
        self._skeleton.finish()
        self._leave()
        self._kept[0].is_expendable(0)  # all others can be made again from it

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
        if at:
            before = self._kept[at - 1]  # by now it holds what has changed since
            before.held = before.private()
        self._thin()

    def _thin(self) -> None:
        if self._pinned:
            return
        while len(self._kept) > self._most or (
            len(self._kept) > 2 and sum(kept.held for kept in self._kept) > self._most_memory
        ):
            self._thinned = True
            self._end_one(None)

    def _end_one(self, needed: Checkpoint | None) -> bool:
        """End the one that leaves the smallest gap, for its age: spacing grows with the distance from the newest."""
        newest = self._kept[-1].tick
        near = max(1, newest // self._most)

        def gap(at: int) -> float:
            return (self._kept[at + 1].tick - self._kept[at - 1].tick) / (newest - self._kept[at].tick + near)

        inner = [at for at in range(1, len(self._kept) - 1) if self._kept[at] is not needed]
        if not inner:
            return False
        self._kept.pop(min(inner, key=gap)).drop()
        return True

    def make_room(self, needed: Checkpoint | None) -> bool:
        """Every second one goes; from now on there are at most as many as are left."""
        if self._pinned:
            return False
        goal = max(2, len(self._kept) // 2)
        if len(self._kept) <= goal:
            return False
        while len(self._kept) > goal and self._end_one(needed):
            pass
        self._most = goal
        self._thinned = True
        return True

    def again(self, lost: Checkpoint) -> Checkpoint:
        at = self._kept.index(lost)
        if not at:
            raise GdbrrError(
                "the first checkpoint of the replay was ended from outside", "free some memory and open the demo again"
            )
        worker = self._kept[at - 1].wake(self._final_thread)
        try:
            worker.run(lost.tick)
            return worker.freeze()
        finally:
            worker.drop()

    @contextlib.contextmanager
    def pinned(self) -> Iterator[None]:
        """None goes meanwhile."""
        self._pinned += 1
        try:
            yield
        finally:
            self._pinned -= 1
            self._thin()

    @property
    def soft(self) -> Soft | None:
        """Output that differed while the skeleton ran."""
        return self._skeleton.slot.soft

    def knob(self, name: str) -> int:
        """What the profile of the recording says."""
        return self._replay.profile.knobs()[name]

    def reach(self, tick: int, progress: Progress | None = None) -> None:
        """Let the skeleton run ahead as far as there are checkpoints to leave in front of TICK."""
        while self._next < len(self._starts) and self._starts[self._next] <= tick:
            goal = self._starts[self._next]
            if not self._under_way:
                self._skeleton.begin(goal)
                self._under_way = True
            try:
                state = self._skeleton.finish(progress, "replaying", goal)
            except Desynchronised:
                # It can go nowhere any more; the checkpoints that it left can.
                self._next = len(self._starts)
                self._skeleton.drop()
                raise
            self._under_way = False
            if state != lib.GR_S_STANDING:
                return  # the program's end came first
            self._leave()

    def nearest(self, tick: int, progress: Progress | None = None) -> Checkpoint:
        """The last checkpoint that stands at TICK or in front of it."""
        self.reach(tick, progress)
        return self._kept[bisect.bisect_right([kept.tick for kept in self._kept], tick) - 1]

    def wake(self, checkpoint: Checkpoint) -> Worker:
        return checkpoint.wake(self._final_thread)

    def worker_at(self, tick: int, progress: Progress | None = None) -> Worker:
        """A worker that stands in front of TICK."""
        worker = self.wake(self.nearest(tick, progress))
        try:
            if worker.slot.tick < tick:
                began = time.monotonic()
                state = worker.run(tick, progress=progress, what="going there")
                costly = time.monotonic() - began > _COSTLY and len(self._kept) < self._most + _SPARE
                if costly and state == lib.GR_S_STANDING and tick not in self.ticks:
                    with contextlib.suppress(NoProcess):
                        self._keep(worker.freeze())
        except BaseException:
            worker.drop()
            raise
        return worker

    def between(self, source: Checkpoint, tick: int) -> Checkpoint | None:
        """One more checkpoint, at TICK behind SOURCE; None where there are too many."""
        if len(self._kept) >= self._most + 2 * _SPARE or tick in self.ticks:
            return None
        try:
            worker = self.wake(source)
            try:
                if worker.run(tick) == lib.GR_S_STANDING:
                    made = worker.freeze()
                    self._keep(made)
                    return made
            finally:
                worker.drop()
        except NoProcess:
            pass
        return None

    def spans(self, before: Moment, progress: Progress | None = None) -> list[tuple[Checkpoint, int]]:
        """(checkpoint, tick where the next one takes over), the nearest in front of BEFORE first."""
        self.reach(before.tick, progress)
        # A checkpoint in front of BEFORE's own segment begins the span that ends in it.
        last = before.tick if before.pc is not None else before.tick - 1
        kept = [checkpoint for checkpoint in self._kept if checkpoint.tick <= last]
        if not kept:  # BEFORE is the beginning of time
            return []
        ends = [checkpoint.tick for checkpoint in kept[1:]] + [before.tick]
        return list(reversed(list(zip(kept, ends, strict=True))))

    def untouched(self, span: tuple[Checkpoint, int], address: int, size: int) -> bool:
        """Whether it is certain that these bytes are not written to in a span of `spans`.

        INVARIANT(zeros-are-nobodys): a page of zeros may be one that the kernel shows to everybody who has none; it
        says nothing about what was there in between.
        """
        start, end = span[0].tick, span[1]
        last = address + size - 1
        if not self._changes.unwritten(start, end, address, size):
            return False
        behind = next((kept for kept in self._kept if kept.tick == end), None)
        pages = range(address // lib.GR_PAGE, last // lib.GR_PAGE + 1)
        try:
            return behind is not None and all(any(behind.read(page * lib.GR_PAGE, lib.GR_PAGE)) for page in pages)
        except OSError:  # it was ended from outside
            return False

    @property
    def ticks(self) -> list[int]:
        return [checkpoint.tick for checkpoint in self._kept]

    def close(self) -> None:
        for checkpoint in self._kept:
            checkpoint.drop()
        self._kept.clear()
        self._skeleton.drop()
