"""The control page and its slots: one process each, told what to do and asked where it stands.

Runs in: the server, and commands outside GDB. May call: errors, abi, futex, crowd, /proc.
Owns: which slots are handed out; the side of a slot that the controller writes; what is believed of a replay's page.

INVARIANT(page-is-untrusted): a program that was led astray can write anything into the page at any time. So only this
module reads it: every length, count and number that leads anywhere is checked here, and what the controller has written
itself is remembered, not read back.
"""

from __future__ import annotations

import os
import time

from gdbrr import abi
from gdbrr.abi import ffi, lib
from gdbrr.config import tables
from gdbrr.ctl import futex
from gdbrr.ctl.crowd import Crowd
from gdbrr.errors import GdbrrError
from gdbrr.quick.rows import TYPE_CHECKING, Any, NamedTuple
from gdbrr.quick.scopes import contextmanager

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

FOREVER = (1 << 64) - 1
"""A stop_tick that is never reached."""
NOBODY = (1 << 32) - 2
"""A thread that is never born: a point of its hits stops, and is not in the log."""

START_LIMIT = 60.0
"""Seconds that a replay may take to come to its engine: the loader's work, which no demo makes longer."""
STOPPED_LIMIT = 5.0
"""Seconds for which a process of a replay may be stopped; nothing in it stops itself."""
_ADDRESSES = 1 << 47
_PANICS = abi.enum_names("enum gr_panic_code", "GR_PANIC_")
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


class Look(NamedTuple):
    """What GR_CMD_CHECK leaves; see struct gr_look."""

    memory: int
    ranges: int
    registers: int
    looked: int
    threads: int


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


def tampered(what: str) -> ProcessEnded:
    """The error that an impossible value in the page is."""
    return ProcessEnded(f"the replay says {what}: the program has tampered with its pages", "do not trust this demo")


