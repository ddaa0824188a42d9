"""What a program has besides itself in each trial: an input, and somebody who asks it something and then ends it.

Runs in: `gdbrr suggest`. May call: errors.
Owns: the processes of the client; when it counts as done: its exit status is 0.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from gdbrr.errors import GdbrrError

_PAUSE = 0.05
"""Seconds between two clients."""
_UNHEARD = 1.0
"""Seconds until a client comes although nobody is seen to listen, be it because it is no socket of this kind."""
_LISTENS, _ACCEPTS = "0A", 0x10000
"""As /proc/net/tcp shows a state, and /proc/net/unix a flag."""


class Company:
    """The same for every trial."""

    def __init__(self, input: Path | None = None, client: str = "", stop: int = signal.SIGTERM) -> None:
        self.input = input or Path(os.devnull)
        self._client = client
        self._stop = stop
        self._pid = 0
        self._again = 0.0
        self._status = 0
        self._done = True
        self.spent = 0.0
        """Seconds of processor time of all clients so far."""

    @contextlib.contextmanager
    def beside(self) -> Iterator[Callable[[int], int]]:
        """For one run. What it yields is to be called now and then, with the program's id: it tells which signal that
        gets; 0: none."""
        self._pid, self._again, self._status, self._done = 0, 0.0, -1, not self._client
        self._unheard = time.monotonic() + _UNHEARD
        try:
            yield self._look
        finally:
            if self._pid:
                status = self._status
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._pid, signal.SIGKILL)
                self._reap(0)
                self._status = status  # of the one before, or of none

    def check(self, what: str) -> None:
        """Behind a run, of which WHAT tells how it went: it says nothing about a program that nobody has asked."""
        if not self._done:
            how = f"has not ended, {what}" if self._status < 0 else f"ended with status {self._status}, {what}"
            raise GdbrrError(f"the client {how}: {self._client}", f"try it by hand: sh -c {shlex.quote(self._client)}")

    def _look(self, program: int) -> int:
        if self._done or (self._pid and not self._reap(os.WNOHANG)):
            return 0
        if self._status == 0:
            self._done = True
            return self._stop
        now = time.monotonic()
        if now >= self._again and (now >= self._unheard or listens(program)):
            self._start()
        return 0

    def _start(self) -> None:
        nothing = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
        words = ["/bin/sh", "-c", self._client]
        self._pid = os.posix_spawn(words[0], words, os.environ, file_actions=nothing, setsid=True)

    def _reap(self, flags: int) -> bool:
        pid, status, usage = os.wait4(self._pid, flags)
        if not pid:
            return False
        self._pid, self._again = 0, time.monotonic() + _PAUSE
        code = os.waitstatus_to_exitcode(status)
        self._status = code if code >= 0 else 128 - code
        self.spent += usage.ru_utime + usage.ru_stime
        return True


def listens(pid: int) -> bool:
    """Whether a process has a socket to which others can connect. Some clients do not bear it when there is none."""
    found = set()
    with contextlib.suppress(OSError):
        for name in ("tcp", "tcp6"):
            rows = _rows(f"/proc/{pid}/net/{name}")
            found |= {row[9] for row in rows if len(row) > 9 and row[3] == _LISTENS}
        rows = _rows(f"/proc/{pid}/net/unix")
        found |= {row[6] for row in rows if len(row) > 6 and int(row[3], 16) & _ACCEPTS}
        return any(_inode(f"/proc/{pid}/fd/{fd}") in found for fd in os.listdir(f"/proc/{pid}/fd"))
    return False


def _rows(path: str) -> list[list[str]]:
    with open(path, encoding="ascii", errors="replace") as file:
        return [line.split() for line in file][1:]


def _inode(path: str) -> str:
    with contextlib.suppress(OSError):
        kind, _, rest = os.readlink(path).partition(":[")
        return rest[:-1] if kind == "socket" else ""
    return ""
