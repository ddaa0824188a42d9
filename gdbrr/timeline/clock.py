"""When something happened: ticks as seconds since the start of the recording, and seconds as ticks.

Runs in: the server and scripts. May call: demo.
Owns: nothing.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator

from gdbrr.demo.reader import Demo

_MICRO = 1e6


class Clock:
    """Events carry coarse times, some milliseconds apart: between two of them time stands still here."""

    def __init__(self, demo: Demo, ticks: int) -> None:
        self._demo = demo
        self._ticks = ticks
        rows = [row for row in demo.epochs if row.time is not None and row.start <= ticks]
        self._starts = [row.start for row in rows]
        self._times = [row.time or 0.0 for row in rows]

    def seconds(self, tick: int) -> float | None:
        """When TICK happened; None where the recording does not tell."""
        at = bisect.bisect_right(self._starts, tick) - 1
        if at < 0:
            return None
        return max([self._times[at], *(seconds for _, seconds in self._told(at, tick + 1))])

    def tick_at(self, seconds: float) -> int:
        """The first tick that is known to have happened at SECONDS or later, the last one where none is."""
        at = max(bisect.bisect_left(self._times, seconds) - 1, 0)
        stop = self._starts[at + 1] if at + 1 < len(self._starts) else self._ticks
        for tick, then in self._told(at, stop) if self._starts else ():
            if then >= seconds:
                return tick
        return stop

    def _told(self, at: int, stop: int) -> Iterator[tuple[int, float]]:
        """The times of ticks of epoch AT in front of STOP, where they carry one. They rise: a thread that looked at the
        clock before another one may come behind it in the order."""
        last = self._times[at] if at < len(self._times) else 0.0
        for event in self._demo.events(start=self._starts[at], stop=min(stop, self._ticks), runs=True):
            if event.time:
                last = max(last, event.time / _MICRO)
                yield event.tick, last
