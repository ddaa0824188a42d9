"""The control page and its slots: one process each, told what to do and asked where it stands.

Runs in: the server, and commands outside GDB. May call: errors, abi, futex.
Owns: which slots are handed out; the side of a slot that the controller writes.
"""

from __future__ import annotations

import os
import time
from array import array
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

from gdbrr import abi
from gdbrr.abi import ffi, lib
from gdbrr.ctl import futex
from gdbrr.errors import GdbrrError

FOREVER = (1 << 64) - 1
"""A stop_tick that is never reached."""
NOBODY = (1 << 32) - 2
"""A thread that is never born: a point of its hits stops, and is not in the log."""

_DIGEST_TIMEOUT = 60.0
_PATIENCE = 0.02
"""Seconds after which a waiting controller looks whether the process still lives and reports progress."""
_HITS, _BEHIND = (ffi.offsetof("struct gr_slot", name) for name in ("hit", "hits_taken"))
_CLEARED = ((0, _HITS), (_BEHIND, ffi.sizeof("struct gr_slot") - _BEHIND))
"""(start, size) in a slot: all but its hits, whose number is 0; a slot that never had any has no pages for them."""
_ZEROS = bytes(max(size for _, size in _CLEARED))


class Match(NamedTuple):
    """Registers at which an execution counts."""

    regs: dict[str, int]
    meant: dict[str, int]
    """Of those that may be the kernel's id of a thread, which differs in each process: the recording's."""


class Panic(NamedTuple):
    """Why a process of the program gave up."""

    code: int
    thread: int
    tick: int
    want_op: int
    got_op: int
    want_nr: int
    got_nr: int
    want_object: int
    got_object: int
    pc: int
    sp: int
    text: str
    hint: str

    @property
    def refused(self) -> bool:
        return bool(self.code == lib.GR_PANIC_REFUSED)

    @property
    def desynchronised(self) -> bool:
        return bool(self.code == lib.GR_PANIC_DESYNC)


class Soft(NamedTuple):
    """Output that differed although the demo was kept: how often, and the first time."""

    count: int  # type: ignore[assignment]  # nobody counts values in it
    tick: int
    thread: int
    fd: int
    """1 or 2: where the program's output went at its start."""
    want_len: int
    got_len: int


class PointHit(NamedTuple):
    """A hit as the engine logged it; `nth` counts from 1 within its tick."""

    tick: int
    pc: int
    nth: int
    old: int
    new: int
    thread: int
    point: int
    by_operation: bool
    stores: int = 0
    """Of data: how often the point was touched in front of this pc in this tick, changed or not; 0: not known."""
    trap: int = 0
    """Hits of one execution of an instruction have the same, but for one that is repeated; 0: none of its own."""
    place: bytes = b""
    """All of what the point is a part of, behind the hit."""


DEBUG_REGISTER = 8
"""Bytes that one watches."""


class Armed(NamedTuple):
    """A point as the engine takes it; `stop_at` 0 only logs."""

    addr: int
    length: int
    kind: int
    from_tick: int = 0
    stop_at: int = 0
    thread: int | None = None
    condition: bytes = b""
    place: tuple[int, int] = (0, 0)
    """Address and length of what it is a part of, which its hits are to show."""

    @property
    def by_pages(self) -> bool:
        """No debug register holds it; see preload/watch/pages.h."""
        return self.length > DEBUG_REGISTER


class ProcessEnded(GdbrrError):
    """The process behind a slot is gone, so it will never answer."""


