"""The replay that runs behind a recording, and the timelines of the places where that stands.

Runs in: the server; a thread of its own looks at the log now and then, and owns the replay's processes.
May call: errors, demo, launch, timeline.
Owns: the image and the demo that grow, the skeleton. INVARIANT(one-grows): whoever looks at the log holds the lock, and
nobody does while a timeline is open.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path

from gdbrr import abi
from gdbrr.demo.grow import Growth, Unfollowable
from gdbrr.demo.image import GrowingImage
from gdbrr.demo.manifest import Manifest
from gdbrr.demo.reader import Demo
from gdbrr.launch import scratch
from gdbrr.timeline.live.checkpoints import FollowingCheckpoints
from gdbrr.timeline.live.room import Room
from gdbrr.timeline.model import Progress
from gdbrr.timeline.timeline import DemoTimeline, Ground, Stop, start_replay
from gdbrr.timeline.tracer import start_thread

_LOOK = 0.5
"""Seconds between two looks at the log."""
_WAIT = 0.02
"""Between two looks at Ctrl-C."""


class Following:
    """Follows from now on, until `close`."""

    def __init__(self, recording: Path, page: abi.Ctl, manifest: Callable[[], Manifest], demo: Path, pid: int) -> None:
        """DEMO is made, and grows; MANIFEST tells what goes into one as things are now; PID is the program's."""
        self._recording = recording
        self._page = page
        self._manifest = manifest
        self._demo = demo
        self._room = Room(Path(f"/proc/{pid}"), time.monotonic())
        self._lock = threading.Condition(threading.RLock())
        self._growth: Growth | None = None
        self._ground: Ground | None = None
        self._checkpoints: FollowingCheckpoints | None = None
        self._first: Demo | None = None
        self._wanted = self._closing = self._stands = False
        self._looks = 0
        self._failed: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="gdbrr following", daemon=True)
        start_thread(self._thread)

    # ---------------------------------------------------------------- the thread
    def _run(self) -> None:
        try:
            with contextlib.ExitStack() as stack:
                image_fd = stack.enter_context(scratch.file())
                while not (self._closing or self._failed):
                    with self._lock:
                        try:
                            if not self._stands and self._page.c.started:
                                self._look(stack, image_fd)
                        except Exception as error:  # INVARIANT(told-then-ended): nobody asks what is taken down
                            self._failed = error
                        self._looks += 1
                        self._lock.notify_all()
                        self._lock.wait_for(self._is_due, _LOOK)
        except Exception as error:  # whoever asks goes another way
            with self._lock:
                self._failed = self._failed or error
                self._lock.notify_all()

    def _is_due(self) -> bool:
        return bool(self._closing or self._failed or (self._wanted and not self._ground))

    def _look(self, stack: contextlib.ExitStack, image_fd: int) -> None:
        if self._growth is None:
            image = GrowingImage(image_fd, int(self._page.c.data_size))
            self._image = image_fd, image.bytes
            self._growth = Growth(self._recording, self._page, self._demo, self._manifest(), image)
            stack.callback(self._growth.close)
        room = self._room.look(time.monotonic())
        if self._ground is not None:
            self._growth.grow()
            if room:
                self._follow()
            return
        self._growth.finish()
        if self._growth.limit > 0:
            self._start(stack)
            self._follow()

    def _start(self, stack: contextlib.ExitStack) -> None:
        self._first = stack.enter_context(Demo.open(self._demo, check=False))
        replay = start_replay(self._first, trust=True, grows=self._image)
        stack.callback(replay.close)
        self._checkpoints = FollowingCheckpoints(self._first, replay, 0)
        stack.callback(self._checkpoints.close)
        self._ground = Ground(replay, self._checkpoints, self._checkpoints.stand, self._checkpoints.go_on)

    def _follow(self) -> None:
        assert self._growth and self._checkpoints
        if self._checkpoints.failed:
            raise self._checkpoints.failed
        self._checkpoints.follow([*self._growth.starts(), self._growth.limit])

    # ---------------------------------------------------------------- stops
    @property
    def failed(self) -> Exception | None:
        """Why it follows no longer."""
        return self._failed or (self._checkpoints.failed if self._checkpoints else None)

    def timeline(
        self, stop: Stop | None = None, progress: Progress | None = None, like: int | None = None
    ) -> DemoTimeline:
        """All there is by now, up to STOP, which the process LIKE stands at. Until it is closed, the recording stands,
        or has ended."""
        with self._lock:
            self._wanted = True
            before = self._looks
            try:
                # INVARIANT(one-look-tells): the recording stands, so a second one would find no more.
                while not (self._ground or self.failed) and self._looks == before:
                    self._lock.notify_all()
                    self._lock.wait(_WAIT)
                    if progress:
                        progress("replaying", 0.0)
            finally:
                self._wanted = False
            if self.failed or self._growth is None or self._ground is None:
                why = self.failed or "nothing is known for certain yet"
                raise Unfollowable(f"the recording cannot be followed: {why}")
            try:
                self._growth.finish()
                self._follow()
            except Exception as error:
                self._failed = error
                raise Unfollowable(f"the recording cannot be followed: {error}") from None
            demo = Demo.open(self._demo, check=False)
            demo.manifest = self._manifest()
            demo.at_close.callback(self._closed)
            self._stands = True
            try:
                return DemoTimeline(demo, stop=stop, progress=progress, like=like, ground=self._ground)
            except BaseException:
                demo.close()
                raise

    def _closed(self) -> None:
        with self._lock:
            self._stands = False

    def close(self) -> None:
        """End the replay. The timeline is closed by then."""
        with self._lock:
            self._closing = True
            self._lock.notify_all()
        self._thread.join()
