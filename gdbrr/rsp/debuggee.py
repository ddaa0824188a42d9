"""How one process under one gdbserver, a leaf or the live one, runs and stops.

Runs in: the server. May call: gdbrr.rsp.upstream, gdbrr.timeline.model, /proc of the process.
Owns: when the engine of a leaf is released.
"""

from __future__ import annotations

import dataclasses
import os
import re
import signal
from collections.abc import Callable, Mapping, Sequence

from gdbrr.abi import lib
from gdbrr.errors import GdbrrError
from gdbrr.rsp.ids import DOORS, SYSCALL, behind_call, beyond_door, in_data
from gdbrr.rsp.live import HANDOVER, Live, resume_verb
from gdbrr.rsp.process.threads import Attached
from gdbrr.rsp.regs import RSP
from gdbrr.rsp.reverse import HARDWARE, SOFTWARE, WATCH, Fence, Held, watch_reason
from gdbrr.rsp.stop import SIGNAL_INT, SIGNAL_NONE, SIGNAL_TRAP, WATCHES, Stop, from_kernel
from gdbrr.rsp.upstream import NO_CONDITIONS, Told, Upstream
from gdbrr.timeline.library import Library, behind_stub
from gdbrr.timeline.model import Call, Interrupted, Leaf, Sent, Turn

Event = Call | Sent
"""What is told to GDB at an operation."""
Wait = Callable[[Upstream], Stop]
"""Waits for the stop of a resumed gdbserver and passes Ctrl-C on to it meanwhile."""

_JUMP = b"\xe9"
_LONGEST_CALL = 8
_SIGINFO = 128
"""Bytes of a siginfo_t."""
_END = (("replaylog", "end"),)
_STEP = re.compile(rb";[sS](?:[0-9a-f]{2})?:([0-9a-f]+)")
_PUSHES_FLAGS = re.compile(rb"[\x66\x40-\x4f]*\x9c")
_TRAP_FLAG = 0x100


