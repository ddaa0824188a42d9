"""The checkpoints of a recording that goes on: the skeleton follows it, and stands where no more is known.

Runs in: the server. May call: demo, launch.
Owns: where the skeleton may go; what stays when the recording goes on behind a stop.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from gdbrr.demo.reader import Demo
from gdbrr.launch.watchdog import Watchdog
from gdbrr.timeline.checkpoints import Checkpoints
from gdbrr.timeline.worker import Checkpoint, late


class FollowingCheckpoints(Checkpoints):
    """INVARIANT(skeleton-knows-what-follows): it goes to no tick in front of which anything is not known yet, so none
    of its checkpoints has to be thought over when there is more."""

    grows = True
    _stands_as: Demo | None = None
    _watchdog: Watchdog | None = None

    def follow(self, starts: Sequence[int]) -> None:
        """There is more: the skeleton may go to these ticks, too, which rise; it leaves one checkpoint at each, however
        often that is named."""
        with self._lock:
            for start in starts:
                if start > self._starts[-1]:
                    self._starts.append(start)
            self._lock.notify_all()

    def stand(self, demo: Demo, final_thread: int) -> None:
        """The recording stands, DEMO is what there is of it."""
        with self._lock:
            self._final_thread = final_thread
            self._stands_as = demo
            self._watchdog = Watchdog(demo, self._skeleton.pid)
            for checkpoint in self._kept:
                checkpoint.demo = demo

    def go_on(self) -> None:
        """The recording goes on: where leaves stood behind the skeleton's last place is no part of its past."""
        with self._lock:
            self._watchdog = self._stands_as = None
            self._near.end()
            self.courses.clear()  # what was the last segment goes on
            self.uncounted.clear()
            for checkpoint in [kept for kept in self._kept if kept.tick > self._starts[-1]]:
                self._kept.remove(checkpoint)
                checkpoint.drop()

    def _keep(self, made: Checkpoint) -> None:
        made.demo = self._stands_as or made.demo
        super()._keep(made)

    @property
    def failed(self) -> Exception | None:
        """Why the skeleton went no farther."""
        return self._failed

    def _look_at_time(self) -> None:
        overdue = self._watchdog.look(self._skeleton.slot.tick, time.monotonic()) if self._watchdog else None
        if overdue:
            raise late(overdue)
