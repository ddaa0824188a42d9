"""What stops a replay where nothing is executed: system calls that are caught, and signals that reach a handler.

Runs in: the server. May call: gdbrr.rsp.debuggee, a Timeline.
Owns: the moment a leaf stands at, the breakpoints GDB wants, and which of several events of one moment GDB knows of.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from gdbrr.errors import GdbrrError
from gdbrr.rsp.debuggee import Debuggee, Event, Wait
from gdbrr.rsp.ids import SYSCALL, mapped
from gdbrr.rsp.live import Session
from gdbrr.rsp.process.landing import Landing, Say
from gdbrr.rsp.reverse import Fence, PointTable
from gdbrr.rsp.stop import SIGNAL_NONE, SIGNAL_TRAP, Stop, from_kernel, name_of, to_kernel
from gdbrr.rsp.upstream import Pool, Told
from gdbrr.timeline.model import Call, Hit, Leaf, Moment, Point, PointKind, Progress, Sent


def _place(event: Event) -> tuple[int, int]:
    """By which events are in the order of time: in front of a handler a call returns, and then the signal comes."""
    return event.tick, 2 * event.behind if isinstance(event, Call) else 1


class Events(Landing):
    def __init__(self, session: Session, pool: Pool, told: Told, wait: Wait, say: Say) -> None:
        super().__init__(session, pool, told, wait, say)
        self.points = PointTable()
        self.engine_frames = False
        """GDB gets the registers of a thread in the engine as they are, not those of the call that led there."""
        self._caught: tuple[Moment, Call] | None = None
        """The return from a system call that a move back stopped at last, and where."""

    def libraries(self, annex: bytes) -> bytes:
        """INVARIANT(gone-with-its-library): a breakpoint where nothing is any more is none."""
        data = super().libraries(annex)
        self.points.keep(mapped(self.require().pid, lambda allowed, path: True))
        return data

    # ------------------------------------------------------------ now

    def moment(self, progress: Progress | None = None) -> Moment:
        """The current moment of a replay. A leaf that ran is found again by its tick and registers."""
        if self._moment is None:
            self._moment = self._locate(self.thread, progress)
        return self._moment

    def moment_known(self) -> Moment | None:
        return self._moment

    def tick_of(self, thread: int) -> int:
        """That of the moment at which a thread of the leaf stands."""
        debuggee = self.require()
        leaf, timeline = debuggee.leaf, self._timeline()
        assert leaf is not None
        view = debuggee.views().get(debuggee.real(thread))
        if view is None or (view.in_engine and not view.trapped):
            return min(leaf.tick, timeline.end.tick)
        tick = view.tick if view.tick is not None else max(leaf.tick - 1, timeline.start.tick)
        return timeline.segment_of(view.index, tick)

    def _stands(self, thread: int, progress: Progress | None) -> Moment:
        """What is in front of THREAD: of one that waits for its turn, an operation that comes later than now."""
        if self._due is None or thread != self.thread:
            debuggee = self.require()
            view = debuggee.views().get(debuggee.real(thread))
            if view is not None and view.in_engine and not view.trapped and debuggee.leaf is not None:
                return self._timeline().waiting(view.index, debuggee.leaf.tick)
        return self.moment(progress) if thread == self.thread else self._locate(thread, progress)

    def _locate(self, thread: int, progress: Progress | None) -> Moment:
        debuggee = self.require()
        leaf = debuggee.leaf
        timeline = self._timeline()
        assert leaf is not None
        tid = debuggee.real(thread)
        view, tick = debuggee.views().get(tid), self.tick_of(thread)
        if view is None or (view.in_engine and not view.trapped):
            return Moment(tick)
        regs, views = debuggee.registers(tid), [*debuggee.views().values()]
        moment = timeline.locate(tick, view.index, regs, progress, like=leaf.pid, views=views)
        self.approximate = timeline.doubtful
        return moment

    def here(self, signal: int, reasons: tuple[tuple[str, str], ...] = ()) -> Stop:
        """A stop at the current place."""
        debuggee = self.require()
        tid = debuggee.real(self.thread)
        return Stop(signal, self.thread, reasons, self._expedited(debuggee, tid))

    def again(self) -> Stop:
        """The same, as it was told before: with the signal that it stopped with."""
        return self.here(self._crash or (SIGNAL_NONE if self.sent is None else from_kernel(self.sent.number)))

    def _expedited(self, debuggee: Debuggee, tid: int) -> dict[int, bytes]:
        """What GDB is told unasked."""
        return {} if self.engine_frames else debuggee.expedited(tid)

    def _stops_here(self) -> tuple[tuple[str, str], ...]:
        """Why GDB stops where one stands, for who comes from behind it."""
        debuggee = self.require()
        pc = debuggee.registers(debuggee.real(self.thread)).get("rip", 0)
        return self.points.reasons(Hit(self._timeline().end, Point(PointKind.EXEC, pc), 0))

    def seen_in(self, thread: int, stop: Stop) -> Stop:
        """STOP as one of THREAD, which GDB has stepped: it knows of no stop in another one."""
        debuggee = self.require()
        return dataclasses.replace(stop, tid=thread, registers=self._expedited(debuggee, debuggee.real(thread)))

    def _in_thread(self, thread: int, stop: Stop) -> Stop:
        """STOP, the end of time, in the thread that was resumed alone: GDB knows of no stop in another one."""
        debuggee = self.require()
        if thread not in [debuggee.virtual(tid) for tid in debuggee.tids()]:
            return stop
        self.thread = thread
        return self.here(stop.signal, stop.reasons)

    def _arrive(self, debuggee: Debuggee, stop: Stop) -> Stop:
        self.thread = debuggee.virtual(stop.tid)
        return dataclasses.replace(stop, tid=self.thread, registers=self._expedited(debuggee, stop.tid))

    # ------------------------------------------------------------ signals

    def _passed(self) -> frozenset[int]:
        return to_kernel(self._told.pass_signals)

    def siginfo(self, tid: int) -> bytes:
        """Of the signal that thread TID stopped with, where that is one of the recording, or told by the engine."""
        if self.current is not None and self.current.sent is not None and self.current.sent[0] == tid:
            return self.current.sent[2]
        if self.sent is None or self.current is None:
            return b""
        view = self.current.views().get(tid)
        return self._timeline().siginfo(self.sent.tick) if view is not None and view.index == self.sent.thread else b""

    def _but_recorded(self, signals: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """SIGNALS that GDB delivers, less those that are the recording's to deliver, or never were. What a thread has
        brought on itself it gets again."""
        sent = from_kernel(self.sent.number) if self.sent is not None else None
        if sent is not None and sent not in [number for _, number in signals]:
            self.say("gdbrr: the signal is delivered all the same: so it was recorded\n")
        others = [(tid, number) for tid, number in signals if number != sent]
        own = [each for each in others if each[1] in (self._crash, self._brought(each[0]))]
        for number in {number for _, number in others} - {number for _, number in own}:
            self.say(f"gdbrr: {name_of(number)} is not delivered: it was not recorded here\n")
        return own

    def _brought(self, tid: int) -> int:
        """The signal that the process of the replay itself has stopped thread TID with."""
        return from_kernel(self.require().upstream.signal_of(tid)[0])

    # ------------------------------------------------------------ forwards

    def _next_event(self, debuggee: Debuggee, leaf: Leaf, step: int | None) -> Event | None:
        """The call or signal to stop at, if nothing stops it before."""
        told = self.sent is not None and self.sent.tick == leaf.tick
        sent = self._timeline().next_signal(leaf.tick + told, self._passed())
        events: list[Event | None] = [self._next_call(debuggee, leaf, step), sent]
        return min((event for event in events if event is not None), key=_place, default=None)

    def _next_call(self, debuggee: Debuggee, leaf: Leaf, step: int | None) -> Call | None:
        """A thread that is stepped comes to none, as without a replay, and one that stands in front of its call goes on
        from there."""
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

    def land_at(self, event: Event, progress: Progress | None = None) -> Stop:
        self.land(Moment(event.tick), progress, event.thread)
        debuggee = self.require()
        stop = debuggee.at_event(event)
        if event.behind:
            self._moment = None
            stop = self._behind_call(debuggee, stop)
        self.sent = event if isinstance(event, Sent) else None
        return self._arrive(debuggee, stop)

    # ------------------------------------------------------------ back

    def _event_before(self, progress: Progress | None, thread: int | None = None) -> Event | None:
        """The last call or signal to stop at before now, of THREAD."""
        now, call = self.moment(progress), self._call_before(progress, thread)
        sent = self._timeline().last_signal(now.tick + (now.pc is not None), self._passed(), thread)
        events: list[Event | None] = [call, sent]
        return max((event for event in events if event is not None), key=_place, default=None)

    def _call_before(self, progress: Progress | None, thread: int | None = None) -> Call | None:
        """The last system call to stop at before now, of THREAD. A return is where the program goes on; one that is
        there already has come from it."""
        numbers = self.points.calls
        if numbers is None:
            return None
        now = self.moment(progress)
        call = self._timeline().last_call(now.tick + (now.pc is not None or self.sent is not None), numbers, progress)
        while call is not None and thread not in (None, call.thread):
            call = self._timeline().last_call(call.tick, numbers, progress)
        if call is None or not call.behind or (self._caught != (now, call) and not self._is_behind_call(now, call)):
            return call
        return self._timeline().last_call(call.tick, numbers, progress)

    def _is_behind_call(self, now: Moment, call: Call) -> bool:
        if now.tick != call.tick or now.pc is None or now.nth != 1:
            return False
        return self.require().upstream.memory(now.pc - 2, 2) == SYSCALL

    def _back_to(self, event: Event, progress: Progress | None) -> Stop:
        stop = self.land_at(event, progress)
        if isinstance(event, Call):
            self._caught = self.moment(progress), event
        return stop

    # ------------------------------------------------------------ the end

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
