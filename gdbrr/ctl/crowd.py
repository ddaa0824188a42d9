"""How many threads a replay has: no more than its demo may need.

Runs in: the controller and the server. May call: errors, /proc.
Owns: the limit for root, of whose processes the kernel counts none (RLIMIT_NPROC, preload/fence.c).
"""

from __future__ import annotations

import os

from gdbrr.errors import GdbrrError
from gdbrr.quick.scopes import suppress
from gdbrr.quick.signals import signal

_SLACK = 1024
"""Threads of the rest of the machine that may come up meanwhile before this looks closer."""


def most(threads: int, slots: int) -> int:
    """Threads that all processes of a replay may have together, about: THREADS is how many the demo ever has."""
    return slots + 1024 + 16 * min(threads, 1024)


class Crowd:
    """The processes of one replay, which are one process group."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._group = 0
        self._before = _on_this_machine()

    def is_led_by(self, pid: int) -> None:
        self._group = pid

    def look(self) -> None:
        """Raise an error, and end the replay, where there are too many. Cheap while the whole machine has few."""
        if not self._group or _on_this_machine() - self._before <= min(self._limit, _SLACK):
            return
        self._before = _on_this_machine() - _SLACK  # asked again where as many come up once more
        count = _in_group(self._group)
        if count <= self._limit:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._group, signal.SIGKILL)
        raise GdbrrError(f"the replay has made {count:,} threads, more than its demo needs", "do not trust this demo")


def _on_this_machine() -> int:
    with open("/proc/loadavg", encoding="utf-8") as load:
        return int(load.read().split()[3].partition("/")[2])


def _in_group(group: int) -> int:
    count = 0
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with suppress(OSError, IndexError, ValueError), open(f"/proc/{name}/stat", "rb") as stat:
                fields = stat.read().rpartition(b")")[2].split()
                count += int(fields[17]) if int(fields[2]) == group else 0
    return count
