"""What a timeline is to those above it: moments, points, hits, leaves; no processes in here.

Runs in: the server and scripts. May call: nothing but the standard library.
Owns: the vocabulary that gdbrr.rsp and gdbrr.ingdb are written against; gdbrr.timeline.timeline implements it,
tests fake it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, Protocol

from gdbrr.errors import GdbrrError

Progress = Callable[[str, float], None]
"""Called now and then with what goes on and the fraction done; raises Interrupted to cancel."""

FEW = 64
"""Bytes of a place that is looked for piece by piece, and shown as a whole."""

_MOMENT = re.compile(r"(?P<tick>[0-9]+)(?::0x(?P<pc>[0-9a-f]+)#(?P<nth>[0-9]+))?\Z")


class Interrupted(GdbrrError):
    """The user pressed Ctrl-C while something was searched or replayed."""


@dataclass(frozen=True)
class Moment:
    """A point in time: the instant before operation TICK, or before the NTH execution of PC in its segment."""

    tick: int
    pc: int | None = None
    nth: int = 0

    def __str__(self) -> str:
        return str(self.tick) if self.pc is None else f"{self.tick}:{self.pc:#x}#{self.nth}"

    @classmethod
    def parse(cls, text: str) -> Moment:
        match = _MOMENT.match(text)
        if not match:
            raise GdbrrError(
                f"{text!r} is not a moment", hint="a moment is TICK or TICK:0xPC#N, e.g. 120 or 120:0x401136#2"
            )
        if match["pc"] is None:
            return cls(int(match["tick"]))
        return cls(int(match["tick"]), int(match["pc"], 16), int(match["nth"]))


class PointKind(Enum):
    """What a search looks for."""

    WRITE = 0
    ACCESS = 1
    EXEC = 2
    CHANGE = 3


@dataclass(frozen=True)
class Point:
    kind: PointKind
    addr: int
    length: int = 1
    thread: int | None = None
    """Index of the thread whose hits count; None: everybody's."""
    condition: bytes = b""
    """GDB's agent bytecode; a hit at which it says 0 does not count. A data hit is judged behind the store."""


@dataclass(frozen=True)
class Hit:
    """A point was hit: `moment` is the instant before the instruction or operation that did it.

    INVARIANT(one-execution-one-hit): whatever debug registers, runs and rounds of a `rep` it took.
    """

    moment: Moment
    point: Point
    thread: int
    old: int = 0
    new: int = 0
    """Of the whole point where that has at most FEW bytes, else of the word at `addr`; told by `first_hit`, of that in
    any case."""
    addr: int = field(default=0, compare=False)
    """One of the point's words that were hit: what one debug register holds of it."""
    pc: int = field(default=0, compare=False)
    """Of the instruction that did it (`exact`) or of the one behind it; 0 for an operation's."""


class Call(NamedTuple):
    """The start of a system call, or its return, as a debugger stops at it."""

    tick: int
    thread: int
    number: int
    returns: bool
    behind: bool
    """Whether that is behind operation `tick`, where the program goes on, or in front of it."""


class Sent(NamedTuple):
    """A signal reaches a handler of the program's: operation `tick`, in front of which a debugger stops."""

    tick: int
    thread: int
    number: int

    @property
    def behind(self) -> bool:
        return False


class Turn(NamedTuple):
    """Operation `tick` is one of `thread`."""

    tick: int
    thread: int


@dataclass(frozen=True)
class ThreadView:
    """One thread of a leaf. Registers are the program's, even where the thread really waits in the engine."""

    index: int
    tid: int
    recorded_tid: int
    in_engine: bool
    regs: dict[str, int]
    """rax .. r15, rip, eflags, fs_base, gs_base; meaningful only if in_engine."""
    ret_pc: int
    """Where the program goes on after the operation it stands at; 0 if nowhere."""
    trapped: bool
    """Parked in the engine's trap handler: on release it goes on at regs["rip"]."""
    ops: int
    tick: int | None
    was: tuple[int, ...] = ()
    """Kernel ids of the same thread in processes that this one is a copy of: a register may hold one still."""


def meant(regs: dict[str, int], views: Sequence[ThreadView]) -> dict[str, int]:
    """Which of REGS may be kernel ids, of a process with these threads: what they were in the recording."""
    known = [view for view in views if view.recorded_tid]
    ids = {tid: view.recorded_tid for view in known for tid in view.was} | {
        view.tid: view.recorded_tid for view in known
    }
    return {name: ids[value] for name, value in regs.items() if value in ids}


@dataclass(frozen=True)
class Epoch:
    index: int
    start: int
    end: int
    bytes: int
    time: float | None
    """Seconds since the start of the recording at which it began; None where the recording does not tell."""


class Leaf(Protocol):
    """A disposable process standing at a moment."""

    @property
    def pid(self) -> int: ...
    @property
    def moment(self) -> Moment: ...
    @property
    def thread(self) -> int:
        """Index of the thread whose turn it is (at the end: the one the recording ended in)."""
        ...

    @property
    def last_thread(self) -> int:
        """Index of the thread that time ends in."""
        ...

    @property
    def trap_pc(self) -> int:
        """A SIGTRAP reported with this pc means: the leaf reached its stop tick or its end, not a breakpoint."""
        ...

    @property
    def call_pc(self) -> int:
        """A SIGTRAP reported with this pc means: an operation has mapped, unmapped or dropped what is watched."""
        ...

    @property
    def tick(self) -> int:
        """The next tick, now (moves while a debugger lets the leaf run)."""
        ...

    @property
    def ended(self) -> bool:
        """It stands behind the last tick; an unfinished segment may be still to come."""
        ...

    @property
    def cut(self) -> bool:
        """It stands where the replay last kept to the demo, and goes no further."""
        ...

    def check(self) -> None:
        """Raises what the replay ended in, where it could not go on."""
        ...

    def threads(self) -> Sequence[ThreadView]: ...
    def nest_at(self, tid: int) -> int:
        """Address of a thread's word that, while it is not 0, lets library functions and calls of the kernel pass the
        engine; 0 where there is none."""
        ...

    def release(self, stop_tick: int | None = None, watched: Sequence[tuple[int, int]] = ()) -> None:
        """Let the engine go on (to stop_tick or the end) as soon as a debugger resumes the process; WATCHED are the
        places, addresses and lengths, of whose mapping it is to tell."""
        ...

    def stop_at(self, stop_tick: int | None, watched: Sequence[tuple[int, int]] = ()) -> None:
        """The same for one that was let go before and is stopped by its debugger, in front of that tick."""
        ...

    def drop(self) -> None: ...


