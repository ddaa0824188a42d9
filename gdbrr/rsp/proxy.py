"""The conversation with one GDB: every request it may make, answered or passed on.

Runs in: the server, on its only thread. May call: gdbrr.rsp.*, gdbrr.timeline.model.
Owns: GDB's side of the session: features, selected threads, ids. Time is gdbrr.rsp.navigator's.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from typing import Any

from gdbrr.errors import GdbrrError
from gdbrr.rsp import bug, calls, stop
from gdbrr.rsp import request as rq
from gdbrr.rsp.debuggee import Debuggee
from gdbrr.rsp.ids import NoThread
from gdbrr.rsp.link import Closed, Link, Manner, Meter, Where
from gdbrr.rsp.live import Session
from gdbrr.rsp.navigator import Navigator
from gdbrr.rsp.packet import error_text, escape, to_hex, writes
from gdbrr.rsp.process import files
from gdbrr.rsp.process.altered import Altered
from gdbrr.rsp.process.terminal import Terminal
from gdbrr.rsp.process.threads import threads_xml
from gdbrr.rsp.process.vdso import Vdso
from gdbrr.rsp.request import ALL, ThreadId
from gdbrr.rsp.reverse import Target
from gdbrr.rsp.stop import SIGNAL_INT, SIGNAL_NONE, Stop
from gdbrr.rsp.upstream import MOST, Pool, Told, Upstream
from gdbrr.timeline.model import Interrupted
from gdbrr.timeline.step.code import USER

_PASSED_FEATURES = (
    *("QPassSignals+", "QProgramSignals+", "swbreak+", "hwbreak+", "augmented-libraries"),
    *(f"qXfer:{name}:read+" for name in ("auxv", "features", "libraries-svr4", "exec-file", "threads", "siginfo")),
)
_OWN_FEATURES = (
    *("ReverseContinue+", "ReverseStep+", "QCatchSyscalls+", "ConditionalBreakpoints+"),
    *("QStartNoAckMode+", "vContSupported+", "multiprocess+"),
    "PacketSize=40000",  # a watched array is read as a whole at each stop
)


class Proxy:
    def __init__(self, link: Link, session: Session) -> None:
        self._link = link
        self._pool = Pool()
        self._told = Told()
        self._terminal = Terminal(session.live, link.console) if session.live is not None else None
        self.navigator = Navigator(session, self._pool, self._told, self._wait, link.console)
        self._features: frozenset[str] = frozenset()
        self._general = 0
        self._continue = ThreadId(ALL)
        self._extended = False
        self._vdso: Vdso | None = None  # at the same place in every process of a session

    def open(self) -> None:
        """Bring up the first process, before GDB asks for it."""
        self.navigator.open()

    def run(self) -> None:
        """Until GDB leaves. Leaves, gdbservers and the live process end with it."""
        try:
            while True:
                payload = self._link.next_packet()
                request = rq.parse(payload)
                reply = self._answer(request)
                if reply is not None:
                    self._link.reply(reply)
                if isinstance(request, rq.NoAck):
                    self._link.acknowledge = False
                if isinstance(request, rq.Detach) or (isinstance(request, rq.Kill) and not self._extended):
                    return
        except Closed:
            return
        finally:
            self.close()

    def close(self) -> None:
        try:
            self.navigator.close()
        finally:
            self._pool.close()

    def _answer(self, request: rq.Request) -> bytes | None:
        handler: Callable[[Any], bytes | None] | None = _HANDLERS.get(type(request))
        if handler is None:
            return b""
        try:
            reply = handler(self, request)  # type: ignore[call-arg]
            failed = reply is not None and reply[:1] == b"E"
            return handler(self, request) if failed and self.navigator.replace() else reply  # type: ignore[call-arg]
        except Closed:
            raise
        except GdbrrError as error:
            return self._answer(request) if self.navigator.replace() else bug.refusal(request, error)
        except NoThread:
            return b"E03"
        except Exception as error:
            return bug.refusal(request, bug.internal(error))

    def _wait(self, upstream: Upstream) -> Stop:
        """Until UPSTREAM's process stops; meanwhile Ctrl-C goes to it, and the program's output to GDB."""

        interrupted: list[Upstream] = []

        def look() -> bool:
            self._link.pump()
            if self._link.take_interrupt():
                interrupted.append(upstream)
                upstream.interrupt()
            return True

        look()
        others: dict[int, Callable[[], bool]] = dict.fromkeys((self._link.fd, *self._link.wake_fds), look)
        terminal = self._terminal if self.navigator.recording else None
        stopped = upstream.wait_stop({**others, **(terminal.watched(upstream.fd) if terminal else {})})
        if terminal:
            terminal.drain()
        if interrupted and stopped.signal != SIGNAL_INT:
            self._link.keep_interrupt()  # a fault that recurs at once comes before any signal, each time
        return stopped

    # ------------------------------------------------------------ threads

    def _thread(self, tid: int) -> ThreadId:
        return ThreadId(tid, self.navigator.virtual_pid)

    def _wire(self, tid: int) -> bytes:
        return self._thread(tid).wire("multiprocess+" in self._features)

    def _selected(self) -> tuple[Debuggee, int]:
        """The process, and the kernel id of the thread that `g` and `m` are about."""
        debuggee = self.navigator.require()
        return debuggee, debuggee.real(self._general or self.navigator.thread)

    def _set_thread(self, request: rq.SetThread) -> bytes:
        if request.purpose == "g":
            tid = request.thread.tid if request.thread.exact else 0
            if tid:
                self.navigator.require().real(tid)
            self._general = tid
        elif request.purpose == "c":
            self._continue = request.thread
        else:
            return b""
        return b"OK"

    def _alive(self, request: rq.Alive) -> bytes:
        self.navigator.require().real(request.thread.tid)
        return b"OK"

    def _thread_list(self, request: rq.ThreadList) -> bytes:
        if not request.first:
            return b"l"
        debuggee = self.navigator.require()
        return b"m" + b",".join(self._wire(debuggee.virtual(tid)) for tid in debuggee.tids())

    def _current_thread(self, request: rq.CurrentThread) -> bytes:
        self.navigator.require()
        return b"QC" + self._wire(self.navigator.thread)

    def _thread_extra(self, request: rq.ThreadExtra) -> bytes:
        debuggee = self.navigator.require()
        return debuggee.upstream.request(b"qThreadExtraInfo,%x" % debuggee.real(request.thread.tid))

    def _tls(self, request: rq.TlsAddress) -> bytes:
        debuggee = self.navigator.require()
        return debuggee.upstream.request(b"qGetTLSAddr:%x,%b" % (debuggee.real(request.thread.tid), request.rest))

    # ------------------------------------------------------------ the session

    def _supported(self, request: rq.Supported) -> bytes:
        self._features = request.features
        theirs = self.navigator.require().upstream.features
        features = [feature for feature in theirs if feature.startswith(_PASSED_FEATURES)]
        features += _OWN_FEATURES
        if "error-message+" in request.features:
            features.append("error-message+")
        return ";".join(features).encode()

    def _extend(self, request: rq.Extended) -> bytes:
        self._extended = True
        return b"OK"

    def _non_stop(self, request: rq.NonStop) -> bytes:
        return b"OK" if not request.on else error_text("replays stop as a whole. Try: set non-stop off")

    def _pass_signals(self, request: rq.PassSignals) -> bytes:
        self._told.pass_signals = request.signals
        self.navigator.tell_signals()
        return b"OK"

    def _program_signals(self, request: rq.ProgramSignals) -> bytes:
        self._told.program_signals = request.payload
        return self.navigator.require().upstream.request(request.payload)

    def _symbol(self, request: rq.Symbol) -> bytes:
        """Pass the questions on, and keep the answers for the gdbservers to come."""
        if request.name:
            self._told.symbols[request.name] = request.value
        self._told.symbols_offered = True
        return self.navigator.require().upstream.request(request.payload)

    def _attached(self, request: rq.Attached) -> bytes:
        return b"0"  # "attached" would make GDB detach from the process at its end instead of killing it

    def _restart(self, request: rq.Restart) -> bytes | None:
        reply = self._stopped(self.navigator.restart())
        return reply if request.wants_reply else None

    def _attach(self, request: rq.Attach) -> bytes:
        """GDB without an inferior, extended: it gets the process that is there, under the id it asks for."""
        self.navigator.virtual_pid = request.pid
        return self._stopped(self.navigator.here(SIGNAL_NONE))

    def _kill(self, request: rq.Kill) -> bytes | None:
        self.navigator.kill()
        return b"OK" if request.wants_reply else None

    def _detach(self, request: rq.Detach) -> bytes:
        self.navigator.detach()
        return b"OK"

    def _host_file(self, request: rq.HostFile) -> bytes:
        return files.answer(request, self.navigator.current, self.navigator.virtual_pid, self._pool)

    def _transfer(self, request: rq.Transfer) -> bytes:
        if request.object == "threads":
            data = threads_xml(self.navigator.require(), self._wire)
        elif request.object == "exec-file":
            data = files.program(self.navigator.require().pid)
        elif request.object == "libraries-svr4":
            data = self.navigator.libraries(request.annex)
        elif request.object == "siginfo" and (recorded := self.navigator.siginfo(self._selected()[1])):
            data = recorded
        elif request.object in ("auxv", "features", "siginfo"):
            debuggee, tid = self._selected()
            debuggee.upstream.select_thread(tid)
            window = b"%x,%x" % (request.offset, request.length)
            return debuggee.upstream.request(b"qXfer:%b:read:%b:%b" % (request.object.encode(), request.annex, window))
        else:
            return b""
        # Escaping may double it, and GDB's buffer is meant for what it asked for.
        part = data[request.offset : request.offset + max(request.length // 2, 1)]
        return (b"m" if request.offset + len(part) < len(data) else b"l") + escape(part)

    # ------------------------------------------------------------ registers and memory

    def _read_registers(self, request: rq.ReadRegisters) -> bytes:
        debuggee, tid = self._selected()
        return (debuggee.upstream if self.navigator.engine_frames else debuggee).g(tid)

    def _read_register(self, request: rq.ReadRegister) -> bytes:
        debuggee, tid = self._selected()
        if self.navigator.engine_frames:
            return debuggee.upstream.register(tid, request.number) or b"E01"
        return debuggee.p(tid, request.number)

    def _write_registers(self, request: rq.WriteRegisters) -> bytes:
        debuggee, tid = self._selected()
        if debuggee.leaf is not None:
            return self._alter().write_registers(tid, request.payload)
        if request.payload[:1] == b"P":
            return b""  # gdbserver 13.1 knows none; GDB writes all of them then
        self._may_change_live("refused", tid)  # GDB says why
        before = debuggee.registers(tid)["rip"]
        debuggee.upstream.select_thread(tid)
        reply = debuggee.upstream.request(request.payload)
        self.navigator.moved_live(tid, before)
        return reply

    def _read_memory(self, request: rq.ReadMemory) -> bytes:
        debuggee, _ = self._selected()
        self._vdso = self._vdso or Vdso(debuggee)
        reply = debuggee.memory(request.addr, request.length)
        if debuggee.leaf is not None:
            reply = debuggee.with_ids(request.addr, debuggee.library.as_in_file(request.addr, reply))
        return reply if reply[:1] == b"E" else self._vdso.shown(request.addr, reply)

    def _write_memory(self, request: rq.WriteMemory) -> bytes:
        debuggee, _ = self._selected()
        if request.length == 0:
            return b"OK"  # GDB asks whether X packets are known
        if debuggee.leaf is None:
            self._may_change_live("gdbrr")  # GDB says only that it cannot access the memory
        self.navigator.points.wrote(request.addr, request.payload, debuggee)
        write = debuggee.upstream.request if debuggee.leaf is None else self._alter().write_memory
        return next((reply for part in writes(request.payload, MOST) if (reply := write(part)) != b"OK"), b"OK")

    def _may_change_live(self, who: str, tid: int | None = None) -> None:
        try:
            self.navigator.change_live(tid)
        except GdbrrError as error:
            bug.tell(error, who)
            raise

    def _alter(self) -> Altered:
        return self.navigator.alter(lambda: calls.moment_soon(self.navigator, self._link))

    def _search_memory(self, request: rq.SearchMemory) -> bytes:
        return self._selected()[0].upstream.request(request.payload, timeout=120)

    def _breakpoint(self, request: rq.Breakpoint) -> bytes:
        if request.type == 3:
            return b""  # x86 cannot watch reads alone: GDB asks for reads and writes then
        if request.insert and request.addr > USER - max(request.kind, 1):
            raise GdbrrError(f"{request.addr:#x} is not an address of the program", hint="delete it and go on")
        self.navigator.points.change(request.insert, (request.type, request.addr, request.kind), request.conditions)
        return b"OK"

    def _catch_calls(self, request: rq.CatchCalls) -> bytes:
        self.navigator.points.calls = request.numbers
        return b"OK"

    # ------------------------------------------------------------ moving

    def _resume(self, request: rq.Resume) -> bytes:
        actions: Sequence[rq.Action] = request.actions
        if request.legacy:
            actions = [rq.Action(action.step, action.signal, self._continue) for action in actions]
        if not self.navigator.recording and self.navigator.current is not None and self._link.take_interrupt():
            return self._stopped(self.navigator.here(SIGNAL_INT))
        return self._move(lambda meter: self.navigator.forward(actions, meter))

    def _reverse_continue(self, request: rq.ReverseContinue) -> bytes:
        return self._move(lambda meter: self.navigator.reverse_continue(meter, self._continue.alone))

    def _reverse_step(self, request: rq.ReverseStep) -> bytes:
        return self._move(lambda meter: self.navigator.reverse_step(self._continue.alone, meter))

    def _move(self, move: Callable[[Meter], Stop]) -> bytes:
        """What fails leaves everything where it was, with a word on GDB's terminal; a command asks for it."""
        commanded, armed = self.navigator.armed is not None, self.navigator.armed or Target()
        where = Where(armed.terminal, Manner(armed.manner)) if armed.terminal else None
        meter = Meter(self._link, not armed.silence, where=where, since=armed.since)
        try:
            with contextlib.closing(meter):
                return self._stopped(move(meter))
        except (Closed, NoThread):
            raise
        except Interrupted:
            return self._stopped(self.navigator.here(SIGNAL_INT))
        except Exception as error:
            self.navigator.fail(error if isinstance(error, GdbrrError) else bug.internal(error), commanded)
        self.navigator.recover()
        return self._stopped(self.navigator.here(SIGNAL_NONE))

    def _stopped(self, where: Stop) -> bytes:
        self._general = 0 if where.ended else where.tid
        self.navigator.stops()
        return stop.render(where, self._thread(where.tid), self._features)

    def _stop_reason(self, request: rq.StopReason) -> bytes:
        if self.navigator.current is None:
            return b"W00"
        self.navigator.recover()
        return self._stopped(self.navigator.stop_now())

    def _custom(self, request: rq.Custom) -> bytes:
        reply = calls.answer(self.navigator, self._link, request.body)
        return to_hex(json.dumps(reply, separators=(",", ":")))


