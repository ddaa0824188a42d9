"""The skeleton, which runs ahead once, and the checkpoints it leaves behind at the starts of epochs.

Runs in: the server and scripts. May call: errors, demo, ctl, launch.
Owns: which checkpoints exist.
"""

from __future__ import annotations

import bisect

from gdbrr.abi import lib
from gdbrr.ctl.control import Soft
from gdbrr.demo.reader import Demo
from gdbrr.launch import replay as replays
from gdbrr.timeline.model import Moment, Progress
from gdbrr.timeline.worker import Checkpoint, Desynchronised, Worker


class Checkpoints:
    """INVARIANT(first-checkpoint): there is always a checkpoint at tick 0; it is never thinned out."""

    def __init__(self, demo: Demo, replay: replays.Replay, final_thread: int) -> None:
        self._replay = replay
        self._final_thread = final_thread
        self._limit = max(2, replay.profile.knobs()["checkpoints"])
        self._step = 1
        # Epochs that may get a checkpoint; doubled steps leave every second one out.
        self._starts = [epoch.start for epoch in demo.epochs] or [0]
        self._next = 0
        self._under_way = False  # the skeleton runs to the next start, because somebody was interrupted
        self._kept: list[Checkpoint] = []
        self._skeleton = Worker(replay.control, replay.slot, demo)
        self._skeleton.finish()
        self._leave()

    def _leave(self) -> None:
        """Freeze the skeleton where it stands, and thin out when there are too many."""
        self._kept.append(self._skeleton.freeze())
        if len(self._kept) > self._limit:
            self._step *= 2
            for number in range(len(self._kept) - 1, 0, -1):
                if number % 2:
                    self._kept.pop(number).drop()
        self._next = (self._next // self._step + 1) * self._step

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
                worker.run(tick, progress=progress, what="going there")
        except BaseException:
            worker.drop()
            raise
        return worker

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

    @property
    def ticks(self) -> list[int]:
        return [checkpoint.tick for checkpoint in self._kept]

    def close(self) -> None:
        for checkpoint in self._kept:
            checkpoint.drop()
        self._kept.clear()
        self._skeleton.drop()
