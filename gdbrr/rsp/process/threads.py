"""One process under one gdbserver, a leaf or the live one: its threads and their registers as GDB knows them.

Runs in: the server. May call: gdbrr.rsp.upstream, gdbrr.timeline.model.
Owns: the mapping between kernel ids of this process and the ids GDB sees.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import os
import re
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from gdbrr.errors import GdbrrError, harmless
from gdbrr.rsp.ids import EXITS, ID_SIZE, SYSCALL, NoThread, gap_below_stack, ids_of, mapped, place_of_id
from gdbrr.rsp.live import Live
from gdbrr.rsp.regs import EXPEDITED, RIP, Layout
from gdbrr.rsp.request import ThreadId
from gdbrr.rsp.reverse import SOFTWARE
from gdbrr.rsp.stop import SIGNAL_BUS, SIGNAL_SEGV, SIGNAL_TRAP, Stop, to_kernel
from gdbrr.rsp.unwind.frames import Unwinder, at_syscall
from gdbrr.rsp.unwind.stubs import behind_lock
from gdbrr.rsp.upstream import MOST, Told, Upstream
from gdbrr.timeline.model import Leaf, ThreadView

_ENGINE = re.compile(r"/libgdbrr\.so$")
_NAME = re.compile(rb'(\bname=")([^"]*)"')
_ENGINES_TRAPS = (-2, 6)  # SI_TIMER; TRAP_PERF, which no debugger causes
TRIES = (
    (b"\x48\x8b\x06\x48\x89\x07", 0),
    (b"\x48\x8b\x06\x48\x89\x07", 3),
    (b"\x0f\xb6\x06\x88\x07\x48\x8d\x76\x01", 0),
    (b"\x0f\xb6\x06\x88\x07\x48\x8d\x76\x01", 3),
    (b"\xf3\xa4\x48\x89\xd0\x48\x29\xc8\xc3", 0),
    (b"\xf0\x80\x0f\x00\x48\x81\xc7", 0),
)
"""The instructions of gr_copy and gr_storable (preload/core/copy.c) that may fault, with their neighbours, and how far
they are in."""
_TRAPPED = 2
"""si_code of the SIGSYS by which a system call comes to the engine."""
_OUTPOST = 0x100000
"""Where its stubs are, the program being far from it, is a multiple of this: preload/patch/stub.c."""
_ACTION = 32
"""Bytes of a struct gr_sigact; the handler is the first of it."""
_DESCRIPTOR = 0x400
"""Bytes of the C library's own of a thread, behind its FS base, among which its id is: at 720 in glibc 2.31 to 2.41."""


