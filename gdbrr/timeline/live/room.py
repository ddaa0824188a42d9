"""Whether a processor is left beside a program that is being recorded: what follows it shall not slow it down.

Runs in: the server. May call: /proc of the program.
Owns: what the program's threads had had and wanted of the processors when they were last looked at.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


class Room:
    """Looked at now and then, as long as the program runs."""

    def __init__(self, process: Path, now: float, cores: int = len(os.sched_getaffinity(0))) -> None:
        """PROCESS is its folder in /proc; NOW as of time.monotonic()."""
        self._tasks = process / "task"
        self._most = cores - 0.5
        self._when = now
        self._wanted: dict[str, int] = {}

    def look(self, now: float) -> bool:
        """Whether its threads together wanted less than all of the processors since the last look."""
        wanted = dict(self._threads())
        since = sum(each - self._wanted.get(thread, 0) for thread, each in wanted.items())
        span, self._when, self._wanted = now - self._when, now, wanted
        return since <= self._most * span * 1e9

    def _threads(self) -> list[tuple[str, int]]:
        """Of each thread the nanoseconds that it ran or waited for a processor; none where nobody counts."""
        found = []
        with contextlib.suppress(OSError):  # it has ended
            for task in self._tasks.iterdir():
                with contextlib.suppress(OSError, ValueError, IndexError):
                    ran, waited = (task / "schedstat").read_text(encoding="ascii").split()[:2]
                    found.append((task.name, int(ran) + int(waited)))
        return found
