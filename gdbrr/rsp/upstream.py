"""One gdbserver, spoken to over its standard input and output; never a port.

Runs in: the server. May call: gdbserver, gdbrr.launch.engine, gdbrr.rsp.packet, gdbrr.rsp.stop.
Owns: the gdbserver process, what it was told about signals and symbols, and the ids it uses, which are the kernel's.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gdbrr.errors import GdbrrError
from gdbrr.launch import engine
from gdbrr.rsp import stop as stops
from gdbrr.rsp.packet import Event, Framer, Kind, expand, frame, to_hex, unescape
from gdbrr.rsp.regs import Layout
from gdbrr.rsp.stop import SIGNAL_INT, SIGNAL_STOP, SIGNAL_SYS, Stop

# xmlRegisters: without it gdbserver describes no registers at all (gdbserver 13.1, x86).
_FEATURES = b"qSupported:swbreak+;hwbreak+;vContSupported+;xmlRegisters=i386"
_QUIET_TIMEOUT = 20.0
"""Seconds for an answer that needs no program to run."""
MOST = 1 << 13
"""Bytes of memory in one packet."""
_LOST = b"E.No unwaited-for children left."
"""Of a process whose main thread ends it while others are there: gdbserver 12 may miss how it ended."""
_OUTPUT = re.compile(rb"O[0-9a-f]")
_SENDING = re.compile(rb";([CS])[0-9a-f]{2}")

NO_CONDITIONS: Mapping[int, bytes] = {}


@dataclass
class Told:
    """What GDB said once and every gdbserver has to know."""

    pass_signals: frozenset[int] = frozenset()
    program_signals: bytes = b""
    symbols: dict[bytes, bytes] = field(default_factory=dict)
    symbols_offered: bool = False


class Upstream:
    """A `gdbserver --multi -`, attached to one process or to none."""

    def __init__(self) -> None:
        program = shutil.which("gdbserver")
        if program is None:
            raise GdbrrError("gdbserver is not installed", hint="try: apt-get install gdbserver")
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [program, "--once", "--multi", "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            bufsize=0,
            start_new_session=True,  # a Ctrl-C on the terminal is GDB's to handle
            env=engine.for_gdbserver(os.environ),
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._in = self._process.stdin
        self.fd = self._process.stdout.fileno()
        self._framer = Framer()
        self._events: list[Event] = []
        self._owed = 0
        """Answers that nobody waits for any more, and that come before any other."""
        self._general = 0
        self._resumed = b""
        self.running = False
        """It was told to let its process run and has not reported a stop."""
        self._stopping = False
        self._late = False
        self._gone = False
        self.pid = 0
        self.layout: Layout | None = None
        self.inserted: set[tuple[int, int, int]] = set()
        self.conditions: dict[tuple[int, int, int], bytes] = {}
        self.request(b"QStartNoAckMode")
        # The acknowledgement of that OK is the last one; gdbserver reads and drops it.
        self._write(b"+")
        self.features = self.request(_FEATURES).decode("ascii", "replace").split(";")
        self.request(b"!")

    @property
    def server_pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return not self._gone and self._process.poll() is None

    # ------------------------------------------------------------ packets

    def request(self, payload: bytes, timeout: float = _QUIET_TIMEOUT) -> bytes:
        """Send PAYLOAD and return the reply with run lengths undone; binary escapes are left in."""
        self._write(frame(payload))
        return self._reply(timeout)

    def resume(self, payload: bytes) -> None:
        self._resumed = payload
        self.running = True
        self._write(frame(payload))

    def interrupt(self) -> None:
        """Stop what runs. gdbserver 13.1 answers Ctrl-C by a SIGINT to the process group of that id, which a leaf
        does not lead, and threads that wait in the engine block everything that can be blocked."""
        self._stopping = True
        self._send(signal.SIGSTOP)

    def wait_stop(self, others: Mapping[int, Callable[[], bool]]) -> Stop:
        """Wait until what was resumed stops. OTHERS are called whenever their descriptor has something to read;
        one that answers False is not asked again."""
        watched = dict(others)
        while True:
            while self._events:
                event = self._events.pop(0)
                if event.kind is Kind.PACKET and event.payload[:1] in (b"T", b"S", b"W", b"X"):
                    stop = stops.parse(expand(event.payload))
                    if stop.signal != SIGNAL_STOP or stop.ended or not (self._stopping or self._late):
                        self.running = False
                        # The SIGSTOP of an interrupt may still come, when something else stopped the process first.
                        self._late, self._stopping = self._late or self._stopping, False
                        return stop
                    if self._stopping:  # of two of them, one may still come
                        self.running = self._stopping = False
                        return dataclasses.replace(stop, signal=SIGNAL_INT)
                    self._late = False
                    # INVARIANT(sent-once): the program has got the signals that it was resumed with.
                    self._write(frame(_SENDING.sub(lambda verb: b";" + verb[1].lower(), self._resumed)))
                    continue
                if event.kind is Kind.PACKET and event.payload == _LOST:
                    self.running = False
                    self._gone = True  # it still lists a process that is no more
                    return Stop(ended=b"X09")
                if event.kind is Kind.PACKET and event.payload[:1] == b"E":
                    self.running = False
                    raise GdbrrError(f"gdbserver could not resume: {event.payload.decode('ascii', 'replace')}")
            ready, _, _ = select.select([self.fd, *watched], [], [])
            for fd in ready:
                if fd != self.fd and not watched[fd]():
                    del watched[fd]
            if self.fd in ready:
                self._read()

    def _reply(self, timeout: float) -> bytes:
        deadline = time.monotonic() + timeout
        while True:
            while self._events:
                event = self._events.pop(0)
                if event.kind is Kind.PACKET and not _OUTPUT.match(event.payload):
                    return expand(event.payload)
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                self._owed += 1
                raise GdbrrError("gdbserver does not answer", hint="go back or start again; the demo is unharmed")
            self._read()

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[self._in.write(data) or 0 :]
        except (BrokenPipeError, ValueError):
            raise self._ended() from None

    def _read(self) -> None:
        data = os.read(self.fd, 1 << 16)
        if not data:
            raise self._ended()
        for event in self._framer.feed(data):
            if self._owed and event.kind is Kind.PACKET and not _OUTPUT.match(event.payload):
                self._owed -= 1
            else:
                self._events.append(event)

    def _ended(self) -> GdbrrError:
        self._gone = True
        return GdbrrError("gdbserver ended unexpectedly" + self._complaint(), hint="try again from another moment")

    def _complaint(self) -> str:
        if self._errors.closed:
            return ""
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return f" ({lines[-1]})" if lines else ""

    # ------------------------------------------------------------ processes

    def attach(self, pid: int, told: Told) -> Stop:
        """Take hold of PID; all its threads are stopped then."""
        self.pid = pid  # it may hold it, even where it answers too late
        reply = self.request(b"vAttach;%x" % pid)
        if reply[:1] not in (b"T", b"S"):
            self.pid = 0
            raise GdbrrError(f"gdbserver cannot attach to process {pid}{self._complaint()}", hint="try: gdbrr doctor")
        self._general = 0
        self._late = self._stopping = self.running = False
        self.inserted.clear()
        if self.layout is None:
            self.layout = Layout.from_xml(self.transfer("features", b"target.xml").decode("utf-8", "replace"))
        self.tell_signals(told)
        if told.symbols_offered:
            self.offer_symbols(told)
        return stops.parse(reply)

    def tell_signals(self, told: Told, doors: bool = True) -> None:
        """SIGSYS is the engine's door on every system call: no debugger sees it, whatever GDB asks. Without DOORS it is
        reported, for the proxy itself."""
        quiet = sorted(told.pass_signals | {SIGNAL_SYS} if doors else told.pass_signals - {SIGNAL_SYS})
        self.request(b"QPassSignals:" + b";".join(b"%x" % number for number in quiet))
        if told.program_signals:
            self.request(told.program_signals)

    def offer_symbols(self, told: Told) -> None:
        """Answer gdbserver's questions about symbols (libthread_db's, for thread-locals) as GDB once did."""
        reply = self.request(b"qSymbol::")
        while reply.startswith(b"qSymbol:"):
            name = reply[len(b"qSymbol:") :]
            reply = self.request(b"qSymbol:%b:%b" % (told.symbols.get(name, b""), name))

    def kill(self) -> None:
        """One that owes an answer is not asked for more: it keeps its process, and so no pool takes it."""
        if self.pid and self.alive:
            if self._owed:
                return self._send(signal.SIGKILL)
            if self.running:
                self._kill_running()
            else:
                self.request(b"vKill;%x" % self.pid)
        self.pid = 0
        self.inserted.clear()

    def _kill_running(self) -> None:
        """gdbserver listens to nothing but Ctrl-C while its process runs, so that is stopped first. Killed from outside
        it could be gone before gdbserver has so much as resumed it, and gdbserver 12 then ends itself by an assertion
        (wait_1: `target_options & TARGET_WNOHANG')."""
        self._send(signal.SIGSTOP)
        deadline = time.monotonic() + _QUIET_TIMEOUT
        while True:
            while self._events:
                event = self._events.pop(0)
                payload = event.payload if event.kind is Kind.PACKET else b""
                if payload[:1] in (b"W", b"X") or payload == _LOST:
                    self.running, self._gone = False, payload == _LOST
                    return
                if payload[:1] in (b"T", b"S"):
                    self.running = False
                    self.request(b"vKill;%x" % self.pid)
                    return
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                self._send(signal.SIGKILL)
                raise GdbrrError("gdbserver does not answer", hint="go back or start again; the demo is unharmed")
            self._read()

    def _send(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def detach(self) -> None:
        if self.pid and self.alive:
            self.request(b"D;%x" % self.pid)
        self.pid = 0

    def close(self) -> None:
        """End it. A process it still holds goes on alone: kill or drop that first."""
        self._in.close()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()

    # ------------------------------------------------------------ what a stopped process holds

    def select_thread(self, tid: int) -> None:
        if tid != self._general:
            self._general = 0
            if self.request(b"Hg%x" % tid) != b"OK":
                raise GdbrrError(f"thread {tid} is no more")
            self._general = tid

    def forget_selection(self) -> None:
        """Resuming selects the thread that stops."""
        self._general = 0

    def g(self, tid: int) -> bytes:
        self.select_thread(tid)
        return self.request(b"g")

    def registers(self, tid: int) -> dict[str, int]:
        assert self.layout is not None
        return self.layout.read(self.g(tid))

    def register(self, tid: int, number: int) -> bytes:
        """One register as digits, empty where there is none. gdbserver 13.1 knows no `p` and no `P`."""
        assert self.layout is not None
        return self.layout.cut(self.g(tid), number)

    def set_pc(self, tid: int, pc: int) -> None:
        self.set_register(tid, "rip", pc)

    def set_register(self, tid: int, name: str, value: int) -> None:
        assert self.layout is not None
        packet = self.layout.substitute(self.g(tid), {name: value}, keep_call=True)
        if self.request(b"G" + packet) != b"OK":
            raise GdbrrError("gdbserver cannot set a register")

    def memory(self, addr: int, length: int) -> bytes:
        """Empty where nothing is mapped."""
        reply = self.request(b"m%x,%x" % (addr, length))
        return b"" if reply[:1] == b"E" else bytes.fromhex(reply.decode("ascii"))

    def transfer(self, name: str, annex: bytes) -> bytes:
        """A whole qXfer object."""
        out = b""
        while True:
            reply = self.request(b"qXfer:%b:read:%b:%x,4000" % (name.encode(), annex, len(out)))
            if reply[:1] not in (b"m", b"l"):
                raise GdbrrError(f"gdbserver does not tell {name}")
            out += unescape(reply[1:])
            if reply[:1] == b"l":
                return out

    def signal_of(self, tid: int) -> tuple[int, int]:
        """si_signo and si_code of what thread TID has stopped with."""
        self.select_thread(tid)
        info = self.transfer("siginfo", b"")
        return int.from_bytes(info[:4], "little"), int.from_bytes(info[8:12], "little", signed=True)

    def sync_points(self, wanted: set[tuple[int, int, int]], conditions: Mapping[int, bytes] = NO_CONDITIONS) -> None:
        """Insert and remove breakpoints until they are the WANTED ones, with CONDITIONS for some addresses of code."""
        for held in sorted(self.inserted - wanted):
            self.request(b"z%x,%x,%x" % held)
            self.inserted.discard(held)
        for held in sorted(wanted):
            code = conditions.get(held[1], b"") if held[0] < 2 else b""
            if held in self.inserted and self.conditions.get(held, b"") == code:
                continue
            reply = self.request(b"Z%x,%x,%x" % held + (b";X%x,%b" % (len(code), to_hex(code)) if code else b""))
            if reply != b"OK":
                kind = "watchpoint" if held[0] > 1 else "breakpoint"
                raise GdbrrError(
                    f"a {kind} of {held[2]} bytes at {held[1]:#x} cannot be inserted", hint="delete it and go on"
                )
            self.inserted.add(held)
            self.conditions[held] = code


class Pool:
    """Gdbservers at rest, so that a switch costs an attach and no start; one of them serves host files."""

    def __init__(self) -> None:
        self._idle: list[Upstream] = []
        self._all: list[Upstream] = []

    def take(self) -> Upstream:
        while self._idle:
            upstream = self._idle.pop()
            with contextlib.suppress(GdbrrError):  # one that is being killed is a process as yet
                upstream.request(b"!")
                return upstream
            self._forget(upstream)
        upstream = Upstream()
        self._all.append(upstream)
        return upstream

    def give(self, upstream: Upstream) -> None:
        """Back to the pool, holding no process."""
        if upstream.alive and not upstream.pid:
            self._idle.append(upstream)
        else:
            self._forget(upstream)

    def files(self) -> Upstream:
        """The oldest: descriptors of opened files live as long as it does."""
        while self._all and not self._all[0].alive:
            self._forget(self._all[0])
        if not self._all:
            self.give(self.take())
        return self._all[0]

    def close(self) -> None:
        for upstream in list(self._all):
            self._forget(upstream)

    def _forget(self, upstream: Upstream) -> None:
        """One that went down while it held a leaf may have been forgotten already, as the one for host files."""
        if upstream in self._all:
            self._all.remove(upstream)
            upstream.close()
