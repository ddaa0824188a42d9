"""The oracle of the model test: a replay single-stepped once from its start to its end, under ptrace.

Neither debug registers nor the engine's own trace decide what it sees: every trap of the engine's stepping is looked at
from outside, with the registers and the watched words as they are there.

Runs in: tests. May call: ptrace, through libc.
Owns: the tracing of one worker.
"""

from __future__ import annotations

import bisect
import contextlib
import ctypes
import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gdbrr.abi import lib
from gdbrr.ctl import threads
from gdbrr.demo.reader import Demo
from gdbrr.launch import replay as replays
from gdbrr.timeline.model import Moment
from gdbrr.timeline.step.code import LONGEST, decoded
from gdbrr.timeline.worker import Worker

CONT, SETOPTIONS, SEIZE, INTERRUPT, GETSIGINFO, PEEKUSER, DETACH = 7, 0x4200, 0x4206, 0x4207, 0x4202, 3, 17
TRACE_CLONE = 8
RIP = 16 * 8
WALL = 0x40000000
TRAP_TRACE = 2
STRAIGHT = (lib.GR_INSN_PLAIN, lib.GR_INSN_MEMORY, lib.GR_INSN_RIP)

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long


def _ptrace(request: int, tid: int, address: int = 0, data: int | ctypes.Array[ctypes.c_char] = 0) -> int:
    ctypes.set_errno(0)
    value = data if not isinstance(data, int) else ctypes.c_ulong(data)
    result = _libc.ptrace(ctypes.c_long(request), ctypes.c_long(tid), ctypes.c_ulong(address), value)
    if ctypes.get_errno():
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(result)


@dataclass
class Segment:
    """What one segment executed: the moments, and the watched words in front of each and in front of the operation."""

    thread: int
    before: tuple[int, ...]
    moments: list[Moment] = field(default_factory=list)
    values: list[tuple[int, ...]] = field(default_factory=list)
    after: tuple[int, ...] = ()

    def changes(self, tick: int, which: int) -> list[tuple[Moment, int, int]]:
        """(moment, old, new) of the instructions and the operation that changed the word; of a `rep`, whole."""
        places = [Moment(tick), *self.moments]
        words = [values[which] for values in (self.before, *self.values, self.after)]
        return [(moment, old, new) for moment, old, new in zip(places, words, words[1:], strict=False) if old != new]


@contextlib.contextmanager
def held(demo: Demo) -> Iterator[tuple[replays.Replay, Worker]]:
    """A replay of its own, in front of the first operation."""
    with open(os.devnull, "r+b") as nothing:
        stdio = (nothing.fileno(),) * 3
        replay = replays.start(demo, flags=lib.GR_SLOT_HOLD_END, stop_tick=0, stdio=stdio)
    try:
        worker = Worker(replay.control, replay.slot, demo)
        worker.finish()
        yield replay, worker
    finally:
        replay.close()