class Patience:
    """How long a process that does not answer is waited for."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._stopped: float | None = None

    def look(self, pid: int, started: bool) -> None:
        """Raise an error where nothing will come: the process was stopped, or its engine does not start."""
        now = time.monotonic()
        if not started and now - self._began > START_LIMIT:
            raise ProcessEnded(f"the engine of the replay did not start within {START_LIMIT:.0f} s", "see gdbrr doctor")
        if not pid or not is_stopped(pid):
            self._stopped = None
        elif self._stopped is None:
            self._stopped = now
        elif now - self._stopped > STOPPED_LIMIT:
            raise ProcessEnded(f"process {pid} of the replay was stopped by a signal", "leave it alone, and try again")


class Slot:
    """One process of a replay. The process writes state, tick, hits and panic; everything else is written here."""

    def __init__(self, raw: Any, index: int, crowd: Crowd | None = None) -> None:
        self._raw = raw
        self.index = index
        self.final_thread = 0xFFFFFFFF
        self._flags = 0
        self._points = 0
        self._crowd = crowd
        self._mark = raw.ack_seq
        self._taken = 0
        self._cmd_address = int(ffi.cast("uintptr_t", ffi.addressof(raw, "cmd_seq")))
        self._start = ffi.cast("char *", ffi.addressof(raw))
        self._ack_address = int(ffi.cast("uintptr_t", ffi.addressof(raw, "ack_seq")))
        self._taken_address = int(ffi.cast("uintptr_t", ffi.addressof(raw, "hits_taken")))

    @property
    def pid(self) -> int:
        return int(self._raw.pid)

    @property
    def state(self) -> int:
        return int(self._raw.state)

    @property
    def tick(self) -> int:
        return int(self._raw.tick)

    @property
    def met(self) -> int:
        """How often points were met in this run, hits or not."""
        return int(self._raw.met)

    @property
    def logged(self) -> int:
        """Hits so far."""
        return int(self._raw.hits)

    @property
    def traced(self) -> int:
        """Single steps of a segment so far."""
        return int(self._raw.trace_len)

    @property
    def counted(self) -> bool:
        """Whether all of the segment was counted up to where a run with GR_SLOT_COUNT stood."""
        return bool(self._raw.counted)

    @property
    def instructions(self) -> int:
        """Of the segment, in front of there."""
        return int(self._raw.instructions)

    @property
    def executed(self) -> list[int]:
        """Of these, those at the addresses of the points."""
        return [int(times) for times in self._raw.executed[0 : self._points]]

    @property
    def panic(self) -> Panic | None:
        return read_panic(self._raw.panic) if self._raw.panic.set else None

    @property
    def soft(self) -> Soft | None:
        raw = self._raw.soft
        found = Soft(raw.count, raw.tick, raw.thread, raw.fd, raw.want_len, raw.got_len)
        return found if found.count else None

    @property
    def echo_error(self) -> int:
        """The errno of the write that ended the program's output; 0 as long as it goes on."""
        return int(self._raw.echo_error)

    @property
    def flags(self) -> int:
        """As they were set here."""
        return self._flags

    def flag(self, bits: int, on: bool = True) -> None:
        self._flags = self._flags | bits if on else self._flags & ~bits
        self._raw.flags = self._flags

    def stop_at(self, tick: int) -> None:
        """Another end of the run that is under way, or of the next one."""
        self._raw.stop_tick = tick

    def take_stretches(self) -> list[tuple[int, int]]:
        """What operations mapped, moved, unmapped or dropped since the last time."""
        count = min(int(self._raw.stretches), lib.GR_STRETCHES)
        rows = [(int(row.start), int(row.end)) for row in self._raw.stretch[0:count]]
        self._raw.stretches = 0
        return [(start, end) for start, end in rows if start < end <= _ADDRESSES]

    def clear(self, flags: int = 0, final_thread: int = 0xFFFFFFFF) -> None:
        """Make the slot ready for a process that does not exist yet."""
        for start, size in _CLEARED:
            ffi.memmove(self._start + start, _ZEROS, size)
        self._raw.flags = self._flags = flags
        self._raw.final_thread = self.final_thread = final_thread
        self._mark = 0

    def arm(self, points: Iterable[Armed], match: Match | None = None, instructions: int | None = None) -> None:
        """Set the points of the next run; MATCH makes executions count as a stop only with these registers. A counted
        run stops in front of a block that would make it more than INSTRUCTIONS from there on."""
        self._raw.instructions_wanted = 0 if instructions is None else 1 + instructions
        count = used = 0
        for count, point in enumerate(points, 1):
            row = self._raw.point[count - 1]
            row.addr, row.len, row.kind = point.addr, point.length, point.kind
            row.from_tick, row.stop_at = point.from_tick, point.stop_at
            row.thread = 0 if point.thread is None else point.thread + 1
            row.place, row.place_len = point.place
            row.condition, row.condition_len = used, len(point.condition)
            if used + len(point.condition) > lib.GR_CONDITION_ROOM:
                raise GdbrrError("the conditions are too long to be looked at at every hit", "use simpler ones")
            self._raw.condition[used : used + len(point.condition)] = point.condition
            used += len(point.condition)
        self._raw.points = self._points = count
        self._raw.hits = self._raw.hits_taken = self._raw.met = 0
        self._taken = 0
        self._raw.match_on = 0
        if match is not None:
            for name, value in match.regs.items():
                setattr(self._raw.match, name, value)
                setattr(self._raw.meant, name, match.meant.get(name, value))
            self._raw.match_on = 1

    def command(self, cmd: int, *, stop_tick: int | None = None, arg_slot: int | None = None) -> None:
        """Give a command; the process must be waiting for one."""
        if stop_tick is not None:
            self._raw.stop_tick = stop_tick
        if arg_slot is not None:
            self._raw.arg_slot = arg_slot
        self._mark = self._raw.ack_seq
        self._raw.cmd = cmd
        self._raw.cmd_seq = (self._raw.cmd_seq + 1) & 0xFFFFFFFF
        futex.wake(self._cmd_address)

    def answered(self, states: Collection[int]) -> bool:
        """Whether the process has come to one of STATES (or to a panic) since the last command."""
        return self._raw.ack_seq != self._mark and (self.state in states or self.state == lib.GR_S_PANIC)

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
        patience = Patience()
        while True:
            seen = self._raw.ack_seq
            if self.answered(states):
                return self.state
            if take:
                take()
            futex.wait(self._ack_address, seen, _PATIENCE)
            if self._raw.ack_seq != seen:
                continue
            if self.pid and has_ended(self.pid):
                raise ProcessEnded(
                    f"process {self.pid} of the replay ended by itself", "see gdbrr replay for the reason"
                )
            patience.look(self.pid, self.index > 0 or self.state != lib.GR_S_EMPTY)
            if self._crowd:
                self._crowd.look()
            if poll:
                poll()
            if deadline is not None and time.monotonic() > deadline:
                raise ProcessEnded(
                    f"process {self.pid} of the replay does not answer", "try again, and report it if it persists"
                )

    def nap(self, seconds: float) -> None:
        """Sleep until something changes in this slot, at most SECONDS."""
        futex.wait(self._ack_address, self._raw.ack_seq, seconds)

    def poke(self) -> None:
        """Wake whoever waits for this slot here, so that it looks around."""
        futex.wake(self._ack_address)

    def hits(self) -> list[PointHit]:
        """The newest hits, oldest first. When more happened than the ring holds, the first ones are lost."""
        total = self.logged
        return [self._hit(number) for number in range(max(0, total - lib.GR_HITS), total)]

    def take_hits(self, log: list[PointHit]) -> None:
        """Bring LOG, where all hits of a run with GR_SLOT_KEEP_HITS stand, up to date."""
        total = self.logged
        if total == self._taken:
            return
        if total - self._taken > lib.GR_HITS:  # the process waits where its ring is full
            raise tampered(f"{total:,} hits")
        del log[total:]  # a stretch that the program ran in vain
        log += (self._hit(number) for number in range(self._taken, total))
        self._taken = total
        self._raw.hits_taken = total & 0xFFFFFFFF
        futex.wake(self._taken_address)

    def _hit(self, number: int) -> PointHit:
        hit = read_hit(self._raw.hit[number % lib.GR_HITS])
        if hit.point >= self._points:
            raise tampered(f"a hit of point {hit.point} of {self._points}")
        return hit

    # ---------------------------------------------------------------- what a whole process is asked
    def digest(self, room: Any) -> bytes:
        """What GR_CMD_DIGEST left in ROOM, the page, told by a standing process."""
        self._ask(lib.GR_CMD_DIGEST)
        size = int(room.digest_len)
        if not size:
            raise GdbrrError("the process has more memory than a digest of it can hold", "use a smaller program")
        if size > lib.GR_DIGEST_ROOM:
            raise tampered(f"a digest of {size:,} bytes")
        return bytes(ffi.buffer(room.digest, size))

    def pages(self, room: Any, addresses: Sequence[int]) -> bytes:
        wanted = b"".join(address.to_bytes(8, "little") for address in addresses[: lib.GR_PAGES_MOST])
        ffi.memmove(room.digest, wanted, len(wanted))
        room.digest_len = len(wanted)
        self._ask(lib.GR_CMD_PAGES)
        return bytes(ffi.buffer(room.digest, len(wanted) // 8 * lib.GR_PAGE))

    def count(self, addresses: Sequence[int], length: int = 1) -> tuple[int, list[int]]:
        """How many instructions a process has executed in its segment, also a frozen one, and how many of them at each
        of ADDRESSES, or in the LENGTH bytes from there on."""
        executed: list[int] = []
        for at in range(0, max(1, len(addresses)), lib.GR_WATCHES):
            self.arm([Armed(address, length, lib.GR_POINT_EXEC) for address in addresses[at : at + lib.GR_WATCHES]])
            self._ask_count()
            if not self.counted:
                raise ProcessEnded(f"process {self.pid} has counted nothing", "try again")
            executed += self.executed
        return self.instructions, executed

    def _ask_count(self) -> None:
        """INVARIANT(its-own-answer): a frozen process says that it stands also behind each copy that it has made, and
        that may come late."""
        self.command(lib.GR_CMD_COUNT)
        asked, deadline = int(self._raw.cmd_seq), time.monotonic() + _DIGEST_TIMEOUT
        while True:
            seen = self._raw.ack_seq
            if self._raw.told == asked:
                return
            futex.wait(self._ack_address, seen, _PATIENCE)
            if has_ended(self.pid) or time.monotonic() > deadline:
                raise ProcessEnded(f"process {self.pid} of the replay does not answer", "try again")

    def look(self, whole: bool) -> Look:
        """The state of a standing process; WHOLE where the page tables do not tell what was written to."""
        self._raw.look.whole = whole
        self._ask(lib.GR_CMD_CHECK)
        raw = self._raw.look
        return Look(raw.memory, raw.ranges, raw.registers, raw.looked, raw.threads)

    def _ask(self, command: int) -> None:
        state = self.state
        self.command(command)
        self.wait((state,), timeout=_DIGEST_TIMEOUT)
        if panic := self.panic:
            raise GdbrrError(f"this machine refuses {panic.text}", panic.hint or "use it without check")


class Control:
    """A mapped control page. INVARIANT(one-owner): only this object hands out the slots of its page."""

    def __init__(self, page: abi.Ctl) -> None:
        self._page = page
        self._raw = page.c
        self._free = list(range(lib.GR_SLOTS - 1, 0, -1))
        self._knobs = {knob.name: int(self._raw.knob[place]) for place, knob in enumerate(tables.knobs())}
        self._trace_limit = [knob.name for knob in tables.knobs()].index("trace_limit")
        self.crowd = Crowd(int(self._raw.tasks_most))

    @property
    def started(self) -> bool:
        """Whether the engine came to work at all."""
        return bool(self._raw.started)

    @property
    def trap_pc(self) -> int:
        """Behind the instruction at which a leaf tells its debugger that it stands."""
        return int(self._raw.trap_pc)

    @property
    def call_pc(self) -> int:
        """The same of one at which it tells of something else."""
        return int(self._raw.call_pc)

    def knob(self, name: str) -> int:
        """As the profile set it."""
        return self._knobs[name]

    @contextmanager
    def trace_limited(self, most: int) -> Iterator[None]:
        """Meanwhile a segment is stepped through up to MOST instructions."""
        self._raw.knob[self._trace_limit] = most
        try:
            yield
        finally:
            self._raw.knob[self._trace_limit] = self._knobs["trace_limit"]

    def slot(self, index: int) -> Slot:
        return Slot(self._raw.slot[index], index, self.crowd)

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
        total, room = slot.traced, lib.GR_TRACE_MAX
        if total <= room:
            return list(self._raw.trace[0:total]), True
        at = total % room
        return list(self._raw.trace[at:room]) + list(self._raw.trace[0:at]), False

    def digest(self, slot: Slot) -> bytes:
        """What GR_CMD_DIGEST left, told by a standing process of SLOT."""
        return slot.digest(self._raw)

    def pages(self, slot: Slot, addresses: Sequence[int]) -> bytes:
        """Pages of a standing process, with rising addresses, less what digests leave out."""
        return slot.pages(self._raw, addresses)

    def close(self) -> None:
        self._page.close()


def has_ended(pid: int) -> bool:
    """Whether PID is gone or waits to be reaped. It is left to be reaped."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return not os.path.exists(f"/proc/{pid}")
    except OverflowError:  # no number of a process
        return True


def is_stopped(pid: int, states: str = "T") -> bool:
    """Whether a signal has stopped it. A process that a debugger holds is in another state, t."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return stat.read().rpartition(b")")[2].split()[0].decode() in states
    except (OSError, IndexError):
        return False


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
    if raw.code not in _PANICS:
        raise tampered(f"panic {raw.code}")
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
        place=ffi.buffer(raw.place)[: min(raw.place_len, lib.GR_PLACE)] if raw.place_len else b"",
    )
