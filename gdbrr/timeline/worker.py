"""One process of a replay that does what the controller says: runs to a tick, counts hits, leaves copies of itself.

Runs in: the server and scripts. May call: errors, ctl, launch.
Owns: the lives of these processes; nobody else ends or reaps them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from gdbrr.abi import lib
from gdbrr.ctl import threads
from gdbrr.ctl.control import (
    DEBUG_REGISTER,
    FOREVER,
    Armed,
    Control,
    Match,
    Panic,
    PointHit,
    ProcessEnded,
    Slot,
    has_ended,
    is_child,
)
from gdbrr.ctl.digest import Digest
from gdbrr.demo.reader import Demo
from gdbrr.errors import EXIT_DESYNC, GdbrrError
from gdbrr.launch.ends import errors
from gdbrr.launch.replay import end_process
from gdbrr.launch.watchdog import Overdue, Watchdog
from gdbrr.timeline import tracer
from gdbrr.timeline.model import Progress
from gdbrr.timeline.state import places
from gdbrr.timeline.tracer import NoProcess, Tracer

if TYPE_CHECKING:
    from gdbrr.timeline.state.states import States

STOPPED = (lib.GR_S_STANDING, lib.GR_S_TRAPPED, lib.GR_S_ENDED)
_WAKE_TIMEOUT = 30.0
_FROZEN_SCORE, _WOKEN_SCORE = 1000, 500
_MORE = ("another process (", "another thread (")
_NOTHING = Armed(0, DEBUG_REGISTER + 1, lib.GR_POINT_WRITE)
"""In a tracer's list, for a point that is not its own."""
_AGAIN = 0.02
"""Seconds after which a run that was told to stop is told again."""
_NEEDED = "which a signal in the middle of a computation needs"


class Desynchronised(GdbrrError):
    """A process of the replay could not keep the order of the demo."""

    def __init__(self, tick: int, what: str) -> None:
        super().__init__(what, "`gdbrr replay` on the demo says more", EXIT_DESYNC)
        self.tick = tick
        """In front of this one the replay still kept to the demo."""


class NoRegister(GdbrrError):
    """All debug registers are taken by points, and the replay needs one for itself."""


def failure(panic: Panic, place: str = "") -> GdbrrError:
    """The error that a panic in a replay is; PLACE is what stands where the state is not the recording's."""
    if panic.refused and panic.got_op:
        return errors.refusal(panic)
    if panic.refused and panic.text.endswith(_NEEDED):
        return NoRegister(f"this machine refuses {panic.text}", "gdbrr doctor says how to allow it")
    if panic.refused and panic.text.startswith(_MORE):
        return NoProcess(f"this machine refuses {panic.text}", panic.hint)
    if panic.refused:
        return GdbrrError(f"this machine refuses {panic.text}", panic.hint or "gdbrr doctor says how to allow it")
    what = "is desynchronised" if panic.desynchronised else "failed"
    reason = panic.text or "it gives no reason"
    return Desynchronised(
        panic.tick, f"the replay {what} at tick {panic.tick}: {reason}{place and f'; on that page: {place}'}"
    )


def late(overdue: Overdue) -> Desynchronised:
    """The error that a segment is which does not end."""
    return Desynchronised(
        overdue.tick,
        f"the replay is desynchronised behind tick {overdue.tick}: its segment has run"
        f" {overdue.spent:.1f} s, while recording {overdue.recorded:.2f} s",
    )


def _end_of(tick: int, ticks: int) -> int:
    return FOREVER if tick >= ticks else tick + 1