class Attached:
    """Thread ids in arguments and results are the kernel's, except where `virtual` is in the name."""

    def __init__(self, upstream: Upstream, told: Told, leaf: Leaf | None = None, live: Live | None = None) -> None:
        """Attach to LEAF or to LIVE."""
        process = leaf or live
        assert process is not None
        self.upstream = upstream
        self.told = told
        self.leaf: Leaf | None = leaf
        self.live: Live | None = live
        self._views: dict[int, ThreadView] | None = None
        self._newborn: list[ThreadView] = []
        """Threads that have not said yet who they are."""
        self._inside: dict[int, ThreadView | None] = {}
        """Threads of a live process as GDB shall see them."""
        self.points: set[int] = set()
        """Where GDB has breakpoints in a live process."""
        self.passing: dict[int, tuple[ThreadView, dict[str, int]]] = {}
        """Threads of a live process in calls into the engine through which GDB steps them, and the registers they began
        with: of a step that another thread's stop has interrupted it wants to see that the thread has not moved."""
        self.signalled = 0
        """The thread of a live process that stopped with a signal of the program's, if one did."""
        self.sent: tuple[int, int, bytes] | None = None
        """The thread of a live process that stopped at a signal of which the engine has told, which, its siginfo."""
        self._ids: dict[int, int] = {}
        self._engine: list[tuple[int, int]] | None = None
        self._gap: tuple[int, int] | None = None
        """Where the stack would grow, as long as it stands."""
        self._places: dict[int, int] | None = None
        # INVARIANT(released-once): a standing leaf is released once before it is resumed; it stands again only
        # behind its own trap. Releasing a running one would answer a command the engine has not been given.
        self.standing = leaf is not None
        self._tail_run = False
        """The engine stands at the end twice: behind the last operation, and when released from there behind the
        segment that was under way when the recording ended, unless that ends in a crash."""
        self.displaced: set[int] = set()
        """Threads whose registers were written: what they really hold is what there is to see."""
        self.pid = process.pid
        self.attach_stop = upstream.attach(process.pid, told)

    @property
    def layout(self) -> Layout:
        assert self.upstream.layout is not None
        return self.upstream.layout

    @property
    def at_end(self) -> bool:
        """Whether nothing is left to run: behind the tail, or where there is none, or where the program ends itself."""
        leaf = self.leaf
        return self.standing and leaf is not None and leaf.ended and (self._tail_run or leaf.cut or self._exits())

    def _exits(self) -> bool:
        view = self.views().get(self.turn())
        if view is None or not view.in_engine or view.trapped or view.regs["rax"] not in EXITS:
            return False
        return self.upstream.memory(view.regs["rip"], 2) == SYSCALL

    @property
    def lost(self) -> bool:
        """Somebody killed it, or its gdbserver."""
        return not (self.upstream.alive and any(map(_lives, Path(f"/proc/{self.pid}/task").glob("*/stat"))))

    def catches(self, signal: int) -> bool:
        """Whether the process has a handler for this signal, in GDB's numbers: its own or the engine's."""
        with open(f"/proc/{self.pid}/status", encoding="ascii", errors="replace") as status:
            caught = next(int(line.split()[1], 16) for line in status if line.startswith("SigCgt:"))
        return any(caught >> number - 1 & 1 for number in to_kernel(frozenset([signal])))

    def handler(self, tid: int, signals: Sequence[tuple[int, int]]) -> int:
        """Where a thread of the live process comes to first with one of GDB's SIGNALS. 0: they bring it nowhere."""
        actions = self.live.actions if self.live is not None else 0
        for number in to_kernel(frozenset(number for each, number in signals if each == tid)) if actions else ():
            start = int.from_bytes(self.upstream.memory(actions + number * _ACTION, 8), "little")
            if start not in (signal.SIG_DFL, signal.SIG_IGN):
                return start
        return 0

    # ------------------------------------------------------------ threads

    def views(self) -> dict[int, ThreadView]:
        if self._views is None:
            if self.leaf is not None:
                views: Sequence[ThreadView] = self.leaf.threads()
            else:
                assert self.live is not None
                views = self.live.thread_views()
            self._views = {view.tid: self._at_call(view) for view in views if view.tid}
            self._newborn = [view for view in views if not view.tid]
            self._inside = {}
            self._ids = ids_of([*self._views.values()])
            self._places = None
        return self._views

    def _at_call(self, view: ThreadView) -> ThreadView:
        if not view.in_engine or view.trapped or not self.is_in_engine(view.regs.get("rip", 0)):
            return view
        return self._unwinder.shown(view)

    @functools.cached_property
    def _unwinder(self) -> Unwinder:
        """For who has seen a thread in the engine, and so knows where that is."""
        return Unwinder(self.pid, self._engine or [])

    def view(self, tid: int) -> ThreadView | None:
        """A thread as GDB shall see it. Of a live process it may have been stopped on its way into the engine or out
        of it, or in the allocator: that is in the middle of a call as well, unless it came to a breakpoint there."""
        views = self.views()
        if tid not in self._inside:
            view = self._looked_at(tid) if self.live is not None else views.get(tid)
            called, regs = self.passing.get(tid, (None, {}))
            if called and view and view.in_engine and _frame(view) == _frame(called):
                view = dataclasses.replace(view, regs=regs)
            elif view and tid == self.signalled and self.live is not None:
                view = self._behind_made(view)
            self._inside[tid] = view
        return self._inside[tid]

    def left(self, tid: int, stop: Stop, regs: dict[str, int]) -> Stop:
        """STOP, in the middle of a step of thread TID from REGS: where it still waits in an operation it is shown as
        it was. GDB takes a step for done where the pc is another, although the thread has come nowhere."""
        if not stop.ended and stop.tid != tid and (view := self.views().get(tid)) is not None and view.in_engine:
            self.passing[tid] = view, regs
            self._inside.pop(tid, None)
        return stop

    def _looked_at(self, tid: int) -> ThreadView | None:
        regs, memory = self.upstream.registers(tid), self.upstream.memory
        base, pc = regs.get("fs_base", 0), regs.get("rip", 0)
        view = self.views().get(tid) or next((view for view in self._newborn if view.regs["fs_base"] == base), None)
        if view is None or (view.in_engine and pc in self.points and self.is_in_engine(pc)):
            return None
        if view.in_engine:
            return dataclasses.replace(view, tid=tid, ret_pc=behind_lock(view.regs["rip"], memory) or view.ret_pc)
        if self.is_in_engine(pc):
            return view if pc in self.points else self._unwinder.outside(view, regs)
        if memory(pc - 2, 2) == SYSCALL and self._has_trapped(tid):
            return at_syscall(view, regs)
        return view

    def _behind_made(self, view: ThreadView) -> ThreadView:
        """VIEW of a thread that a signal stopped, as it is without gdbrr: behind a system call that the kernel has
        done, or given up for the signal, with what that said."""
        call, memory = view.regs["rip"], self.upstream.memory
        if not view.in_engine or view.ret_pc != call + len(SYSCALL) or memory(call, 2) != SYSCALL:
            return view
        regs = self.upstream.registers(view.tid)
        if self.sent is not None and self.sent[0] == view.tid:  # it is in the handler
            regs = self._unwinder.interrupted(regs)
        if memory(regs["rip"] - 2, 2) != SYSCALL or not self.is_in_engine(regs["rip"]):
            return view
        return dataclasses.replace(view, regs={**view.regs, "rip": view.ret_pc, "rax": regs["rax"]})

    @property
    def is_behind(self) -> bool:
        """Whether a live process is shown behind the operation at which its past ends."""
        view = self.view(self.signalled) if self.signalled else None
        return view is not None and view.in_engine and view.regs["rip"] == view.ret_pc

    def _has_trapped(self, tid: int) -> bool:
        """Whether thread TID was stopped on its way from a system call into the engine, by the signal it goes by."""
        with contextlib.suppress(GdbrrError):  # a thread may have stopped for no signal
            return self.upstream.signal_of(tid) == (signal.SIGSYS, _TRAPPED)
        return False

    def called(self, tid: int) -> ThreadView | None:
        """Thread TID of a live process, in the engine's code, at the call that led there. None: that is not known, or
        it is on its way to a system call, at which it is seen."""
        view = self.views().get(tid)
        if view is not None and not view.in_engine:
            view = self._unwinder.outside(view, self.upstream.registers(tid))
        if view is None or not view.in_engine or not view.ret_pc:
            return None
        return view if self.upstream.memory(view.regs["rip"], 2) != SYSCALL else None

    def out_of_engine(self, tid: int) -> int:
        """Where thread TID of a leaf goes on that is in the engine's code, but has not come to an operation there or
        comes from one, or whose system call has only been trapped; 0: it is elsewhere."""
        view = self.views().get(tid)
        if self.leaf is None or view is None or view.in_engine:
            return 0
        regs = self.upstream.registers(tid)
        if not self.is_in_engine(pc := regs.get("rip", 0)):
            return pc if self.upstream.memory(pc - 2, 2) == SYSCALL and self._has_trapped(tid) else 0
        shown = self._unwinder.outside(view, regs)
        return shown.ret_pc if shown.in_engine else 0

    def _is_unseen(self, stop: Stop) -> bool:
        """A breakpoint in what the engine has called for an operation: the thread is shown at that, and GDB, which has
        no breakpoint there, would let it run into this one again."""
        if self.live is None or stop.ended or not stop.has("swbreak", "hwbreak"):
            return False
        pc = self._real_pc(stop)
        if pc not in self.points or self.is_in_engine(pc):
            return False  # at a place that the server itself waits for it has come there
        view = self.view(stop.tid)
        return view is not None and view.in_engine and view.regs["rip"] != pc

    def _is_engines_timer(self, stop: Stop) -> bool:
        """A thread in a loop is looked at by the engine, recording and replaying; a SIGTRAP for that is no stop."""
        if stop.ended or stop.signal != SIGNAL_TRAP or stop.reasons:
            return False
        return self.upstream.signal_of(stop.tid)[1] in _ENGINES_TRAPS

    def _is_engines_fault(self, stop: Stop) -> bool:
        """The engine tries whether memory of the program is there, as behind a pointer that may be NULL, and goes on
        where it is not: nothing has happened to the program."""
        if stop.ended or stop.signal not in (SIGNAL_SEGV, SIGNAL_BUS) or stop.reasons:
            return False
        pc = self._real_pc(stop)
        return any(self.upstream.memory(pc - at, len(code)) == code for code, at in TRIES) and self.is_in_engine(pc)

    def _pc(self, tid: int) -> int:
        return int.from_bytes(bytes.fromhex(self.p(tid, RIP).decode()), "little")

    def _real_pc(self, stop: Stop) -> int:
        digits = stop.registers.get(RIP) or self.upstream.register(stop.tid, RIP)
        return int.from_bytes(bytes.fromhex(digits.decode()), "little")

    def is_in_engine(self, pc: int) -> bool:
        if self._engine is None:
            self._engine = mapped(self.pid, lambda allowed, path: "x" in allowed and bool(_ENGINE.search(path)))
            self._engine += self._outposts(self._engine)
        return any(start <= pc < end for start, end in self._engine)

    def _outposts(self, engine: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Pages of stubs near a program that is far from the engine's own: they begin with the address of its door."""
        found = []
        for low, high in mapped(self.pid, lambda allowed, path: "x" in allowed and not path):
            door = 0 if low % _OUTPOST else int.from_bytes(self.upstream.memory(low, 8), "little")
            if any(start <= door < end for start, end in engine):
                found.append((low, high))
        return found

    def virtual(self, tid: int) -> int:
        self.views()
        return self._ids.get(tid, tid)

    def real(self, virtual: int) -> int:
        """Raises NoThread for one that is not in this process at this moment."""
        self.views()
        for tid, known in self._ids.items():
            if known == virtual:
                return tid
        if virtual not in self._ids and virtual in self.tids():
            return virtual
        raise NoThread(virtual)

    def tids(self) -> list[int]:
        """All threads, as gdbserver has them; but not the task that stands for a main thread which has ended."""
        reply = self.upstream.request(b"qfThreadInfo")
        found: list[int] = []
        while reply[:1] == b"m":
            found += [int(digits, 16) for digits in reply[1:].split(b",")]
            reply = self.upstream.request(b"qsThreadInfo")
        if self.views():
            found = [tid for tid in found if tid != self.pid or tid in self.views()]
        return found

    def turn(self) -> int:
        """The thread whose moment it is where the leaf stands."""
        assert self.leaf is not None
        ended = self._tail_run or self.leaf.ended
        index = self.leaf.last_thread if ended else self.leaf.thread  # that is the landing's
        for tid, view in self.views().items():
            if view.index == index:
                return tid
        if self._tail_run and self.views():  # that one is gone
            return max(self.views().values(), key=lambda view: -1 if view.tick is None else view.tick).tid
        return self.tids()[0]

    def busy(self) -> int:
        """The thread that is in the program's code, where one is."""
        for tid, view in self.views().items():
            if not view.in_engine:
                return tid
        return self.turn() if self.leaf is not None else self.tids()[0]

    # ------------------------------------------------------------ ids in memory

    def with_ids(self, addr: int, digits: bytes) -> bytes:
        """What was read at ADDR, with the ids that GDB knows where the C library keeps those of threads: in a core dump
        it looks there for who has which registers."""
        length = len(digits) // 2
        if digits[:1] == b"E" or not length:
            return digits
        if self._places is None:
            self._places = self._descriptors()
        out = bytearray(digits)
        for place, tid in self._places.items():
            for at in range(max(place, addr), min(place + ID_SIZE, addr + length)):
                out[2 * (at - addr) : 2 * (at - addr) + 2] = b"%02x" % (tid >> 8 * (at - place) & 0xFF)
        return bytes(out)

    def _descriptors(self) -> dict[int, int]:
        """Where the ids of threads are kept, and what GDB takes them for."""
        places: dict[int, int] = {}
        for tid, view in self.views().items():
            base = (view.regs if view.in_engine else self.upstream.registers(tid)).get("fs_base", 0)
            block = self.upstream.memory(base, _DESCRIPTOR)
            if (at := place_of_id(tid, block)) is not None:
                places[base + at] = self.virtual(tid)
        return places

    # ------------------------------------------------------------ registers

    def memory(self, addr: int, length: int) -> bytes:
        """What answers an `m` packet. Of much of a leaf's memory gdbserver is not asked: all it adds is what stands
        where its breakpoints are.

        INVARIANT(looking-changes-nothing): the kernel lets a stack grow down to what a debugger reads there.
        """
        if self._gap is None:
            self._gap = gap_below_stack(self.pid)
        if self._gap[0] <= addr < self._gap[1]:
            return b"E01"
        if addr < self._gap[0] < addr + length:
            length = self._gap[0] - addr
        if length <= MOST:
            return self.upstream.request(b"m%x,%x" % (addr, length))
        traps = [at for kind, at, _ in self.upstream.inserted if kind == SOFTWARE]
        if self.leaf is not None and not any(addr <= at < addr + length for at in traps):
            with open(f"/proc/{self.pid}/mem", "rb", buffering=0) as memory, contextlib.suppress(OSError):
                if data := os.pread(memory.fileno(), length, addr):
                    return data.hex().encode("ascii")
        found = [self.memory(addr + at, min(MOST, length - at)) for at in range(0, length, MOST)]
        known = list(itertools.takewhile(lambda reply: reply[:1] != b"E", found))
        return b"".join(known) if known else found[0]

    def _shown(self, tid: int) -> dict[str, int] | None:
        if tid in self.displaced:
            return None
        view = self.view(tid)
        return view.regs if view is not None and view.in_engine else None

    def g(self, tid: int) -> bytes:
        packet = self.upstream.g(tid)
        shown = self._shown(tid)
        return packet if shown is None or packet[:1] == b"E" else self.layout.substitute(packet, shown)

    def p(self, tid: int, number: int) -> bytes:
        shown = self._shown(tid)
        digits = self.layout.shown(number, shown) if shown is not None else None
        if digits is not None:
            return digits
        return self.upstream.register(tid, number) or b"E01"

    def registers(self, tid: int) -> dict[str, int]:
        return self.layout.read(self.g(tid))

    def expedited(self, tid: int) -> dict[int, bytes]:
        packet = self.g(tid)
        return {number: self.layout.cut(packet, number) for number in EXPEDITED}


def threads_xml(process: Attached, wire: Callable[[int], bytes]) -> bytes:
    """gdbserver's list with GDB's ids, as WIRE writes them. The core a thread runs on is no fact of the recording."""
    text = re.sub(rb' core="[^"]*"', b"", process.upstream.transfer("threads", b""))
    known = process.tids()

    def renamed(match: re.Match[bytes]) -> bytes:
        tid = ThreadId.parse(match[2]).tid
        return match[1] + wire(process.virtual(tid)) + match[3] if tid in known else b""

    text = _NAME.sub(lambda match: match[1] + _text(match[2]) + b'"', text)
    return re.sub(rb'(<thread [^>]*?\bid=")(p?[0-9a-f.]+)("[^>]*?(?:/>|>.*?</thread>))', renamed, text, flags=re.S)


def _text(name: bytes) -> bytes:
    """NAME in a list that GDB can parse: a program chooses it, and gdbserver (13.1) leaves in it what is no XML."""
    return harmless(name.decode("utf-8", "backslashreplace"), kept="").encode()


def _lives(stat: Path) -> bool:
    """Whether a thread is more than what its parent has not waited for yet."""
    try:
        return stat.read_text(errors="replace").rpartition(")")[2].split()[0] not in ("Z", "X")
    except (OSError, IndexError):
        return False


def _frame(view: ThreadView) -> tuple[int, int]:
    """The same in one call of a thread."""
    return view.ret_pc, view.regs["rsp"]
