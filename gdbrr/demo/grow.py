"""A recording that goes on, as a demo and as an image that grow with it.

Runs in: the server, while the program runs or stands. May call: gdbrr.abi, gdbrr.config.tables, gdbrr.demo.
Owns: how far a replay may follow: up to the first operation of which it is not known yet what came behind it.
"""

from __future__ import annotations

import errno
import functools
import os
from pathlib import Path
from typing import Any

from gdbrr.abi import Ctl, ffi, lib
from gdbrr.config import tables
from gdbrr.demo.image import GrowingImage
from gdbrr.demo.log import Log
from gdbrr.demo.manifest import Manifest
from gdbrr.demo.pack import Packer, epoch_limits
from gdbrr.demo.writer import Writer
from gdbrr.errors import GdbrrError

_WAITS = (
    *("read", "readv", "recvfrom", "recvmsg", "poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait"),
    *("nanosleep", "clock_nanosleep", "accept", "accept4", "wait4", "waitid", "pause", "connect"),
)
"""Calls that may last, and of which a replay does nothing before it comes to their end, if that was recorded."""
_BEHIND_MARKS = (
    lib.GR_OP_JOIN,
    lib.GR_OP_MUTEX_LOCK,
    lib.GR_OP_RWLOCK_READ,
    lib.GR_OP_RWLOCK_WRITE,
    lib.GR_OP_SEM_WAIT,
)
_NO_ROOM = 256 << 20
"""A disk with less than that is left to the log."""


class Unfollowable(GdbrrError):
    """The replay cannot go on behind the recording. Its past is made in one piece then, whenever it is asked for."""


class _Tail:
    """What is known of a thread's newest events."""

    def __init__(self) -> None:
        self.raw = ffi.new("struct gr_tail *")

    def waits(self) -> bool:
        """Whether the thread runs no code of the program between its newest operation and its next one.

        INVARIANT(blind-waits-are-blind): nor does the engine look ahead to that one, or it is looked after later.
        """
        last = self.raw.last
        if last.kind == lib.GR_OP_BLOCK:
            return last.result in _BEHIND_MARKS
        if last.kind == lib.GR_OP_SYS_START:
            return last.flags == lib.GR_ACT_RECORD and last.nr - 1 in _waits()
        return last.kind in (lib.GR_OP_EXIT, lib.GR_OP_TURN, lib.GR_OP_COND_WAIT, lib.GR_OP_BARRIER_ARRIVE)


@functools.cache
def _waits() -> frozenset[int]:
    return frozenset(call.nr for call in tables.syscalls() if call.name in _WAITS)


class Growth:
    """INVARIANT(stable-prefix): with `engine.order_log` clock each operation has the next stamp of one clock, so those
    in front of the first missing stamp have the same ticks whatever comes later."""

    def __init__(self, recording: Path, ctl: Ctl, demo: Path, manifest: Manifest, image: GrowingImage) -> None:
        self._ctl = ctl
        self._image = image
        self._place = demo
        self._log_fd = os.open(recording / "log", os.O_RDONLY | os.O_CLOEXEC)
        self._file = open(demo, "xb", opener=lambda name, flags: os.open(name, flags | os.O_CLOEXEC, 0o600))
        self._writer = Writer(self._file, manifest)
        self._log = Log(self._log_fd, None)
        self._packer = Packer(self._log, *epoch_limits(ctl))
        self._before: tuple[Any, Any, tuple[int, int]] | None = None
        """Where what goes on goes on: in front of what ends the demo at a stop."""
        self._alive: dict[int, _Tail] = {}
        self._seen: set[int] = set()
        self._births: list[tuple[int, int]] = []
        self.limit = 0
        """A replay may go to this tick."""
        self._told = 0
        self._clock = 0
        """When it was looked at last."""

    # ---------------------------------------------------------------- as a Sink
    def stream(self, thread: int, raw: bytes, count: int, base: int, first: int, last: int) -> None:
        self._look(thread, raw, base)
        self._writer.stream(thread, raw, count, base, first, last)
        self._image.stream(thread, raw, count, base, first, last)

    def order(self, runs: bytes, ticks: int, positions: bytes) -> None:
        self._writer.order(runs, ticks, positions)
        self._image.order(runs, ticks, positions)

    def _look(self, thread: int, raw: bytes, base: int) -> None:
        self._seen.add(thread)
        tail = self._alive.setdefault(thread, _Tail()).raw
        known, at = tail.last, 0
        waited, stamp = known.kind == lib.GR_OP_COND_WAIT, known.stamp
        while at < len(raw):
            rest = ffi.from_buffer(raw)[at:] if at else ffi.from_buffer(raw)
            at += lib.gr_tail_scan(rest, len(raw) - at, base, tail)
            base = tail.last.stamp
            # The replay took it that the mutex was given back.
            if waited and stamp <= self.limit and tail.first.result in (errno.EPERM, errno.EINVAL):
                raise Unfollowable("a wait for a condition failed", "go on, going back takes longer")
            waited = False
            self._births += [(tail.birth[n].stamp, tail.birth[n].thread) for n in range(tail.births)]
        if tail.several:
            raise Unfollowable("operations are only counted", "record without engine.order_log")
        if tail.last.kind == lib.GR_OP_EXIT:
            del self._alive[thread]

    # ---------------------------------------------------------------- growing
    def grow(self) -> None:
        """Take in what was logged since the last time, as far as it is known what comes behind what."""
        clock = int(self._ctl.c.clock)
        if clock == self._clock:
            return
        self._clock = clock
        self._reopen()
        self._grow()
        self._image.publish()

    def _grow(self) -> bool:
        disk = os.statvfs(self._place.parent)
        if disk.f_bavail * disk.f_frsize < _NO_ROOM:
            raise Unfollowable(f"{self._place.parent} has too little room", "make room, or set TMPDIR")
        self._log.look(int(self._ctl.c.units))
        whole = self._packer.run(self, follow=True)
        self._births = [row for row in self._births if row[1] not in self._seen]
        stops = [tail.raw.solid - 1 for tail in self._alive.values() if not tail.waits()]
        stops += [stamp - 1 for stamp, _ in self._births]
        limit = min([self._packer.state.ticks - 1, *stops])
        if limit < self.limit and self.limit:
            raise Unfollowable("an operation came behind one that lasts", "go on, going back takes longer")
        self.limit = max(limit, 0)
        return whole

    def finish(self) -> None:
        """Make the demo whole: of all there is by now, also behind stamps that nobody has committed. Only while the
        program stands or has ended. What comes later goes on in front of this end."""
        self._reopen()
        whole = self._grow()
        self._before = self._writer.mark(), self._packer.state.copy(), self._image.mark()
        if not whole:
            self._packer.run(self)
        self._writer.finish(self._packer.epochs())
        self._image.publish()

    def _reopen(self) -> None:
        if self._before is None:
            return
        written, packed, image = self._before
        self._before = None
        self._writer.back(written)
        self._packer.state = packed
        self._image.back(image)

    def starts(self) -> list[int]:
        """Starts of epochs that were not told before and are not behind `limit`."""
        state = self._packer.state
        known = [start for start, _, _ in state.epochs[self._told :]] + [state.epoch[0]]
        found = [start for start in known if start <= self.limit]
        self._told += min(len(found), len(known) - 1)
        return found

    def close(self) -> None:
        self._file.close()
        os.close(self._log_fd)
