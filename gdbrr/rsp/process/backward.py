"""A step back in a replay, and what it passes: what is watched, and breakpoints of threads whose turn was in between.

Runs in: the server. May call: gdbrr.rsp.debuggee, a Timeline.
Owns: nothing.
"""

from __future__ import annotations

import dataclasses

from gdbrr.rsp.process.forward import Forward
from gdbrr.rsp.regs import RIP, RSP
from gdbrr.rsp.reverse import WORD, is_behind
from gdbrr.rsp.stop import SIGNAL_TRAP, Stop
from gdbrr.rsp.unwind.frames import led_here
from gdbrr.timeline.model import Hit, Moment, PointKind, Progress


class Backward(Forward):
    def back_to(self, before: Moment, now: Moment, thread: int, progress: Progress | None) -> Stop:
        """From NOW a step back to BEFORE, or to what GDB wants to know of on this way: only of THREAD if that is not 0.

        INVARIANT(a-step-back-passes-nothing): a step forwards stops there as well.
        """
        index = self.index(thread) if thread else None
        hit = self._met(before, now, index, progress)
        other = self._timeline().last_signal(now.tick + (now.pc is not None), self._passed(), index)
        if other is not None and other.tick > before.tick and (hit is None or is_behind(other, hit.moment)):
            return self.land_at(other, progress)
        old = self.watched(True)
        self.land(hit.moment if hit else before, progress, hit.thread if hit else None)
        sent = None if hit or before.pc is not None else self._timeline().next_signal(before.tick, self._passed())
        if sent is not None and sent.tick == before.tick:
            self.sent = sent
            return self.told(self.again(), old, False)
        return self.told(self.here(SIGNAL_TRAP, self.points.reasons(hit) if hit else ()), old, False)

    def _met(self, before: Moment, now: Moment, index: int | None, progress: Progress | None) -> Hit | None:
        """The last hit from BEFORE up to NOW, where comparing what is watched there would not do: others had their turn
        in between, or reads count."""
        others = now.tick - before.tick > 1
        points = [point for point in self.points.for_search() if others or point.kind is PointKind.ACCESS]
        points = [dataclasses.replace(point, thread=index) for point in points]
        hits = self._timeline().all_hits(points, after=before, before=now, progress=progress) if points else []
        return hits[-1] if hits else None

    def before_call(self, now: Moment, before: Moment) -> Stop | None:
        """A step back from a function's first instruction to its call, as GDB makes one in each call of a recursion
        that it passes: it looks at nothing there, so nobody is brought there before somebody looks."""
        debuggee = self.require()
        if debuggee.leaf is None or self.engine_frames or now.tick != before.tick or before.pc is None:
            return None
        tid = debuggee.real(self.thread)
        regs = debuggee.registers(tid)
        if any(addr < regs["rsp"] + WORD and addr + length > regs["rsp"] for _, addr, length in self.points.places):
            return None  # the call has stored there
        if regs["rip"] != now.pc or not led_here(debuggee.upstream.memory, before.pc, regs["rsp"]):
            return None
        known = ((RIP, before.pc), (RSP, regs["rsp"] + WORD))
        shown = debuggee.expedited(tid) | {number: word.to_bytes(8, "little").hex().encode() for number, word in known}
        self._due = self._moment = before
        self.sent, self._crash, self.approximate = None, 0, False
        return Stop(SIGNAL_TRAP, self.thread, (), shown)
