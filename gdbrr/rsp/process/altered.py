"""A leaf that its user changed: written to, or running a function that GDB calls. The next move leaves it behind.

Runs in: the server. May call: gdbrr.rsp.debuggee, gdbrr.rsp.process.kernel.
Owns: which threads were moved and from where; the engine's gate of a thread that runs a called function.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from gdbrr.errors import GdbrrError
from gdbrr.rsp.debuggee import Debuggee
from gdbrr.rsp.ids import beyond_door
from gdbrr.rsp.process.kernel import WAY_OUT, Kernel, Verdict
from gdbrr.rsp.reverse import HARDWARE, HARDWARE_SLOTS, SOFTWARE, Held, slots
from gdbrr.rsp.stop import SIGNAL_NONE, SIGNAL_SEGV, SIGNAL_SYS, SIGNAL_TRAP, Stop
from gdbrr.rsp.upstream import Told


class Altered:
    """INVARIANT(no-demo-behind-a-change): a changed leaf never runs on as the demo says. Only the thread in which GDB
    calls a function runs, past the gate, and its calls of the kernel are judged here."""

    def __init__(self, debuggee: Debuggee, told: Told, say: Callable[[str | bytes], None]) -> None:
        self._debuggee = debuggee
        self._told = told
        self._say = say
        self._kernel = Kernel(debuggee, say)
        self._home: dict[int, tuple[int, int]] = {}
        """Of each thread whose registers were written: pc and stack pointer before."""
        self.told: set[Held] = set()
        """Watched places of whose change a stop has told."""
        self._calling = 0
        self._open: set[int] = set()

    def write_registers(self, tid: int, payload: bytes) -> bytes:
        if payload[:1] == b"P":
            return b""  # gdbserver 13.1 knows none; GDB writes all of them then
        debuggee = self._debuggee
        if len(payload) != 1 + len(debuggee.g(tid)):
            raise GdbrrError("registers of another length than those of this process")
        if tid not in debuggee.displaced:
            self._home[tid] = self._place(tid)
        debuggee.upstream.select_thread(tid)
        reply = debuggee.upstream.request(payload)
        if reply == b"OK":
            debuggee.displaced.add(tid)
        return reply

    def write_memory(self, payload: bytes) -> bytes:
        return self._debuggee.upstream.request(payload)

    def _place(self, tid: int) -> tuple[int, int]:
        regs = self._debuggee.registers(tid)
        return regs["rip"], regs["rsp"]

    def calling(self, held: set[Held], returns: set[int]) -> int:
        """The thread in which GDB calls a function, 0 for none. Such a function RETURNS to a breakpoint of GDB's, which
        is not inserted where one of the same address is left of a call that did not return, of a thread that is gone.
        """
        places = returns | {addr for kind, addr, _ in held if kind in (SOFTWARE, HARDWARE)}
        for tid, home in self._home.items():
            pc, stack = self._place(tid)
            if (pc, stack) == home:
                self._calling = 0 if self._calling == tid else self._calling
                continue
            back = int.from_bytes(self._debuggee.upstream.memory(stack, 8), "little")
            if self._calling == tid or back in places:
                self._calling = tid
                return tid
        return 0

    def run(self, tid: int, step: bool, signal: int, held: set[Held], returns: set[int]) -> Stop:
        """Let thread TID alone go on in the function that is called, until GDB has to know of a stop."""
        if signal:  # the engine takes it, and what was recorded up with it
            self._say(f"gdbrr: a called function gets no signals, and would go on from here by one. {WAY_OUT}\n")
            return Stop(SIGNAL_NONE, tid)
        upstream = self._debuggee.upstream
        self._open_gate(tid)
        if sum(map(slots, held)) > HARDWARE_SLOTS:
            held = {each for each in held if each[0] == SOFTWARE}
        upstream.sync_points(held)
        words = b"%b:%x" % (b"s" if step else b"c", tid)
        while True:
            stop = self._debuggee.resume(b"vCont;" + words)
            if stop.ended or stop.tid != tid:
                return stop
            length = 0
            if stop.signal == SIGNAL_SYS:
                verdict = self._answer(tid)
                if verdict is Verdict.STUCK:
                    return dataclasses.replace(stop, signal=SIGNAL_NONE)
            elif stop.signal == SIGNAL_SEGV and (length := self._lock(stop)):
                verdict = Verdict.PASS
            elif self._counter(stop, held):
                verdict = Verdict.ANSWERED
            elif self._place(tid)[0] in returns:
                return Stop(SIGNAL_TRAP, tid, (("swbreak", ""),))
            else:
                return stop
            if verdict is Verdict.PASS and step:
                upstream.sync_points(held | {(SOFTWARE, self._place(tid)[0] + length, 1)})
            elif step:
                return Stop(SIGNAL_TRAP, tid)
            words = b"C%02x:%x" % (stop.signal, tid) if verdict is Verdict.PASS else b"c:%x" % tid

    def _answer(self, tid: int) -> Verdict:
        verdict, result = self._kernel.judge(tid, self._debuggee.registers(tid))
        if verdict is Verdict.ANSWERED:
            self._put(tid, {"rax": result})
        return verdict

    def _lock(self, stop: Stop) -> int:
        """How long the lock inside the C library is that it stopped at, if it did: the engine does what that does."""
        pc = self._place(stop.tid)[0]
        return self._debuggee.library.beyond(pc, self._debuggee.upstream.memory(pc, 15)) or 0

    def _counter(self, stop: Stop, held: set[Held]) -> bool:
        """Whether it stopped because it reads the counter, which is answered here."""
        pc = self._place(stop.tid)[0]
        if stop.signal != SIGNAL_SEGV or any(pc == addr for _, addr, _ in held):
            return False
        debuggee = self._debuggee
        length = beyond_door(stop.signal, pc, debuggee.library, lambda size: debuggee.upstream.memory(pc, size))
        if length is None:
            return False
        rax, rdx = self._kernel.counter()
        self._put(stop.tid, {"rax": rax, "rdx": rdx, "rip": pc + length})
        return True

    def _put(self, tid: int, values: dict[str, int]) -> None:
        upstream = self._debuggee.upstream
        whole = {name: value & (1 << 64) - 1 for name, value in values.items()}  # -EPERM is no UNKNOWN
        packet = self._debuggee.layout.substitute(upstream.g(tid), whole, keep_call=True)
        upstream.request(b"G" + packet)

    def _open_gate(self, tid: int) -> None:
        """From here on library functions run as they are, and calls of the kernel come to be judged."""
        if tid in self._open:
            return
        self._open.add(tid)
        assert self._debuggee.leaf is not None
        upstream = self._debuggee.upstream
        word = self._debuggee.leaf.nest_at(tid)
        if word:
            nest = int.from_bytes(upstream.memory(word, 4), "little") + 1
            upstream.request(b"M%x,4:%b" % (word, nest.to_bytes(4, "little").hex().encode()))
        upstream.tell_signals(self._told, doors=False)