class Process:
    """A process with a slot: the skeleton, a frozen checkpoint or a worker."""

    def __init__(self, control: Control, slot: Slot, demo: Demo) -> None:
        self.control = control
        self.slot = slot
        self.demo = demo
        self.alive = True
        self.states: States | None = None
        """Where the state is looked at whenever a process stands; None: nowhere."""
        self.pid = slot.pid
        """As it was when it was found to be a child of ours; what the slot says later is not believed."""
        if not is_child(self.pid):
            raise ProcessEnded(f"process {self.pid} is none of the replay's", "the program has tampered with its pages")

    def drop(self) -> None:
        """End it and give its slot back. Doing it twice is harmless."""
        if not self.alive:
            return
        self.alive = False
        end_process(self.pid)
        if self.slot.index:
            self.control.give_slot(self.slot)

    def stop(self) -> None:
        """End it alone. INVARIANT(first-ends-last): with a replay's first process `drop` ends all others."""
        if self.slot.index:
            self.drop()
            return
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)  # its threads may not be there any more, either

    def digest(self) -> Digest:
        """Only while it stands."""
        return Digest.parse(self.control.digest(self.slot))

    def read(self, address: int, size: int) -> bytes:
        """Its memory there; zeros for what is not there."""
        with open(f"/proc/{self.pid}/mem", "rb", buffering=0) as memory:
            try:
                found = os.pread(memory.fileno(), size, address)
            except OSError:
                found = b""
        return found.ljust(size, b"\0")

    def is_expendable(self, score: int) -> None:
        """INVARIANT(copies-go-first): when memory is short, the kernel ends a copy rather than anything else."""
        with contextlib.suppress(OSError):
            file = os.open(f"/proc/{self.pid}/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(file, str(score).encode())
            finally:
                os.close(file)

    def check(self) -> None:
        panic = self.slot.panic
        if panic:
            raise failure(panic, places.of_recorded(self.pid, len(self.demo.threads), panic))

    def must_live(self) -> None:
        if has_ended(self.pid):
            raise ProcessEnded(f"process {self.pid} of the replay was ended from outside", "free some memory")

    def _copy(self, cmd: int, states: Sequence[int], flags: int, final_thread: int) -> Slot:
        slot = self.control.take_slot(flags, final_thread)
        try:
            self.slot.command(cmd, arg_slot=slot.index)
            slot.wait(states, self.must_live, timeout=_WAKE_TIMEOUT)
            if slot.panic:
                raise failure(slot.panic)
        except BaseException:
            if slot.pid:
                end_process(slot.pid)
            self.control.give_slot(slot)
            raise
        return slot


class Keeper(Protocol):
    """Who keeps checkpoints, as one of them sees it."""

    def again(self, lost: Checkpoint) -> Checkpoint:
        """Another one at the same tick: that one was ended from outside."""
        ...

    def make_room(self, needed: Checkpoint | None) -> bool:
        """End some of the others, because there may be no more processes; False if there are none to be ended."""
        ...


class Checkpoint(Process):
    """A frozen process that stands at `tick` and can be woken any number of times."""

    def __init__(self, control: Control, slot: Slot, demo: Demo, tick: int) -> None:
        super().__init__(control, slot, demo)
        self.tick = tick
        self.held = 0
        """Bytes of memory that nobody else has, when they were last counted."""
        self.keeper: Keeper | None = None

    def wake(self, final_thread: int) -> Worker:
        """A copy that stands where this one does; FINAL_THREAD may run on behind the last tick."""
        try:
            return self._wake(final_thread)
        except NoProcess:
            if not self.keeper or not self.keeper.make_room(self):
                raise
        except ProcessEnded:
            if not self.keeper or not has_ended(self.pid):
                raise
            self._take_over(self.keeper.again(self))
        return self._wake(final_thread)

    def _wake(self, final_thread: int) -> Worker:
        slot = self._copy(lib.GR_CMD_WAKE, (lib.GR_S_STANDING, lib.GR_S_ENDED), lib.GR_SLOT_HOLD_END, final_thread)
        worker = Worker(self.control, slot, self.demo)
        worker.states = self.states
        worker.is_expendable(_WOKEN_SCORE)
        return worker

    def _take_over(self, other: Checkpoint) -> None:
        """Be the process that OTHER was."""
        self.drop()
        self.slot, self.pid, self.alive, self.held = other.slot, other.pid, True, 0

    def private(self) -> int:
        """Bytes of memory that no other process has."""
        try:
            with open(f"/proc/{self.pid}/smaps_rollup", encoding="ascii") as rollup:
                return sum(int(line.split()[1]) << 10 for line in rollup if line.startswith("Private_"))
        except OSError:
            return 0


class Worker(Process):
    """A process that runs when told to and then stands, is trapped or has ended."""

    def __init__(self, control: Control, slot: Slot, demo: Demo) -> None:
        super().__init__(control, slot, demo)
        self._watchdog: Watchdog | None = None
        self._tracer: Tracer | None = None
        self.counted = True
        """Of the last run, if it was to be: whether it was."""
        self._perf = False  # its perf events are open: they leave no debug register to a tracer

    def drop(self) -> None:
        super().drop()
        self._end_tracer()

    def _end_tracer(self) -> None:
        if self._tracer:
            self._tracer.close()
            self._tracer = None

    def begin(
        self,
        stop_tick: int,
        points: Sequence[Armed] = (),
        match: Match | None = None,
        counted: bool = False,
        instructions: int | None = None,
    ) -> None:
        """Start running; `done` tells when it stopped. COUNTED: what it executes in this segment is counted; it stops
        at the latest in front of a block that would make it more than INSTRUCTIONS."""
        self._end_tracer()
        self.slot.flag(lib.GR_SLOT_COUNT, counted)
        # Counting hits and single steps take longer than any recording says.
        plain = not points and not counted and match is None and not self.slot.flags & lib.GR_SLOT_TRACE
        self._watchdog = Watchdog(self.demo, self.pid) if plain else None
        self.slot.arm(points, match, instructions)
        registers = [
            point for point in points if not point.by_pages and not (counted and point.kind == lib.GR_POINT_EXEC)
        ]
        traced = not self._perf and tracer.needed(self.control.knob("points"), registers)
        if traced:
            self._tracer = Tracer(self.pid, [point if point in registers else _NOTHING for point in points])
            self.slot.flag(lib.GR_SLOT_TRACED)
        else:
            self.slot.flag(lib.GR_SLOT_TRACED, False)
            self._perf = self._perf or bool(registers)
        self.slot.command(lib.GR_CMD_RUN, stop_tick=stop_tick)

    def done(self) -> bool:
        return self.slot.answered(STOPPED)

    def begin_segment(self, tick: int, ticks: int, points: Sequence[Armed] = ()) -> None:
        """Start running the segment of TICK, where this worker stands; behind the last of TICKS there is the tail."""
        self.begin(_end_of(tick, ticks), points)

    def finish(
        self,
        progress: Progress | None = None,
        what: str = "replaying",
        goal: int = 0,
        log: list[PointHit] | None = None,
    ) -> int:
        """Wait for the stop; returns the state. LOG gets every hit of a run with GR_SLOT_KEEP_HITS."""
        first = self.slot.tick
        take = (lambda: self.slot.take_hits(log)) if log is not None else None

        def poll() -> None:
            overdue = self._watchdog.look(self.slot.tick, time.monotonic()) if self._watchdog else None
            if overdue:
                raise late(overdue)
            if progress:
                progress(what, min(1.0, max(0, self.slot.tick - first) / max(1, goal - first)))

        state = self.slot.wait(STOPPED, poll, take=take)
        if take:
            take()
        self.slot.flag(lib.GR_SLOT_COUNT, False)
        self.counted = self.slot.counted
        self.check()
        self.look()
        return state

    def look(self) -> None:
        """INVARIANT(never-silently): whoever stands where somebody stood before is compared, if that is wanted."""
        if self.states and self.slot.state != lib.GR_S_TRAPPED:
            self.states.look(self)

    def run(
        self,
        stop_tick: int,
        points: Sequence[Armed] = (),
        match: Match | None = None,
        progress: Progress | None = None,
        what: str = "replaying",
        counted: bool = False,
        instructions: int | None = None,
    ) -> int:
        self.begin(stop_tick, points, match, counted, instructions)
        return self.finish(progress, what, stop_tick)

    def run_segment(
        self,
        tick: int,
        ticks: int,
        points: Sequence[Armed] = (),
        match: Match | None = None,
        progress: Progress | None = None,
        counted: bool = False,
        instructions: int | None = None,
    ) -> int:
        """Run the segment of TICK, in front of which this worker stands; behind the last of TICKS there is the tail."""
        return self.run(_end_of(tick, ticks), points, match, progress, counted=counted, instructions=instructions)

    def halt(self) -> None:
        """Let a counted run stop where it is; it may have to be told again."""
        for each in threads.read(self.pid, len(self.demo.threads)):
            if each.state == lib.GR_T_RUNNING:
                threads.send(self.pid, each.tid, signal.SIGTRAP)

    def run_counted(self, stop_tick: int, points: Sequence[Armed], most: float, poll: Callable[[], None]) -> int:
        """Run and count, for MOST seconds or a little more; returns the state. POLL is called now and then."""
        self.begin(stop_tick, points, counted=True)
        began, told = time.monotonic(), 0.0

        def look(what: str, fraction: float) -> None:
            nonlocal told
            now = time.monotonic()
            if now - began > most and now - told > _AGAIN and self.slot.counted:
                told = now
                self.halt()
            poll()

        return self.finish(look)

    def stops_in(
        self,
        tick: int,
        ticks: int,
        points: Sequence[Armed],
        match: Match | None = None,
        progress: Progress | None = None,
        counted: bool = False,
        instructions: int | None = None,
    ) -> bool:
        """The same, up to where a point stops it; where none does, or that fails, this worker has ended."""
        try:
            if self.run_segment(tick, ticks, points, match, progress, counted, instructions) == lib.GR_S_TRAPPED:
                return True
        except BaseException:
            self.drop()
            raise
        self.drop()
        return False

    def freeze(self) -> Checkpoint:
        """Leave a frozen copy that stands where this worker stands."""
        slot = self._copy(lib.GR_CMD_FREEZE, (lib.GR_S_FROZEN,), 0, self.slot.final_thread)
        checkpoint = Checkpoint(self.control, slot, self.demo, self.slot.tick)
        checkpoint.states = self.states
        checkpoint.is_expendable(_FROZEN_SCORE)
        return checkpoint
