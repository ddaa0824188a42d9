"""Whose turn it is: the total order of a demo, by tick.

Runs in: the server and scripts. May call: demo.
Owns: what the tick behind the last one means: the segment that was under way when the recording ended.
"""

from __future__ import annotations

import bisect
from array import array
from functools import lru_cache
from itertools import accumulate

from gdbrr.demo.reader import Demo


class Order:
    """Answers for ticks 0 .. ticks; the last of them is the tail of the thread that the recording ended in."""

    def __init__(self, demo: Demo, final_thread: int | None = None) -> None:
        self._demo = demo
        self.ticks = demo.ticks
        self._block = lru_cache(maxsize=64)(self._read_block)
        self.final_thread = (
            (self.thread_of(self.ticks - 1) if self.ticks else 0) if final_thread is None else final_thread
        )

    def cut(self, tick: int) -> None:
        """Let time end in front of TICK, at the call of its thread."""
        self.final_thread = self.thread_of(tick)
        self.ticks = tick

    def _read_block(self, which: int) -> tuple[array[int], array[int]]:
        """Of order block WHICH: the thread of each run, and the tick behind each run."""
        base, runs, _ = self._demo.order(which)
        return array("I", runs[0::2]), array("Q", (base + count for count in accumulate(runs[1::2])))

    def thread_of(self, tick: int) -> int:
        """Index of the thread whose operation TICK is."""
        if tick >= self.ticks:
            return self.final_thread
        threads, ends = self._block(self._demo.order_block_of(tick))
        return threads[bisect.bisect_right(ends, tick)]

    def before(self, thread: int, tick: int) -> int | None:
        """The last tick in front of TICK that is an operation of THREAD."""
        if tick <= 0:
            return None
        for which in range(self._demo.order_block_of(min(tick, self.ticks) - 1), -1, -1):
            threads, ends = self._block(which)
            for row in range(len(threads) - 1, -1, -1):
                start = ends[row - 1] if row else self._demo.order(which)[0]
                if threads[row] == thread and start < tick:
                    return min(ends[row], tick) - 1
        return None

    def first_of(self, thread: int) -> int:
        """The first operation of THREAD; 0 for one that is there from the start, the last tick where it has none."""
        tick = 0
        while thread and tick < self.ticks:
            threads, ends = self._block(self._demo.order_block_of(tick))
            if thread in threads:
                row = threads.index(thread)
                return ends[row - 1] if row else tick
            tick = ends[-1]
        return tick

    def threads_in(self, start: int, end: int) -> int:
        """How many threads have operations at the ticks from START up to END."""
        found: set[int] = set()
        while start < min(end, self.ticks):
            threads, ends = self._block(self._demo.order_block_of(start))
            last = bisect.bisect_left(ends, end)
            found.update(threads[bisect.bisect_right(ends, start) : last + 1])
            start = ends[-1]
        return len(found)

    def other(self, thread: int, tick: int) -> int | None:
        """The first tick at TICK or behind it that is not an operation of THREAD."""
        while tick < self.ticks:
            threads, ends = self._block(self._demo.order_block_of(tick))
            for row in range(bisect.bisect_right(ends, tick), len(threads)):
                if threads[row] != thread:
                    return tick if tick < self.ticks else None
                tick = ends[row]
        return None

    def next_of(self, thread: int, tick: int) -> int | None:
        """The first operation of THREAD at TICK or behind it."""
        while tick < self.ticks:
            threads, ends = self._block(self._demo.order_block_of(tick))
            for row in range(bisect.bisect_right(ends, tick), len(threads)):
                if threads[row] == thread:
                    return tick if tick < self.ticks else None
                tick = ends[row]
        return None

    def last_of(self, thread: int) -> int | None:
        return self.before(thread, self.ticks)