_HANDLERS: dict[type[rq.Request], Callable[..., bytes | None]] = {
    rq.Alive: Proxy._alive,
    rq.Attach: Proxy._attach,
    rq.Attached: Proxy._attached,
    rq.Breakpoint: Proxy._breakpoint,
    rq.CatchCalls: Proxy._catch_calls,
    rq.CurrentThread: Proxy._current_thread,
    rq.Custom: Proxy._custom,
    rq.Detach: Proxy._detach,
    rq.Extended: Proxy._extend,
    rq.HostFile: Proxy._host_file,
    rq.Kill: Proxy._kill,
    rq.Malformed: lambda self, request: b"E01",
    rq.NoAck: lambda self, request: b"OK",
    rq.NonStop: Proxy._non_stop,
    rq.PassSignals: Proxy._pass_signals,
    rq.ProgramSignals: Proxy._program_signals,
    rq.ReadMemory: Proxy._read_memory,
    rq.ReadRegister: Proxy._read_register,
    rq.ReadRegisters: Proxy._read_registers,
    rq.Restart: Proxy._restart,
    rq.Resume: Proxy._resume,
    rq.ResumeKinds: lambda self, request: b"vCont;c;C;s;S",
    rq.ReverseContinue: Proxy._reverse_continue,
    rq.ReverseStep: Proxy._reverse_step,
    rq.SearchMemory: Proxy._search_memory,
    rq.SetThread: Proxy._set_thread,
    rq.StopReason: Proxy._stop_reason,
    rq.Supported: Proxy._supported,
    rq.Symbol: Proxy._symbol,
    rq.ThreadExtra: Proxy._thread_extra,
    rq.ThreadList: Proxy._thread_list,
    rq.TlsAddress: Proxy._tls,
    rq.Transfer: Proxy._transfer,
    rq.WriteMemory: Proxy._write_memory,
    rq.WriteRegisters: Proxy._write_registers,
}
