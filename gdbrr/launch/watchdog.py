"""When a segment takes too long: its replay against its recorded time.

Runs in: commands outside GDB and the server. May call: abi, ctl, demo, /proc.
Owns: the rule that a segment of more than 20 times its recorded time and two seconds is desynchronised, not hung. One
whose end is searched for in a loop has a minute more, and says itself where it is not to be found.
"""

from __future__ import annotations

import os

from gdbrr.abi import lib
from gdbrr.ctl.control import is_stopped
from gdbrr.quick.paths import Path
from gdbrr.quick.rows import TYPE_CHECKING, NamedTuple
from gdbrr.quick.scopes import suppress

if TYPE_CHECKING:
    from gdbrr.demo.reader import Demo

FACTOR = 20
GRACE = 2.0
SEARCH = 60.0
_LARGEST_STEP = 0.1
_SIGNAL_LOOP = 3  # GR_SIGNAL_LOOP of preload/signal/signal.h
_FIRST_SPAN = 1024
_RESOLUTION = 0.016
"""How far a time may lie beside its event: 2^24 cycles at 1 GHz (INVARIANT(segment-time) in preload/log/log.c)."""


class Overdue(NamedTuple):
    """A segment that did not end in time."""

    tick: int
    """The operation behind which it runs."""
    thread: int
    recorded: float
    spent: float


def segment_time(demo: Demo, tick: int) -> tuple[int, float | None]:
    """The thread of TICK, and the most that its segment can have taken while recording; None where nothing tells."""
    thread = next(demo.events(start=tick, stop=tick + 1)).thread
    began = _last_time(demo, thread, tick)
    if began is None:
        return thread, None
    ended = next((event.time for event in demo.events(thread, tick + 1, runs=True) if event.time), 0)
    if not ended:  # its last one, or one shortly before the end
        start = demo.epochs[-1].start if demo.epochs else 0
        ended = max((event.time for event in demo.events(start=max(start, tick), runs=True)), default=0)
    return thread, max(0.0, (ended - began) / 1e6) + _RESOLUTION


def _last_time(demo: Demo, thread: int, tick: int) -> int | None:
    """The newest time of a thread at TICK or in front of it; nearest operations are looked at first."""
    stop, span = tick + 1, _FIRST_SPAN
    while stop > 0:
        start = max(0, stop - span)
        found = [event.time for event in demo.events(thread, start, stop, runs=True) if event.time]
        if found:
            return found[-1]
        stop, span = start, span * 8
    return None


class Watchdog:
    """Looks at a running replay now and then. Time in which it could not run does not count: it was stopped, or others
    had the processors."""

    def __init__(self, demo: Demo, pid: int) -> None:
        self._demo = demo
        self._pid = pid
        self._tick = -1
        self._spent = 0.0
        self._last = 0.0
        self._used: float | None = None
        self._limit: float | None = None
        self._thread = 0
        self._recorded = 0.0

    def look(self, tick: int, now: float) -> Overdue | None:
        """TICK is the next one at the monotonic time NOW; the answer is None as long as all is well."""
        step, self._last = min(now - self._last, _LARGEST_STEP), now
        if tick != self._tick:
            self._tick, self._spent, self._limit, self._used = tick, 0.0, None, None
            return None
        if self._spent > GRACE / 2:
            if is_stopped(self._pid, "Tt"):
                return None
            used, before = used_by(self._pid), self._used
            if used is not None and before is not None:
                step = min(step, used - before)
            self._used = used
        self._spent += step
        if self._spent <= GRACE or not 0 < tick <= self._demo.ticks:
            return None
        if self._limit is None:
            self._thread, recorded = segment_time(self._demo, tick - 1)
            self._recorded = recorded or 0.0
            grace = SEARCH if is_searched(self._demo, self._thread, tick) else GRACE
            self._limit = float("inf") if recorded is None else FACTOR * recorded + grace
        if self._spent <= self._limit:
            return None
        return Overdue(tick - 1, self._thread, self._recorded, self._spent)


def is_searched(demo: Demo, thread: int, tick: int) -> bool:
    """Whether the thread's next operation from TICK on is a stop in the middle of a computation."""
    event = next(demo.events(thread, tick), None)
    if event is None:
        return False
    return event.kind == lib.GR_OP_PREEMPT or (event.kind == lib.GR_OP_SIGNAL and event.flags == _SIGNAL_LOOP)


def used_by(pid: int) -> float | None:
    """Seconds of processor time of a process that could use more; None where all its threads wait."""
    used, wants = 0, False
    for path in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):
            fields = _fields(path)
            wants |= fields[0] == "R"
            used += int(fields[11]) + int(fields[12])
    return used / os.sysconf("SC_CLK_TCK") if wants else None


def ran(pid: int, tid: int = 0) -> float:
    """Seconds of processor time that a process has had, or one thread of it; 0 of one that is no more."""
    with suppress(OSError):
        fields = _fields(Path(f"/proc/{pid}/task/{tid}/stat" if tid else f"/proc/{pid}/stat"))
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _fields(stat: Path) -> list[str]:
    """What stands behind the name, which may hold anything: the state first."""
    return stat.read_text(errors="surrogateescape").rpartition(")")[2].split()
