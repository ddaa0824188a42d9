"""Whether threads of a program that is being recorded wait for each other, and will for ever.

Runs in: `gdbrr record --runs`. May call: errors, abi, config, demo, launch, /proc.
Owns: the proof. The log says which thread waits for what and which one has it, the kernel whether a wait has an end of
its own: a limit of time, a descriptor, a child, a signal. Such a thread waits for the world, and is in no deadlock.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gdbrr.abi import lib
from gdbrr.config import tables
from gdbrr.errors import GdbrrError
from gdbrr.launch import scratch, waits

if TYPE_CHECKING:
    from gdbrr.launch.record import Recording
    from gdbrr.launch.waits import Wait

_PAUSE = 0.5
_SHARE = 20
"""So many times as long as a look took nobody looks again."""
_FUTEX = 202
_WAIT, _LOCK_PI, _WAIT_BITSET, _WAIT_REQUEUE_PI, _LOCK_PI2 = 0, 6, 9, 11, 13
_COMMAND = 0x7F
_ALARMS = frozenset(("alarm", "setitimer"))
"""Who called one of these may be waiting for its signal, whose handler gives something."""


class Tasks(NamedTuple):
    """The threads of a process as the kernel has them."""

    told: frozenset[int]
    """Those that go on when another thread says so, and for nothing else."""
    all: frozenset[int]


class _Known(NamedTuple):
    rows: Sequence[Wait]
    ids: Mapping[int, int]
    """The kernel's id of each thread that has begun."""
    alarms: bool


class Deadlock:
    """Looks at one recording now and then."""

    def __init__(self, recording: Recording, seconds: float) -> None:
        self._recording = recording
        self._seconds = seconds
        self._proof: tuple[tuple[int, int], ...] = ()
        self._since = self._next = 0.0
        self._known: tuple[int, _Known] | None = None

    def look(self) -> str:
        """Which threads wait for each other, once they have for so many seconds; else nothing."""
        now = time.monotonic()
        if now < self._next or not self._recording.page.c.started:
            return ""
        tasks = asleep(self._recording.pid)
        found = self._find(tasks) if tasks.told else []
        proof = tuple((row.thread, row.stamp) for row in found)
        if proof != self._proof:
            self._proof, self._since = proof, now
        self._next = now + max(min(self._seconds / 2, _PAUSE), _SHARE * (time.monotonic() - now))
        return said(found) if found and now - self._since >= self._seconds else ""

    def _find(self, tasks: Tasks) -> list[Wait]:
        known = self._read()
        if known is None:
            return []
        told = {thread for thread, tid in known.ids.items() if tid in tasks.told}
        rows = {row.thread: row for row in known.rows if row.thread in told}
        ended = known.ids.keys() - {row.thread for row in known.rows}
        found = circle(rows, ended)
        everybody = tasks.told == tasks.all and len(rows) == len(tasks.all)
        if (
            found
            or not everybody
            or known.alarms
            or _has_timers(self._recording.pid)
            or _has_children(self._recording.pid)
        ):
            return found
        return list(rows.values())

    def _read(self) -> _Known | None:
        """Who waits for what by now.

        INVARIANT(still-clock-still-log): while the clock stands still, nothing is added to the log but counts."""
        clock = int(self._recording.page.c.clock)
        if self._known is None or self._known[0] != clock:
            with contextlib.suppress(GdbrrError, OSError):
                self._known = clock, _packed(self._recording.directory)
                return self._known[1]
            return None
        return self._known[1]


def _packed(directory: Path) -> _Known:
    from gdbrr.demo import pack
    from gdbrr.demo.reader import Demo

    numbers = {row.nr + 1 for row in tables.syscalls() if row.name in _ALARMS}
    with scratch.directory() as where:
        path = where / "now.demo"
        pack.pack(directory, path, keep=True)
        with Demo.open(path) as demo:
            alarms = any(event.nr in numbers for event in demo.events(runs=True) if event.kind == lib.GR_OP_SYS_START)
            ids = {row.index: row.recorded_tid for row in demo.threads if row.recorded_tid is not None}
            return _Known(waits.at_the_end(demo), ids, alarms)


def asleep(pid: int) -> Tasks:
    """Raises an error where the kernel does not say what threads wait for: then nothing would ever be a deadlock."""
    told, every = set(), set()
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                task = Path(f"/proc/{pid}/task/{name}")
                if (task / "stat").read_bytes().rpartition(b")")[2].split()[0] in (b"Z", b"X"):
                    continue
                every.add(int(name))
                if _is_told(_call(task / "syscall")):
                    told.add(int(name))
    return Tasks(frozenset(told), frozenset(every))


def _call(row: Path) -> list[str]:
    try:
        return row.read_text(encoding="ascii").split()
    except PermissionError as error:
        why = f"it is not shown here what the program's threads wait for ({error.strerror})"
        raise GdbrrError(why, "ask for --until idle:SECONDS instead of hang") from None


def _is_told(call: Sequence[str]) -> bool:
    """Of a row of /proc/PID/task/TID/syscall: a wait for a futex without a limit.

    With one thread at a time a thread waits for a word of the engine's, and looks at it now and then without a limit
    of the program's (`doze` in preload/log/turn.c); with one, or for its turn, it waits with FUTEX_WAIT_BITSET."""
    if len(call) < 5 or call[0] != str(_FUTEX):
        return False
    word, command, limit = int(call[1], 16), int(call[2], 16) & _COMMAND, int(call[4], 16)
    if command == _WAIT and 0 <= word - lib.GR_THREADS_ADDR < lib.GR_LIVE_THREADS * lib.GR_THREAD_BLOCK:
        return True
    return command in (_WAIT, _WAIT_BITSET, _WAIT_REQUEUE_PI, _LOCK_PI, _LOCK_PI2) and not limit


def _has_timers(pid: int) -> bool:
    try:
        return bool(Path(f"/proc/{pid}/timers").read_bytes())
    except OSError:
        return False


def _has_children(pid: int) -> bool:
    """One that shares memory with the program may give it something."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                fields = Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()
                if int(fields[1]) == pid and fields[0] not in (b"Z", b"X"):
                    return True
    return False


def circle(rows: Mapping[int, Wait], ended: Collection[int]) -> list[Wait]:
    """Threads of which each waits for the next one, and the last for the first, or for what one has that ENDED."""
    for first in rows:
        came: dict[int, int] = {}
        todo = [first]
        while todo:
            thread = todo.pop()
            for holder in rows[thread].holders:
                gone = holder in ended and rows[thread].op != lib.GR_OP_JOIN
                if holder == first or gone:
                    way = [thread]
                    while way[-1] != first:
                        way.append(came[way[-1]])
                    return [rows[one] for one in reversed(way)]
                if holder in rows and holder not in came:
                    came[holder] = thread
                    todo.append(holder)
    return []


def said(found: Sequence[Wait]) -> str:
    rows = [f"thread {row.thread} {row.line()}" for row in found[:4]]
    more = f" and {len(found) - 4} more" if len(found) > 4 else ""
    return f"{'; '.join(rows)}{more}: a deadlock"