class Slot:
    """One process of a replay. The process writes state, tick, hits and panic; everything else is written here."""

    def __init__(self, raw: Any, index: int) -> None:
        self.raw = raw
        self.index = index
        self._mark = raw.ack_seq
        self._taken = 0
        self._cmd_address = int(ffi.cast("uintptr_t", ffi.addressof(raw, "cmd_seq")))
        self._start = ffi.cast("char *", ffi.addressof(raw))
        self._ack_address = int(ffi.cast("uintptr_t", ffi.addressof(raw, "ack_seq")))
        self._taken_address = int(ffi.cast("uintptr_t", ffi.addressof(raw, "hits_taken")))

    @property
    def pid(self) -> int:
        return int(self.raw.pid)

    @property
    def state(self) -> int:
        return int(self.raw.state)

    @property
    def tick(self) -> int:
        return int(self.raw.tick)

    @property
    def panic(self) -> Panic | None:
        return read_panic(self.raw.panic) if self.raw.panic.set else None

    @property
    def soft(self) -> Soft | None:
        raw = self.raw.soft
        if not raw.count:
            return None
        return Soft(raw.count, raw.tick, raw.thread, raw.fd, raw.want_len, raw.got_len)

    @property
    def echo_error(self) -> int:
        """The errno of the write that ended the program's output; 0 as long as it goes on."""
        return int(self.raw.echo_error)

    def clear(self, flags: int = 0, final_thread: int = 0xFFFFFFFF) -> None:
        """Make the slot ready for a process that does not exist yet."""
        for start, size in _CLEARED:
            ffi.memmove(self._start + start, _ZEROS, size)
        self.raw.flags = flags
        self.raw.final_thread = final_thread
        self._mark = 0

    def arm(self, points: Iterable[Armed], match: Match | None = None) -> None:
        """Set the points of the next run; MATCH makes executions count as a stop only with these registers."""
        count = used = 0
        for count, point in enumerate(points, 1):
            row = self.raw.point[count - 1]
            row.addr, row.len, row.kind = point.addr, point.length, point.kind
            row.from_tick, row.stop_at = point.from_tick, point.stop_at
            row.thread = 0 if point.thread is None else point.thread + 1
            row.place, row.place_len = point.place
            row.condition, row.condition_len = used, len(point.condition)
            if used + len(point.condition) > lib.GR_CONDITION_ROOM:
                raise GdbrrError("the conditions are too long to be looked at at every hit", "use simpler ones")
            self.raw.condition[used : used + len(point.condition)] = point.condition
            used += len(point.condition)
        self.raw.points = count
        self.raw.hits = self.raw.hits_taken = self.raw.met = 0
        self._taken = 0
        self.raw.match_on = 0
        if match is not None:
            for name, value in match.regs.items():
                setattr(self.raw.match, name, value)
                setattr(self.raw.meant, name, match.meant.get(name, value))
            self.raw.match_on = 1

    def command(self, cmd: int, *, stop_tick: int | None = None, arg_slot: int | None = None) -> None:
        """Give a command; the process must be waiting for one."""
        if stop_tick is not None:
            self.raw.stop_tick = stop_tick
        if arg_slot is not None:
            self.raw.arg_slot = arg_slot
        self._mark = self.raw.ack_seq
        self.raw.cmd = cmd
        self.raw.cmd_seq = (self.raw.cmd_seq + 1) & 0xFFFFFFFF
        futex.wake(self._cmd_address)

    def answered(self, states: Collection[int]) -> bool:
        """Whether the process has come to one of STATES (or to a panic) since the last command."""
        return self.raw.ack_seq != self._mark and (self.state in states or self.state == lib.GR_S_PANIC)

    def wait(
        self,
        states: Collection[int],
        poll: Callable[[], None] | None = None,
        timeout: float | None = None,
        take: Callable[[], None] | None = None,
    ) -> int:
        """Wait until the process answers with one of STATES, and return the state.

        POLL is called now and then, TAKE whenever the process has announced something.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            seen = self.raw.ack_seq
            if self.answered(states):
                return self.state
            if take:
                take()
            futex.wait(self._ack_address, seen, _PATIENCE)
            if self.raw.ack_seq != seen:
                continue
            if self.pid and has_ended(self.pid):
                raise ProcessEnded(
                    f"process {self.pid} of the replay ended by itself", "see gdbrr replay for the reason"
                )
            if poll:
                poll()
            if deadline is not None and time.monotonic() > deadline:
                raise ProcessEnded(
                    f"process {self.pid} of the replay does not answer", "try again, and report it if it persists"
                )

    def nap(self, seconds: float) -> None:
        """Sleep until something changes in this slot, at most SECONDS."""
        futex.wait(self._ack_address, self.raw.ack_seq, seconds)

    def poke(self) -> None:
        """Wake whoever waits for this slot here, so that it looks around."""
        futex.wake(self._ack_address)

    def hits(self) -> list[PointHit]:
        """The newest hits, oldest first. When more happened than the ring holds, the first ones are lost."""
        total, room = int(self.raw.hits), lib.GR_HITS
        return [read_hit(self.raw.hit[number % room]) for number in range(max(0, total - room), total)]

    def take_hits(self, log: list[PointHit]) -> None:
        """Bring LOG, where all hits of a run with GR_SLOT_KEEP_HITS stand, up to date."""
        total, room = int(self.raw.hits), lib.GR_HITS
        if total == self._taken:
            return
        del log[total:]  # a stretch that the program ran in vain
        log += (read_hit(self.raw.hit[number % room]) for number in range(self._taken, total))
        self._taken = total
        self.raw.hits_taken = total & 0xFFFFFFFF
        futex.wake(self._taken_address)


class Control:
    """A mapped control page. INVARIANT(one-owner): only this object hands out the slots of its page."""

    def __init__(self, page: abi.Ctl) -> None:
        self._page = page
        self.raw = page.c
        self._free = list(range(lib.GR_SLOTS - 1, 0, -1))

    def slot(self, index: int) -> Slot:
        return Slot(self.raw.slot[index], index)

    def take_slot(self, flags: int = 0, final_thread: int = 0xFFFFFFFF) -> Slot:
        try:
            index = self._free.pop()  # one step: the skeleton's thread takes some, too
        except IndexError:
            raise GdbrrError(
                f"more than {lib.GR_SLOTS} processes of one replay", "lower limits.checkpoints in the profile"
            ) from None
        slot = self.slot(index)
        slot.clear(flags, final_thread)
        return slot

    def give_slot(self, slot: Slot) -> None:
        """Only when the slot's process is gone."""
        slot.clear()
        self._free.append(slot.index)

    def trace(self, slot: Slot) -> tuple[list[int], bool]:
        """The pcs of the segment that was traced last, oldest first, and whether the list begins at its beginning."""
        total, room = int(slot.raw.trace_len), lib.GR_TRACE_MAX
        if total <= room:
            return list(self.raw.trace[0:total]), True
        at = total % room
        return list(self.raw.trace[at:room]) + list(self.raw.trace[0:at]), False

    def digest(self, slot: Slot) -> bytes:
        """What GR_CMD_DIGEST left, told by a standing process of SLOT."""
        self._ask(slot, lib.GR_CMD_DIGEST)
        size = int(self.raw.digest_len)
        if not size:
            raise GdbrrError("the process has more memory than a digest of it can hold", "use a smaller program")
        return bytes(ffi.buffer(self.raw.digest, size))

    def pages(self, slot: Slot, addresses: Sequence[int]) -> bytes:
        """Pages of a standing process, with rising addresses, less what digests leave out."""
        wanted = array("Q", addresses[: lib.GR_PAGES_MOST]).tobytes()
        ffi.memmove(self.raw.digest, wanted, len(wanted))
        self.raw.digest_len = len(wanted)
        self._ask(slot, lib.GR_CMD_PAGES)
        return bytes(ffi.buffer(self.raw.digest, len(wanted) // 8 * lib.GR_PAGE))

    def look(self, slot: Slot, whole: bool) -> Any:
        """The struct gr_look of a standing process; WHOLE where the page tables do not tell what was written to."""
        slot.raw.look.whole = whole
        self._ask(slot, lib.GR_CMD_CHECK)
        return slot.raw.look

    def _ask(self, slot: Slot, command: int) -> None:
        state = slot.state
        slot.command(command)
        slot.wait((state,), timeout=_DIGEST_TIMEOUT)
        if slot.panic:
            raise GdbrrError(f"this machine refuses {slot.panic.text}", slot.panic.hint or "use it without check")

    def close(self) -> None:
        self._page.close()


def has_ended(pid: int) -> bool:
    """Whether PID is gone or waits to be reaped. It is left to be reaped."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return not os.path.exists(f"/proc/{pid}")


def is_child(pid: int) -> bool:
    """Whether PID is a child of ours, dead or alive.

    INVARIANT(own-children-only): a program that was led astray can write any number into the control page, so nothing
    is signalled, reaped or handed to a debugger by a pid from there before this was asked.
    """
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except (ChildProcessError, ValueError, OverflowError, OSError):
        return False
    return pid > 0


def read_panic(raw: Any) -> Panic:
    message, _, hint = abi.text(raw.text).partition("\n")
    return Panic(
        code=raw.code,
        thread=raw.thread,
        tick=raw.tick,
        want_op=raw.want_op,
        got_op=raw.got_op,
        want_nr=raw.want_nr,
        got_nr=raw.got_nr,
        want_object=raw.want_object,
        got_object=raw.got_object,
        pc=raw.pc,
        sp=raw.sp,
        text=message,
        hint=hint,
    )


def read_hit(raw: Any) -> PointHit:
    return PointHit(
        tick=raw.tick,
        pc=raw.pc,
        nth=raw.nth,
        old=raw.old_value,
        new=raw.new_value,
        thread=raw.thread,
        point=raw.point,
        by_operation=bool(raw.engine),
        stores=raw.stores,
        trap=raw.trap,
        place=ffi.buffer(raw.place)[: raw.place_len] if raw.place_len else b"",
    )