class Oracle:
    def __init__(self, demo: Demo, words: Sequence[tuple[int, int]]) -> None:
        """WORDS are (address, length)."""
        self.words = list(words)
        self.segments: list[Segment] = []
        self._tracees: set[int] = set()
        with held(demo) as (_, skeleton):
            frozen = skeleton.freeze()  # a copy has the text of the file
            self._worker = frozen.wake(lib.GR_LIVE_THREADS)
            self._run(demo)
            self._worker.drop()
            frozen.drop()
        self.moments = [
            moment for tick, segment in enumerate(self.segments) for moment in (Moment(tick), *segment.moments)
        ]
        self.place = {moment: place for place, moment in enumerate(self.moments)}

    # ---------------------------------------------------------------- running
    def _run(self, demo: Demo) -> None:
        worker = self._worker
        self._engine = list(_engine_ranges(worker.pid))
        worker.slot.flag(lib.GR_SLOT_TRACE)
        self._attach()
        order = [event.thread for event in demo.events()]
        for tick in range(demo.ticks):
            segment = Segment(order[tick], self._values())
            self.segments.append(segment)
            counts: dict[int, int] = {}
            last = 0
            worker.begin(tick + 1)
            for pc, values in self._traps():
                for first in self._untrapped(pc) if not counts else ():
                    assert values == segment.before
                    counts[first] = 1
                    segment.moments.append(Moment(tick, first, 1))
                    segment.values.append(values)
                if pc == last and self._is_repeated(pc):
                    continue
                last = pc
                counts[pc] = counts.get(pc, 0) + 1
                segment.moments.append(Moment(tick, pc, counts[pc]))
                segment.values.append(values)
            segment.after = self._values()

    def _untrapped(self, pc: int) -> list[int]:
        """The first instruction of a segment that the kernel led to from a handler, with the trap flag set.

        Its trap comes behind it, at PC. Only the engine knows which one that is; that it leads to PC is seen in its
        bytes.
        """
        pcs, _ = self._worker.control.trace(self._worker.slot)
        if pcs[:1] in ([], [pc]):
            return []
        with open(f"/proc/{self._worker.pid}/mem", "rb", buffering=0) as memory:
            insn = decoded(os.pread(memory.fileno(), LONGEST, pcs[0]))
        assert insn and (pcs[0] + insn.length == pc or insn.kind not in STRAIGHT), hex(pcs[0])
        return pcs[:1]

    def _values(self) -> tuple[int, ...]:
        with open(f"/proc/{self._worker.pid}/mem", "rb", buffering=0) as memory:
            return tuple(_word(memory.fileno(), address, length) for address, length in self.words)

    def _is_repeated(self, pc: int) -> bool:
        with open(f"/proc/{self._worker.pid}/mem", "rb", buffering=0) as memory:
            return os.pread(memory.fileno(), 1, pc) in (b"\xf2", b"\xf3")

    def _attach(self) -> None:
        for tid in map(int, os.listdir(f"/proc/{self._worker.pid}/task")):
            _ptrace(SEIZE, tid, 0, TRACE_CLONE)
            self._tracees.add(tid)

    def _traps(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Let it run until it stands; yields each step in the program."""
        mine = self._worker
        with open(f"/proc/{mine.pid}/mem", "rb", buffering=0) as memory:
            while True:
                tid, status = os.waitpid(-1, WALL | os.WNOHANG)
                if not tid:
                    if mine.done():
                        mine.check()
                        return
                    mine.slot.nap(0.0005)
                    continue
                if not os.WIFSTOPPED(status):
                    self._tracees.discard(tid)
                    assert tid != mine.pid, "the replay ended"
                    continue
                self._tracees.add(tid)
                number, event = os.WSTOPSIG(status), status >> 16
                if event or number != signal.SIGTRAP:
                    _ptrace(CONT, tid, 0, 0 if event else number)
                    continue
                info = ctypes.create_string_buffer(128)
                _ptrace(GETSIGINFO, tid, 0, info)
                pc = _ptrace(PEEKUSER, tid, RIP) & (1 << 64) - 1
                if int.from_bytes(info.raw[8:12], "little") == TRAP_TRACE and not self._in_engine(pc):
                    yield pc, tuple(_word(memory.fileno(), address, length) for address, length in self.words)
                with contextlib.suppress(ProcessLookupError):
                    _ptrace(CONT, tid, 0, signal.SIGTRAP)

    def _in_engine(self, pc: int) -> bool:
        return any(start <= pc < end for start, end in self._engine)

    # ---------------------------------------------------------------- answers
    def value(self, moment: Moment, which: int) -> int:
        segment = self.segments[moment.tick]
        if moment.pc is None:
            return segment.before[which]
        return segment.values[segment.moments.index(moment)][which]

    def thread(self, moment: Moment) -> int:
        return self.segments[moment.tick].thread

    def changes(self, which: int) -> list[tuple[Moment, int, int]]:
        return [change for tick, segment in enumerate(self.segments) for change in segment.changes(tick, which)]

    def executions(self, pc: int) -> list[Moment]:
        return [moment for moment in self.moments if moment.pc == pc]

    def before(self, moments: Sequence[Moment], limit: Moment) -> Sequence[Moment]:
        """Those of MOMENTS, in order, that are before LIMIT."""
        return moments[: bisect.bisect_left([self.place[moment] for moment in moments], self._place(limit))]

    def _place(self, moment: Moment) -> int:
        return len(self.moments) if moment.tick == len(self.segments) else self.place[moment]


def _word(fd: int, address: int, length: int) -> int:
    try:
        return int.from_bytes(os.pread(fd, length, address), "little")
    except OSError:
        return 0


def _engine_ranges(pid: int) -> Iterator[tuple[int, int]]:
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        for line in maps:
            if "libgdbrr.so" in line:
                start, _, end = line.split()[0].partition("-")
                yield int(start, 16), int(end, 16)


def shown(pid: int, born: int, index: int) -> dict[str, int]:
    return next(thread.regs for thread in threads.read(pid, born) if thread.index == index)