class Timeline(Protocol):
    """All of a demo's time. Moments are inclusive of `start` and `end`."""

    @property
    def start(self) -> Moment: ...
    @property
    def end(self) -> Moment: ...
    @property
    def epochs(self) -> Sequence[Epoch]: ...
    @property
    def ending(self) -> Mapping[str, Any] | None:
        """The manifest's `stop`: where time ends, if that is in the middle of a segment."""
        ...

    def lasting(self, moment: Moment) -> Moment:
        """The name of MOMENT that is true in each timeline of the same recording, however much more was recorded: one
        behind the last operation of all is one behind that operation of its thread."""
        ...

    def present(self, moment: Moment) -> Moment:
        """What a lasting name means here."""
        ...

    def seek(self, moment: Moment, progress: Progress | None = None) -> Leaf: ...
    def last_hit(
        self, points: Sequence[Point], before: Moment, progress: Progress | None = None, *, count: int = 1
    ) -> Hit | None:
        """The COUNT-th last one before BEFORE."""
        ...

    def first_hit(self, points: Sequence[Point], after: Moment, progress: Progress | None = None) -> Hit | None:
        """The first store to any of POINTS behind AFTER; as its moment, the operation in whose segment that is."""
        ...

    def all_hits(
        self, points: Sequence[Point], *, after: Moment, before: Moment, progress: Progress | None = None
    ) -> list[Hit]:
        """Every hit from AFTER up to BEFORE, oldest first."""
        ...

    def previous(self, moment: Moment, progress: Progress | None = None) -> Moment | None:
        """One instruction (or one operation) earlier in the same thread; None at the start."""
        ...

    def behind_others(
        self,
        now: Moment,
        line: range,
        function: range | None,
        points: Sequence[Point],
        progress: Progress | None = None,
    ) -> tuple[Moment, int] | None:
        """In a long segment: the first moment since which, of FUNCTION or of all there is, nothing but LINE was
        executed up to NOW, or the first in LINE behind the last hit of POINTS; and the stack pointer there. None where
        that is not known, or no way."""
        ...

    def locate(
        self,
        tick: int,
        thread: int,
        regs: dict[str, int],
        progress: Progress | None = None,
        *,
        like: int | None = None,
        views: Sequence[ThreadView] = (),
    ) -> Moment:
        """The moment of a thread that was stopped with these registers, in a process with these threads, in the segment
        of `tick`: the first one, or the first at which memory is that of the stopped process LIKE."""
        ...

    @property
    def doubtful(self) -> bool:
        """Whether the newest answer of `locate` may be another pass of a loop: no pass had that memory."""
        ...

    def next_call(
        self, tick: int, numbers: frozenset[int], thread: int | None = None, progress: Progress | None = None
    ) -> Call | None:
        """The first system call, or return from one, at TICK or behind it that has one of NUMBERS (none: any) and is
        not of THREAD."""
        ...

    def last_call(self, tick: int, numbers: frozenset[int], progress: Progress | None = None) -> Call | None:
        """The last one in front of TICK."""
        ...

    def next_signal(self, tick: int, passed: frozenset[int]) -> Sent | None:
        """The first signal that reaches a handler at TICK or behind it and is none of PASSED."""
        ...

    def last_signal(self, tick: int, passed: frozenset[int], thread: int | None = None) -> Sent | None:
        """The last one in front of TICK, of THREAD if one is named."""
        ...

    def siginfo(self, tick: int) -> bytes:
        """What came with the signal at TICK: the C library's `siginfo_t`."""
        ...

    def next_turn(self, tick: int, thread: int) -> Turn | None:
        """The first operation at TICK or behind it that is not one of THREAD; its own last one, if that comes before:
        behind it the thread may be no more."""
        ...

    def threads_in(self, epoch: Epoch) -> int:
        """How many threads have operations in it."""
        ...

    @property
    def checkpoints(self) -> Sequence[int]:
        """The ticks that have a checkpoint now."""
        ...

    def segment_of(self, thread: int, tick: int) -> int:
        """The tick of the moments behind operation TICK of THREAD: the last one, where its segment is unfinished."""
        ...

    def waiting(self, thread: int, tick: int) -> Moment:
        """In front of what THREAD stands while it is the turn of TICK: its next operation, or the last one it has."""
        ...

    def birth(self, thread: int) -> Moment:
        """The first operation of THREAD; the start for the first thread."""
        ...

    def seconds(self, tick: int) -> float | None:
        """When TICK happened, in seconds since the start of the recording; None where that does not tell."""
        ...

    def tick_at(self, seconds: float) -> int:
        """The first tick that is known to have happened at SECONDS or later."""
        ...

    @property
    def started(self) -> float | None:
        """The start of the recording as Unix time."""
        ...

    def close(self) -> None: ...
