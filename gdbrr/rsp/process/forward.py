"""Going forward in a replay: a leaf runs with as many watchpoints as the CPU has room for; for more, several runs do.

Runs in: the server. May call: gdbrr.rsp.debuggee, a Timeline.
Owns: how often a leaf runs, and how far.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

from gdbrr.rsp.debuggee import Debuggee, Event, Wait
from gdbrr.rsp.live import Session
from gdbrr.rsp.process import turns
from gdbrr.rsp.process.events import Events
from gdbrr.rsp.process.history import memory
from gdbrr.rsp.process.landing import Say
from gdbrr.rsp.process.turns import Lock
from gdbrr.rsp.reverse import SOFTWARE, WATCH, Fence, Held, watch_reason
from gdbrr.rsp.stop import SIGNAL_INT, SIGNAL_NONE, SIGNAL_TRAP, WATCHES, Stop
from gdbrr.rsp.upstream import Pool, Told
from gdbrr.timeline.model import Hit, Moment, Point, Progress, Sent, Timeline, Turn
from gdbrr.timeline.segment import is_repeated
from gdbrr.timeline.step.code import decoded

_END = (("replaylog", "end"),)
_LONGEST_INSTRUCTION = 15
COMPARED = 1 << 20
"""Bytes of a place that are compared at each stop."""
_BACKWARDS = 0x400
"""The direction flag."""


class Forward(Events):
    def __init__(self, session: Session, pool: Pool, told: Told, wait: Wait, say: Say) -> None:
        super().__init__(session, pool, told, wait, say)
        self.lock = Lock()
        self.turn: Turn | None = None
        """What the thread that was resumed alone waits for."""
        self._asked: tuple[Timeline, list[Point], Moment, int, Hit | None] | None = None
        """What was watched, from when on it was searched, and up to which tick the answer holds."""
        self._others: tuple[bool, list[Held]] = True, []
        """What changed together with that of which GDB has been told, and whether on a way forwards."""

    # ------------------------------------------------------------ runs

    def run(self, step: int | None, signals: Sequence[tuple[int, int]], progress: Progress | None = None) -> Stop:
        """Let the current leaf go on to what GDB wants to know of, thread STEP by one instruction or operation."""
        if self.points.fit:
            return self._run(step, signals, self.points.of())
        acting = None if step is None else self.require().virtual(step)
        if step is not None and not self.points.reads:
            start, thread = self.moment(), self.thread
            stop = self._step_watched(step, signals, self.points.code())
            if stop is not None:
                return stop
            self._again(start, thread)
        return self._to_first(acting, signals, progress)

    def _to_first(self, acting: int | None, signals: Sequence[tuple[int, int]], progress: Progress | None) -> Stop:
        """INVARIANT(searched-then-run): of more places than debug registers watch, the first that is stored to is
        looked for by copies; so one is enough for the leaf, from the operation on in whose segment that is."""
        code, now = self.points.code(), self.tick_of(self.thread)
        hit = self._first_behind(now, progress)
        if hit is None:
            return self._run(self._kernels(acting), signals, code)
        if hit.moment.tick > now:
            stop = self._run(self._kernels(acting), signals, code, Turn(hit.moment.tick, hit.thread))
            if stop.signal != SIGNAL_NONE or self._tick() != hit.moment.tick:
                return stop
        watch = self.points.piece(hit.addr)
        old = self.contents([watch[1:]])
        while True:
            stop = self._run(self._kernels(acting), signals, code | {watch})
            same = watch[0] == WATCH and stop.has(*WATCHES) and self.contents([watch[1:]]) == old
            if acting is not None or not same:
                return stop

    def _first_behind(self, tick: int, progress: Progress | None) -> Hit | None:
        """The first hit of what is watched from now on, in TICK; one that was found before is still the first while it
        lies ahead."""
        asked, points = self._asked, self.points.watched()
        if asked is None or asked[:2] != (self._timeline(), points) or not asked[2].tick <= tick < asked[3]:
            now = self.moment(progress)
            hit = self._timeline().first_hit(points, now, progress)
            until = self._timeline().end.tick + 1 if hit is None else hit.moment.tick
            self._asked = asked = self._timeline(), points, now, until, hit
        return asked[4]

    def _kernels(self, acting: int | None) -> int | None:
        return None if acting is None else self.require().real(acting)

    def _again(self, moment: Moment, thread: int) -> None:
        self.land(moment)
        self.thread = thread

    def _step_watched(self, step: int, signals: Sequence[tuple[int, int]], held: set[Held]) -> Stop | None:
        """A step in one segment: what has changed is seen behind it. None if others ran as well."""
        tick = self._tick()
        stop = self._run(step, signals, held)
        return stop if self._tick() == tick else None

    def _tick(self) -> int:
        leaf = self.require().leaf
        return leaf.tick if leaf is not None else -1

    # ------------------------------------------------------------ what changed together

    def watched(self, steps: bool) -> dict[Held, bytes]:
        """What is where something is watched; of larger places only for STEPS, which have no other way to tell."""
        places = [held for held in self.points.places if steps or held[2] <= COMPARED]
        return dict(zip(places, self.contents([held[1:] for held in places]), strict=True))

    def told(self, stop: Stop, before: dict[Held, bytes], forwards: bool) -> Stop:
        """INVARIANT(each-change-is-told): of several places that one execution has changed since BEFORE, GDB hears of
        one at a stop, and of the next one when it goes on the same way."""
        now = self.contents([held[1:] for held in before])
        others = [
            held
            for (held, old), new in zip(before.items(), now, strict=True)
            if old != new and not any(held[1] <= at < sum(held[1:]) for at in stop.watched)
        ]
        if stop.ended or stop.has("replaylog"):
            others = []
        elif others and not stop.reasons and stop.signal == SIGNAL_TRAP:  # a step
            stop = dataclasses.replace(stop, reasons=(watch_reason(others.pop(0)),))
        self._others = forwards, others
        return stop

    def undone(self, forwards: bool, progress: Progress | None = None) -> None:
        """The way goes on, and what was changed by hand is undone: GDB, which was told of a change to a watched place
        by a function that it called, hears that it is as before."""
        if self.altered is None:
            return
        was = {held: data for held, data in self.watched(True).items() if held in self.altered.told}
        self.undo(progress)
        now = self.contents([held[1:] for held in was])
        self._others = forwards, [held for held, new in zip(was, now, strict=True) if was[held] != new]

    def next_told(self, forwards: bool) -> Stop | None:
        way, others = self._others
        others = [held for held in others if way == forwards and held in self.points.held]
        self._others = forwards, others[1:]
        return self.here(SIGNAL_TRAP, (watch_reason(others[0]),)) if others else None

    def contents(self, places: Sequence[tuple[int, int]]) -> list[bytes]:
        leaf = self.require().leaf
        assert leaf is not None
        return [memory(leaf, addr, length) for addr, length in places]

    def _run(
        self, step: int | None, signals: Sequence[tuple[int, int]], held: set[Held], until: Turn | None = None
    ) -> Stop:
        debuggee = self.require()
        stepped = debuggee.registers(step).get("rip", 0) if step is not None else None
        over = stepped is not None and self.points.stepping_over(stepped)
        leaf = debuggee.leaf
        assert leaf is not None
        fence = self._fence(debuggee, leaf)
        if debuggee.at_end or (fence is not None and self._at(fence, debuggee)):
            return self._nowhere() if over else self.here(SIGNAL_TRAP, _END)
        alone = debuggee.real(self.lock.thread) if self.lock.thread else 0
        turn = turns.another(debuggee, self._timeline(), alone) if alone else None
        if turn is not None and turns.is_now(debuggee, turn, alone):
            return self._waits(debuggee, turn)
        event = self._next_event(debuggee, leaf, step)
        self._moment = self.sent = None
        self._crash = 0
        if (
            until is not None
            and (event is None or until.tick <= event.tick)
            and (turn is None or until.tick < turn.tick)
        ):
            return self._arrive(debuggee, self._run_leaf(debuggee, step, signals, held, fence, until))
        if turn is not None and (event is None or turn.tick <= event.tick):
            stop, event = self._run_leaf(debuggee, step, signals, held, fence, turn), None
            if stop.signal == SIGNAL_NONE:
                return self._waits(debuggee, turn)
        elif event is not None and debuggee.standing and event.tick == leaf.tick:
            stop = debuggee.at_event(event)
        else:
            stop = self._run_leaf(debuggee, step, signals, held, fence, event)
        if event is not None and leaf.tick > event.tick:
            return self.land_at(event)  # Ctrl-C had stopped its thread on the way into it, where it cannot be held
        if isinstance(event, Sent) and debuggee.standing and event.tick == leaf.tick:
            self.sent = event
        if event is not None and event.behind and stop.has("syscall_return"):
            stop = self._behind_call(debuggee, stop, fence)
        if stop.has(*WATCHES):
            stop = self._whole(debuggee, stop, fence)
        elif stop.signal == SIGNAL_INT and not stop.ended:
            met = self._whole(debuggee, stop, fence, debuggee.registers(stop.tid).get("rip"))
            stop = dataclasses.replace(met, signal=SIGNAL_INT) if met.tid == stop.tid and not met.reasons else met
        elif stepped is not None and stop.signal == SIGNAL_TRAP and not stop.reasons and not stop.ended:
            watched = {place for place in held if place[0] >= WATCH}
            stop = self._whole(debuggee, stop, fence, stepped, watched)
        if stop.ended:
            # The program ended where the recording did; its process is of no use to anybody.
            self._land_at_end()
            return self.here(SIGNAL_TRAP, _END)
        if over and step is not None and stop.reasons == _END:
            stop = Stop(SIGNAL_TRAP, step)
        return self._arrive(debuggee, stop)

    def _run_leaf(
        self,
        debuggee: Debuggee,
        step: int | None,
        signals: Sequence[tuple[int, int]],
        held: set[Held],
        fence: Fence | None,
        until: Event | Turn | None,
    ) -> Stop:
        """INVARIANT(no-moment-in-the-engine): whom Ctrl-C meets there, on its way to an operation or back, goes on to
        that or out of it, so that what one sees and steps from is the program."""
        leaf, conditions = debuggee.leaf, self.points.conditions
        assert leaf is not None
        stop = debuggee.run_leaf(step, signals, held, fence, until, conditions)
        if stop.ended or stop.signal != SIGNAL_INT or not (back := debuggee.out_of_engine(stop.tid)):
            return stop
        told = until is not None and until.tick <= leaf.tick
        own = (SOFTWARE, back, 1)
        landed = debuggee.run_leaf(None, [], held | {own}, fence, until if told else Turn(leaf.tick, 0), conditions)
        there = landed.signal == SIGNAL_NONE and not told
        if there or (own not in held and landed.has("swbreak") and debuggee.registers(landed.tid).get("rip") == back):
            return Stop(SIGNAL_INT, landed.tid)
        return landed

    def _nowhere(self) -> Stop:
        """The end, met by a step over a breakpoint. GDB 13.1 may not be told that, see PointTable.stepping_over; and of
        a SIGTRAP where the breakpoint is it makes another hit."""
        self.say_end()
        return self.here(SIGNAL_NONE)

    def say_end(self) -> None:
        way = "reverse-continue" if self.live is None else "rr-live"
        self.say(f"gdbrr: nothing is recorded behind here. Try: {way}\n")

    def _whole(
        self,
        debuggee: Debuggee,
        stop: Stop,
        fence: Fence | None,
        stepped: int | None = None,
        watched: Collection[Held] = (),
    ) -> Stop:
        """A repeated string instruction is one execution, and stops behind it: in the middle there are no moments.

        STEPPED is the instruction that was to be stepped over, where the stop is for nothing else; what is WATCHED may
        still come.
        """
        regs = debuggee.registers(stop.tid)
        code = debuggee.upstream.memory(regs["rip"], 2 * _LONGEST_INSTRUCTION)
        past = 8 if regs["eflags"] & _BACKWARDS else -8
        inside = any(
            addr - 8 < regs[name] + past < addr + length
            for kind, addr, length in self.points.held
            for name in (("rdi",) if kind == WATCH else ("rdi", "rsi") if kind > WATCH else ())
        )
        inside = inside if stepped is None else regs["rip"] == stepped
        insn = decoded(code)
        if not is_repeated(code) or insn is None or not regs["rcx"] or not inside:
            return stop
        behind = regs["rip"] + insn.length
        landed = debuggee.run_leaf(None, [], {(SOFTWARE, behind, 1), *watched}, fence)
        if landed.has(*WATCHES):
            return self._whole(debuggee, landed, fence)
        plain = landed.has("swbreak") and landed.tid == stop.tid
        return dataclasses.replace(landed, reasons=stop.reasons) if plain else landed

    def _waits(self, debuggee: Debuggee, turn: Turn) -> Stop:
        """The thread that is resumed alone has come to where it is another one's turn, or to its end."""
        self.turn = turn
        return self._arrive(debuggee, Stop(SIGNAL_NONE, debuggee.real(self.lock.thread)))
