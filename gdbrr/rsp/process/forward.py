"""Going forward in a replay: a leaf runs with as many watchpoints as the CPU has room for; for more, several runs do.

Runs in: the server. May call: gdbrr.rsp.debuggee, a Timeline.
Owns: the breakpoints GDB wants, and the moment a leaf stands at.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from gdbrr.errors import GdbrrError
from gdbrr.rsp.debuggee import Debuggee, Fence, Wait
from gdbrr.rsp.live import Session
from gdbrr.rsp.process import turns
from gdbrr.rsp.process.history import memory
from gdbrr.rsp.process.landing import Landing, Say
from gdbrr.rsp.process.turns import Lock
from gdbrr.rsp.reverse import WATCH, Held, PointTable
from gdbrr.rsp.stop import SIGNAL_NONE, SIGNAL_TRAP, Stop
from gdbrr.rsp.upstream import Pool, Told
from gdbrr.timeline.model import Call, Leaf, Moment, Point, PointKind, Progress, Turn, as_recorded

_END = (("replaylog", "end"),)


class Forward(Landing):
    def __init__(self, session: Session, pool: Pool, told: Told, wait: Wait, say: Say) -> None:
        super().__init__(session, pool, told, wait, say)
        self.points = PointTable()
        self.lock = Lock()
        self.turn: Turn | None = None
        """What the thread that was resumed alone waits for."""
        self.engine_frames = False
        """GDB gets the registers of a thread in the engine as they are, not those of the call that led there."""

    # ------------------------------------------------------------ now

    def moment(self, progress: Progress | None = None) -> Moment:
        """The current moment of a replay. A leaf that ran is found again by its tick and registers."""
        if self._moment is None:
            self._moment = self._locate(self.thread, progress)
        return self._moment

    def moment_known(self) -> Moment | None:
        return self._moment

    def _locate(self, thread: int, progress: Progress | None) -> Moment:
        debuggee = self.require()
        leaf = debuggee.leaf
        timeline = self._timeline()
        assert leaf is not None
        tid = debuggee.real(thread)
        view = debuggee.views().get(tid)
        if view is None or (view.in_engine and not view.trapped):
            return Moment(min(leaf.tick, timeline.end.tick))
        tick = view.tick if view.tick is not None else max(leaf.tick - 1, timeline.start.tick)
        regs = as_recorded(debuggee.registers(tid), [*debuggee.views().values()])
        moment = timeline.locate(tick, view.index, regs, progress, like=leaf.pid)
        self.approximate = timeline.doubtful
        return moment

    def here(self, signal: int, reasons: tuple[tuple[str, str], ...] = ()) -> Stop:
        """A stop at the current place."""
        debuggee = self.require()
        tid = debuggee.real(self.thread)
        return Stop(signal, self.thread, reasons, self._expedited(debuggee, tid))

    def _expedited(self, debuggee: Debuggee, tid: int) -> dict[int, bytes]:
        """What GDB is told unasked."""
        return {} if self.engine_frames else debuggee.expedited(tid)

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
        self._moment = None
        self._crash = 0
        call = self._next_call(debuggee, leaf, step)
        if turn is not None and (call is None or turn.tick <= call.tick):
            stop, call = debuggee.run_leaf(step, signals, held, fence, turn), None
            if stop.signal == SIGNAL_NONE:
                return self._waits(debuggee, turn)
        elif call is not None and debuggee.standing and call.tick == leaf.tick:
            stop = debuggee.at_call(call)
        else:
            stop = debuggee.run_leaf(step, signals, held, fence, call)
        if call is not None and leaf.tick > call.tick:
            return self.land_at_call(call)  # Ctrl-C had stopped its thread on the way into it, where it cannot be held
        if call is not None and call.behind and stop.has("syscall_return"):
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

    def _next_call(self, debuggee: Debuggee, leaf: Leaf, step: int | None) -> Call | None:
        """The system call to stop at, if nothing stops it before. A thread that is stepped comes to none, as without a
        replay, and one that stands in front of its call goes on from there."""
        numbers = self.points.calls
        if numbers is None:
            return None
        view = debuggee.views().get(step) if step is not None else None
        stepped = view.index if view is not None else None
        call = self._timeline().next_call(leaf.tick, numbers, stepped)
        if call is not None and call.tick == leaf.tick and debuggee.standing and not call.behind:
            call = self._timeline().next_call(leaf.tick + 1, numbers, stepped)
        return call

    def _behind_call(self, debuggee: Debuggee, stop: Stop, fence: Fence | None = None) -> Stop:
        """From in front of the end of a system call, as STOP says, to where the program goes on."""
        landed = debuggee.run_leaf(stop.tid, [], set(), fence)
        plain = landed.signal == SIGNAL_TRAP and not landed.ended and not landed.reasons
        return dataclasses.replace(landed, reasons=stop.reasons) if plain else landed

    def land_at_call(self, call: Call, progress: Progress | None = None) -> Stop:
        self.land(Moment(call.tick), progress, call.thread)
        debuggee = self.require()
        stop = debuggee.at_call(call)
        if call.behind:
            self._moment = None
            stop = self._behind_call(debuggee, stop)
        return self._arrive(debuggee, stop)

    def _fence(self, debuggee: Debuggee, leaf: Leaf) -> Fence | None:
        end = self._timeline().end
        if end.pc is None:
            return None

        def is_end(tid: int) -> bool:
            try:
                return self._locate(debuggee.virtual(tid), None) == end
            except GdbrrError:  # what cannot be told apart from the end is not taken for it
                return False

        return Fence(end.pc, end.tick, is_end)

    def _at(self, fence: Fence, debuggee: Debuggee) -> bool:
        """Whether the leaf is at the end already; its moment is looked for only where it can be."""
        assert debuggee.leaf is not None
        tid = debuggee.real(self.thread)
        return (
            debuggee.leaf.tick >= fence.tick
            and debuggee.registers(tid).get("rip") == fence.pc
            and (self._moment == self._timeline().end or fence.is_end(tid))
        )

    def _arrive(self, debuggee: Debuggee, stop: Stop) -> Stop:
        self.thread = debuggee.virtual(stop.tid)
        return dataclasses.replace(stop, tid=self.thread, registers=self._expedited(debuggee, stop.tid))