class Debuggee(Attached):
    """A process that can be resumed."""

    def __init__(
        self, upstream: Upstream, told: Told, wait: Wait, leaf: Leaf | None = None, live: Live | None = None
    ) -> None:
        super().__init__(upstream, told, leaf, live)
        self._wait = wait
        self._fresh = self.live is not None
        self._until: Event | Turn | None = None
        self._conditions = NO_CONDITIONS  # while it runs for GDB
        self._watched: dict[Held, bytes] = {}
        """What was in watched places of a leaf when it was let go."""
        self.library = Library(self.pid)
        if self.live is not None:
            # It was handed over stopped by SIGSTOP, and to the kernel it still is: each new thread would join that
            # stop and be reported. SIGCONT ends it; neither signal is the program's or GDB's business.
            os.kill(self.pid, signal.SIGCONT)

    # ------------------------------------------------------------ going forward

    def run_live(
        self,
        step: int | None,
        signals: Sequence[tuple[int, int]],
        words: Sequence[str],
        held: set[Held],
        conditions: Mapping[int, bytes],
    ) -> Stop:
        """Resume the live process just as GDB asks by WORDS, unless that would show the engine at work."""
        self._conditions = conditions
        assert self.live is not None
        plain = ("vCont;" + ";".join(words)).encode()
        self.points = {addr for kind, addr, _ in held if kind in (SOFTWARE, HARDWARE)}
        if "c" in words:
            self.passing = {tid: each for tid, each in self.passing.items() if tid == step}
        faults = {tid: (number, self._real_pc(Stop(tid=tid))) for tid, number in signals if tid in self.views()}
        stop = self._go_on(step, signals, held, None, plain)
        again = None if stop.ended else faults.get(stop.tid)
        if again and again == (stop.signal, self._real_pc(stop)) and not self.catches(stop.signal):
            # The program does not handle it, and the engine, which knows of it now, lets it happen again to end it.
            stop = self._run_to(None, None, self._passing(stop), held, None)
        while self._fresh and not stop.ended and stop.signal in HANDOVER:
            stop = self.resume(plain)
        self._fresh = False
        while self._at_trap(stop, self.live.call_pc):
            stop = self._caught(stop)
            if self.sent is None or stop.signal not in self.told.pass_signals:
                return self._signalled(stop)
            stop = self.resume(b"vCont;C%02x:%x;c" % (stop.signal, stop.tid))
        if self._at_trap(stop, self.live.trap_pc):
            return dataclasses.replace(stop, reasons=_END)
        return self._signalled(stop)

    def _signalled(self, stop: Stop) -> Stop:
        own = not stop.ended and not stop.reasons and stop.signal not in (SIGNAL_NONE, SIGNAL_TRAP, SIGNAL_INT)
        self.signalled = stop.tid if own else 0
        self._inside.pop(stop.tid, None)
        return stop

    def _caught(self, stop: Stop) -> Stop:
        """The stop of the recorded process at a system call or a signal, as the engine tells it in registers."""
        words = self.upstream.registers(stop.tid)
        if words["rdi"] == lib.GR_DEBUG_SENT:
            number = from_kernel(words["rsi"])
            self.sent = stop.tid, number, self.upstream.memory(words["rdx"], _SIGINFO)
            return Stop(number, stop.tid)
        name = "syscall_entry" if words["rdi"] == lib.GR_DEBUG_CALL else "syscall_return"
        return Stop(SIGNAL_TRAP, stop.tid, ((name, f"{words['rsi']:x}"),))

    def run_leaf(
        self,
        step: int | None,
        signals: Sequence[tuple[int, int]],
        held: set[Held],
        fence: Fence | None = None,
        until: Event | Turn | None = None,
        conditions: Mapping[int, bytes] = NO_CONDITIONS,
    ) -> Stop:
        """Let the leaf go on, thread STEP by one instruction or operation, and nobody behind UNTIL. Whoever's turn it
        is runs in any case: time belongs to the demo, and a thread alone would wait for its turn for ever."""
        assert self.leaf is not None
        if self.at_end:
            return Stop(SIGNAL_TRAP, self.turn(), _END)
        self._until, self._conditions = until, conditions
        self.passing = {} if step is None else self.passing
        plain = b"vCont;" + resume_verb("c" if step is None else "s", step, signals)
        return self._told(self._behind_store(self._go_on(step, signals, held, fence, plain), held, fence))

    def _behind_store(self, stop: Stop, held: set[Held], fence: Fence | None) -> Stop:
        """A watched place was stored to by an operation, or by the allocator: that happens at once, however many stores
        the engine makes of it. So the stop is where the program goes on."""
        if stop.ended or not stop.has("watch", "awatch", "rwatch") or not self.is_in_engine(self._real_pc(stop)):
            return stop
        view = self.views().get(stop.tid)
        code = {each for each in held if each[0] == SOFTWARE}
        landed = dataclasses.replace(stop, reasons=())
        if view is not None and view.in_engine and view.ret_pc:
            landed = self._run_to(stop.tid, view.ret_pc, b"vCont;c", code, fence)
        landed = self._out_of_engine(stop.tid, landed, code, fence)
        if landed.ended or landed.tid != stop.tid or landed.signal != SIGNAL_TRAP or landed.has("replaylog"):
            return landed
        return dataclasses.replace(landed, reasons=stop.reasons)

    def _go_on(
        self, step: int | None, signals: Sequence[tuple[int, int]], held: set[Held], fence: Fence | None, plain: bytes
    ) -> Stop:
        """PLAIN is what resumes the process where nothing of the engine is in the way."""
        if step is None:
            return self._run_to(None, None, plain, held, fence)
        everybody = b"vCont;" + resume_verb("c", None, signals)
        landing, whole = self._operation_end(step)
        if whole:
            handler = self.handler(step, signals)
            returned = not handler and self.live is not None and self._pc(step) == landing  # caught, and shown there
            stop = self._run_to(step, landing, everybody, held, fence, handler)
            if not returned or not self._landed(step, stop):
                return self._out_of_engine(step, stop, held, fence) if landing and self.leaf else stop
        regs, alone = self.registers(step), b"c" not in plain.split(b";")
        before = regs["rip"]
        if self.leaf is not None and self.is_in_engine(before):
            return self._out_of_engine(step, Stop(SIGNAL_TRAP, step), held, fence)
        self.passing.pop(step, None)
        if self.live is not None and self.is_in_engine(before) and not alone and (called := self.called(step)):
            self.passing[step] = called, regs  # it had come to a breakpoint there
            return self._run_to(step, called.ret_pc, everybody, held, fence)
        elsewhere = self.live is not None and self._real_pc(Stop(tid=step)) != before
        first_bytes = self.upstream.memory(before, 1)
        stop = self._stepped(plain, held, fence)
        if stop.ended or self._reached_end(stop):
            return stop
        if (length := self._at_door(stop)) is not None:
            landing = self._real_pc(stop) + length if stop.tid == step else None
            return self._run_to(step, landing, self._passing(stop), held, fence)
        if stop.tid != step or stop.signal != SIGNAL_TRAP or not self.is_in_engine(self._real_pc(stop)):
            return stop
        if self.leaf is not None:
            stop = self._run_to(step, self._way_back(step, before, first_bytes), b"vCont;c", held, fence)
            return self.left(step, stop, regs)
        called = self.called(step)
        if called is None or elsewhere or self._real_pc(stop) in self.points:
            return stop
        self.passing[step] = called, self.upstream.registers(step) if alone else regs
        return stop if alone else self._run_to(step, called.ret_pc, b"vCont;c", held, fence)

    def _stepped(self, words: bytes, held: set[Held], fence: Fence | None) -> Stop:
        """One step by WORDS, that of the program: for the engine's timer its handler runs to its end, in that thread
        alone, and then the step is made."""
        self._release(held)
        stop = self.resume(words)
        while self._is_engines_timer(stop):
            only = b"vCont;C%02x:%x" % (stop.signal, stop.tid)
            passed = self._run_to(stop.tid, self._real_pc(stop), only, held, fence)
            if passed.ended or passed.tid != stop.tid or passed.signal != SIGNAL_TRAP or passed.reasons:
                return passed
            self._release(held)
            stop = self.resume(words)
        return stop

    def _out_of_engine(self, tid: int, stop: Stop, held: set[Held], fence: Fence | None) -> Stop:
        """From STOP on until thread TID is in the program's code again: an operation that the engine itself calls, as
        the allocator does for memory, leads back into the engine.

        Only at its first instruction is the place to go back to on the stack: elsewhere a breakpoint there would be
        written into whatever the engine keeps, so frame by frame is stepped through, and calls are run through.
        """
        while self._landed(tid, stop) and self.is_in_engine(pc := self._real_pc(stop)):
            stop = self._stepped(b"vCont;" + resume_verb("s", tid, ()), held, fence)
            if not self._landed(tid, stop):
                break
            stack = int.from_bytes(bytes.fromhex(self.upstream.register(tid, RSP).decode()), "little")
            back = int.from_bytes(self.upstream.memory(stack, 8), "little")
            if pc < back <= pc + _LONGEST_CALL and not pc < self._real_pc(stop) <= pc + _LONGEST_CALL:
                stop = self._run_to(tid, back, b"vCont;c", held, fence)
        return stop

    def _landed(self, tid: int, stop: Stop) -> bool:
        """Whether a step of thread TID came to STOP, and nothing else happened."""
        if stop.ended or stop.tid != tid or stop.signal != SIGNAL_TRAP or stop.reasons:
            return False
        return not self._reached_end(stop)

    def materialise(self) -> None:
        """A leaf trapped inside a segment becomes one stopped there: out of the engine's trap handler, on to the
        very instruction. An int3 and no debug register: those may all be in use for the landing itself, and gdbserver
        ends when a resume finds none; a resume flag left in the trap's frame would skip the breakpoint besides."""
        assert self.leaf is not None
        trapped = next((view for view in self.views().values() if view.trapped), None)
        if trapped is None or self.leaf.ended:
            return
        pc = trapped.regs["rip"]
        self._release({(SOFTWARE, pc, 1)})
        stop = self.resume(b"vCont;c")
        self.upstream.sync_points(set())
        if stop.signal == SIGNAL_INT:
            raise Interrupted("interrupted")
        if stop.ended or stop.tid != trapped.tid or self._real_pc(stop) != pc:
            raise GdbrrError(
                f"the replay did not stop at {pc:#x} of {self.leaf.moment}", hint="try a moment before or behind it"
            )

    def _run_to(
        self, step: int | None, landing: int | None, words: bytes, held: set[Held], fence: Fence | None, also: int = 0
    ) -> Stop:
        """Everybody goes on, until thread STEP is at LANDING, or ALSO there, or something else stops the process.

        What brings a thread to the engine's door is passed on here. Of a thread whose last resume was a step gdbserver
        13.1 reports SIGSYS in spite of QPassSignals.
        """
        users = {addr for kind, addr, _ in held if kind in (SOFTWARE, HARDWARE)}
        while True:
            # Earlier on, the end's place may be in a library that is not loaded yet.
            near = fence is not None and (self.leaf is None or self.leaf.tick >= fence.tick)
            own = {pc for pc in (landing, also, fence.pc if fence and near else None) if pc}
            wanted = held | {(SOFTWARE, pc, 1) for pc in own}
            self._release(wanted, {pc: code for pc, code in self._conditions.items() if pc not in own})
            stop = self.resume(words)
            if stop.ended:
                return stop
            if self._reached_end(stop):
                if self.at_end or self._at_event():
                    return stop
                words = b"vCont;c"
                continue
            if self._at_door(stop) is not None:
                words = self._passing(stop)
                continue
            pc = self._real_pc(stop)
            if pc not in own or not stop.has("swbreak", "hwbreak"):
                return stop
            if fence and self.leaf and pc == fence.pc and self.leaf.tick >= fence.tick and fence.is_end(stop.tid):
                return dataclasses.replace(stop, reasons=_END)
            if pc in users:
                return stop
            if pc in (landing, also) and stop.tid == step:
                return dataclasses.replace(stop, reasons=())
            # A pass that nobody asked for: over it, that thread alone, and on.
            passed = self._over(stop)
            if self._at_door(passed) is not None:
                words = self._passing(passed)
                continue
            if passed.ended or self._reached_end(passed) or passed.signal != SIGNAL_TRAP or passed.reasons:
                return passed
            words = b"vCont;c"

    def _release(self, wanted: set[Held], conditions: Mapping[int, bytes] = NO_CONDITIONS) -> None:
        """Put breakpoints in place and tell the engine that it may go on when the process does."""
        self.upstream.sync_points(wanted - in_data(self.pid, wanted - self.upstream.inserted), conditions)
        if self.leaf is None:
            return
        tick = self._until.tick if self._until is not None else None
        watched = sorted(held for held in wanted if held[0] >= WATCH)
        places = [held[1:] for held in watched]
        self._watched = {held: self._held(held) for held in watched}
        if self.standing:
            self._tail_run = self.leaf.ended
            self.leaf.release(tick, places)
            self.standing = False
        else:
            self.leaf.stop_at(tick, places)

    def _held(self, held: Held) -> bytes:
        """What is there; where nothing is, zeros, as searches have it."""
        return self.upstream.memory(held[1], held[2]).ljust(held[2], b"\0")

    def _mapped(self, stop: Stop) -> Stop:
        """STOP where an operation has mapped, unmapped or dropped memory that is watched: a debug register does not see
        that. Only what is another than before is a stop."""
        changed = next((held for held, was in self._watched.items() if self._held(held) != was), None)
        if changed is not None:
            return dataclasses.replace(stop, reasons=(watch_reason(changed),))
        return self._resumed(b"vCont;c")

    def resume(self, words: bytes) -> Stop:
        stop = self._resumed(words)
        while self.leaf is not None and not stop.has(*WATCHES) and self._at_trap(stop, self.leaf.call_pc):
            stop = self._mapped(stop)
        while self._is_unseen(stop):
            stop = self._over(stop)
            if not stop.ended and stop.signal == SIGNAL_TRAP and not stop.reasons:
                stop = self._resumed(re.sub(rb"([CS])[0-9a-f]{2}", lambda match: match[1].lower(), words))
        return stop

    def _over(self, stop: Stop) -> Stop:
        """Over the breakpoint that it stopped at, its thread alone."""
        pc, points = self._real_pc(stop), set(self.upstream.inserted)
        codes = {held[1]: code for held, code in self.upstream.conditions.items()}
        self.upstream.sync_points({each for each in points if each[1] != pc}, codes)
        passed = self._resumed(b"vCont;s:%x" % stop.tid)
        if not passed.ended:
            self.upstream.sync_points(points, codes)
        return passed

    def _resumed(self, words: bytes) -> Stop:
        self._views = self._engine = self._gap = None
        self.signalled = 0
        words = self._taken(words)
        pushing = self._pushes_flags(words)
        self.upstream.resume(words)
        stop = self._wait(self.upstream)
        self.upstream.forget_selection()
        alone = b";s" in words
        while self._is_engines_fault(stop) or (not alone and self._is_engines_timer(stop)):
            self.upstream.resume(b"vCont;S%02x:%x" % (stop.signal, stop.tid) if alone else self._passing(stop))
            stop = self._wait(self.upstream)
            self.upstream.forget_selection()
        if stop.ended:
            self.upstream.pid = 0
            self.upstream.inserted.clear()
        elif pushing is not None and pushing[:2] == (stop.tid, self._real_pc(stop)):
            self._without_trap_flag(*pushing)
        if self.leaf is not None:
            self.leaf.check()
        return stop

    def _pushes_flags(self, words: bytes) -> tuple[int, int, int] | None:
        """Of a step by WORDS of an instruction that pushes the flags: the thread, where it goes on, and how many bytes
        it pushes. The flag that a debugger steps by is not the program's, and would be pushed with them."""
        stepped = _STEP.search(words)
        if stepped is None:
            return None
        tid = int(stepped[1], 16)
        regs = self.upstream.registers(tid)
        pushes = None if regs["eflags"] & _TRAP_FLAG else _PUSHES_FLAGS.match(self.upstream.memory(regs["rip"], 4))
        if pushes is None:
            return None
        return tid, regs["rip"] + len(pushes[0]), 2 if b"\x66" in pushes[0] else 8

    def _without_trap_flag(self, tid: int, pc: int, size: int) -> None:
        stack = self.upstream.registers(tid)["rsp"]
        flags = int.from_bytes(self.upstream.memory(stack, size), "little") & ~_TRAP_FLAG
        self.upstream.request(b"M%x,%x:%b" % (stack, size, flags.to_bytes(size, "little").hex().encode()))

    def _taken(self, words: bytes) -> bytes:
        """WORDS without the signal of which the engine has told: it has got that, and forgets it where it is not among
        them."""
        sent, self.sent = self.sent, None
        if sent is None:
            return words
        tid, number, _ = sent
        plain = re.sub(b"([CS])%02x(?=:%x(?:;|$))" % (number, tid), lambda match: match[1].lower(), words)
        if plain == words:
            self.upstream.set_register(tid, "rax", 1)
        return plain

    def _passing(self, stop: Stop) -> bytes:
        return b"vCont;" + resume_verb("c", None, [(stop.tid, stop.signal)])

    # ------------------------------------------------------------ operations

    def _operation_end(self, tid: int) -> tuple[int | None, bool]:
        """(where thread TID is when the operation it stands at is over, True); (None, False): it is at none.
        (None, True): the operation never returns."""
        view = self.view(tid)
        if view is not None and view.in_engine and not view.trapped:
            return view.ret_pc or None, bool(view.ret_pc or self.views()[tid].in_engine)
        if self.upstream.memory(self._pc(tid), 2) != SYSCALL:
            return None, False
        return behind_call(self.registers(tid), self.upstream.memory), True

    def _at_door(self, stop: Stop) -> int | None:
        """For a signal that is the engine's: how far behind the pc its thread goes on."""
        if stop.ended or stop.signal not in DOORS:
            return None
        return beyond_door(stop.signal, pc := self._real_pc(stop), self.library, lambda n: self.upstream.memory(pc, n))

    def _way_back(self, tid: int, before: int, first_bytes: bytes) -> int:
        """Where the program goes on, for a thread at the first instruction of the engine."""
        if first_bytes == _JUMP:
            return behind_stub(self._pc(tid), before, self.upstream.memory) or before + 5  # a patched call
        stack = int.from_bytes(bytes.fromhex(self.p(tid, RSP).decode()), "little")
        return int.from_bytes(self.upstream.memory(stack, 8), "little")

    # ------------------------------------------------------------ stops

    def _at_trap(self, stop: Stop, trap_pc: int) -> bool:
        """Whether STOP is the engine's own int3. gdbserver takes that for a breakpoint and sets the pc back to it,
        so that resuming would only run into it again: step over it here."""
        if stop.ended or stop.signal != SIGNAL_TRAP or not trap_pc:
            return False
        pc = self._real_pc(stop)
        if pc == trap_pc - 1:
            self.upstream.set_pc(stop.tid, trap_pc)
        return pc in (trap_pc - 1, trap_pc)

    def _reached_end(self, stop: Stop) -> bool:
        if self.leaf is not None and not self.standing and self._at_trap(stop, self.leaf.trap_pc):
            self.standing = True
            self._views = None
        return self.standing

    def _at_event(self) -> bool:
        """Whether it stands in front of the operation that it was to stop at."""
        leaf, until = self.leaf, self._until
        return leaf is not None and until is not None and leaf.tick == until.tick and self.standing and not self.at_end

    def at_event(self, event: Event | Turn | None = None) -> Stop:
        """The stop at what it was to stop at, or at EVENT; of a turn, that somebody waits for it."""
        event = event or self._until
        assert event is not None
        if isinstance(event, Turn):
            return Stop(SIGNAL_NONE, self.turn())
        tid = next((tid for tid, view in self.views().items() if view.index == event.thread), self.turn())
        if isinstance(event, Sent):
            return Stop(from_kernel(event.number), tid)
        return Stop(SIGNAL_TRAP, tid, (("syscall_return" if event.returns else "syscall_entry", f"{event.number:x}"),))

    def _told(self, stop: Stop) -> Stop:
        """STOP as GDB should see it."""
        if self.standing:
            return self.at_event() if self._at_event() else Stop(SIGNAL_TRAP, self.turn(), _END)
        if stop.signal == SIGNAL_INT and not stop.ended:
            return dataclasses.replace(stop, tid=self.busy())
        return stop

    # ------------------------------------------------------------ the end

    def halt(self) -> Stop:
        """Stop a process that was left running."""
        self._views = None
        self.upstream.interrupt()
        stop = self._wait(self.upstream)
        self.upstream.forget_selection()
        return stop

    def end(self) -> None:
        """Kill a leaf. The tracer goes first: a traced process is not dead before its tracer knows it."""
        self.upstream.kill()
        if self.leaf is not None:
            self.leaf.drop()
