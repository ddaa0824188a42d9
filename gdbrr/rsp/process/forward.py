"""Going forward in a replay: a leaf runs with as many watchpoints as the CPU has room for; for more, several runs do.

Runs in: the server. May call: gdbrr.rsp.debuggee, a Timeline.
Owns: how often a leaf runs, and how far.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from gdbrr.rsp.debuggee import Debuggee, Wait
from gdbrr.rsp.live import Session
from gdbrr.rsp.process import turns
from gdbrr.rsp.process.events import Events
from gdbrr.rsp.process.history import memory
from gdbrr.rsp.process.landing import Say
from gdbrr.rsp.process.turns import Lock
from gdbrr.rsp.reverse import WATCH, Held
from gdbrr.rsp.stop import SIGNAL_NONE, SIGNAL_TRAP, Stop
from gdbrr.rsp.upstream import Pool, Told
from gdbrr.timeline.model import Moment, Point, PointKind, Sent, Turn

_END = (("replaylog", "end"),)


class Forward(Events):
    def __init__(self, session: Session, pool: Pool, told: Told, wait: Wait, say: Say) -> None:
        super().__init__(session, pool, told, wait, say)
        self.lock = Lock()
        self.turn: Turn | None = None
        """What the thread that was resumed alone waits for."""

    # ------------------------------------------------------------ runs

    def run(self, step: int | None, signals: Sequence[tuple[int, int]]) -> Stop:
        """Let the current leaf go on to what GDB wants to know of, thread STEP by one instruction or operation."""
        groups = self.points.groups()
        if len(groups) == 1:
            return self._run(step, signals, groups[0])
        start, thread = self.moment(), self.thread
        if step is not None:
            stop = self._step_watched(step, signals, groups[0])
            if stop is not None:
                return stop
            self._again(start, thread)
        return self._first_of(groups, step, signals)

    def _first_of(self, groups: Sequence[set[Held]], step: int | None, signals: Sequence[tuple[int, int]]) -> Stop:
        """The earliest of the stops that runs with each of GROUPS come to."""
        start, thread = self.moment(), self.thread
        acting = None if step is None else self.require().virtual(step)
        first: tuple[Moment, set[Held]] | None = None
        stop = Stop()
        for held in groups:
            if first is not None:
                self._again(start, thread)
            stop = self._run(None if acting is None else self.require().real(acting), signals, held)
            if stop.signal not in (SIGNAL_TRAP, SIGNAL_NONE):
                return stop  # a signal, or Ctrl-C: it comes in every run
            reached = self._timeline().end if stop.reasons == _END else self.moment()
            if first is None or self._earlier(reached, first[0]):
                first = reached, held
        assert first is not None
        if first[1] == groups[-1]:
            return stop
        self._again(start, thread)
        return self._run(None if acting is None else self.require().real(acting), signals, first[1])

    def _again(self, moment: Moment, thread: int) -> None:
        self.land(moment)
        self.thread = thread

    def _earlier(self, one: Moment, other: Moment) -> bool:
        if one.tick != other.tick or one.pc is None or other.pc is None:
            return (one.tick, one.pc is not None) < (other.tick, other.pc is not None)
        hit = self._timeline().last_hit([Point(PointKind.EXEC, one.pc)], other)
        return hit is not None and hit.moment.tick == one.tick and hit.moment.nth >= one.nth

    def _step_watched(self, step: int, signals: Sequence[tuple[int, int]], held: set[Held]) -> Stop | None:
        """A step in one segment: what is watched is looked at before and behind it. None if others ran as well."""
        watched = [(addr, length) for kind, addr, length in self.points.held if kind >= WATCH]
        before, tick = self._contents(watched), self._tick()
        stop = self._run(step, signals, held)
        if self._tick() != tick:
            return None
        after = self._contents(watched)
        changed = [place for place, old, new in zip(watched, before, after, strict=True) if old != new]
        if not changed or stop.reasons or stop.ended or stop.signal != SIGNAL_TRAP:
            return stop
        return dataclasses.replace(stop, reasons=(("watch", f"{changed[0][0]:x}"),))

    def _tick(self) -> int:
        leaf = self.require().leaf
        return leaf.tick if leaf is not None else -1

    def _contents(self, places: Sequence[tuple[int, int]]) -> list[bytes]:
        leaf = self.require().leaf
        assert leaf is not None
        return [memory(leaf, addr, length) for addr, length in places]

    def _run(self, step: int | None, signals: Sequence[tuple[int, int]], held: set[Held]) -> Stop:
        debuggee = self.require()
        over = step is not None and self.points.stepping_over(debuggee.registers(step).get("rip", 0))
        leaf = debuggee.leaf
        assert leaf is not None
        fence = self._fence(debuggee, leaf)
        if debuggee.at_end or (fence is not None and self._at(fence, debuggee)):
            return self.here(SIGNAL_TRAP, () if over else _END)
        alone = debuggee.real(self.lock.thread) if self.lock.thread else 0
        turn = turns.another(debuggee, self._timeline(), alone) if alone else None
        if turn is not None and turns.is_now(debuggee, turn, alone):
            return self._waits(debuggee, turn)
        event = self._next_event(debuggee, leaf, step)
        self._moment = self.sent = None
        self._crash = 0
        if turn is not None and (event is None or turn.tick <= event.tick):
            stop, event = debuggee.run_leaf(step, signals, held, fence, turn), None
            if stop.signal == SIGNAL_NONE:
                return self._waits(debuggee, turn)
        elif event is not None and debuggee.standing and event.tick == leaf.tick:
            stop = debuggee.at_event(event)
        else:
            stop = debuggee.run_leaf(step, signals, held, fence, event)
        if event is not None and leaf.tick > event.tick:
            return self.land_at(event)  # Ctrl-C had stopped its thread on the way into it, where it cannot be held
        if isinstance(event, Sent) and debuggee.standing and event.tick == leaf.tick:
            self.sent = event
        if event is not None and event.behind and stop.has("syscall_return"):
            stop = self._behind_call(debuggee, stop, fence)
        if stop.ended:
            # The program ended where the recording did; its process is of no use to anybody.
            self._land_at_end()
            return self.here(SIGNAL_TRAP, _END)
        if over and step is not None and stop.reasons == _END:
            stop = Stop(SIGNAL_TRAP, step)
        return self._arrive(debuggee, stop)

    def _waits(self, debuggee: Debuggee, turn: Turn) -> Stop:
        """The thread that is resumed alone has come to where it is another one's turn, or to its end."""
        self.turn = turn
        return self._arrive(debuggee, Stop(SIGNAL_NONE, debuggee.real(self.lock.thread)))
