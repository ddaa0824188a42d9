"""Who waits for whom where a demo or a recording ends: what a deadlock looks like.

Runs in: commands outside GDB. May call: abi, demo, config.
Owns: the wording of one thread's state at the end.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gdbrr.abi import ffi, lib
from gdbrr.config import tables
from gdbrr.demo.events import newest

if TYPE_CHECKING:
    from collections.abc import Collection

    from gdbrr.demo.events import Event
    from gdbrr.demo.reader import Demo

_NAMES = {
    lib.GR_OP_MUTEX_LOCK: "a mutex",
    lib.GR_OP_RWLOCK_READ: "a read-write lock, to read",
    lib.GR_OP_RWLOCK_WRITE: "a read-write lock, to write",
    lib.GR_OP_SPIN_LOCK: "a spinlock",
    lib.GR_OP_SEM_WAIT: "a semaphore",
    lib.GR_OP_ONCE: "what happens once",
    lib.GR_OP_FUTEX_WAIT: "a futex",
}
_TAKE = {
    lib.GR_OP_MUTEX_LOCK,
    lib.GR_OP_MUTEX_TRYLOCK,
    lib.GR_OP_RWLOCK_READ,
    lib.GR_OP_RWLOCK_WRITE,
    lib.GR_OP_SPIN_LOCK,
}
_GIVE = {lib.GR_OP_MUTEX_UNLOCK, lib.GR_OP_RWLOCK_UNLOCK, lib.GR_OP_SPIN_UNLOCK}
_OWNER_DIED = 130


@dataclass(frozen=True)
class Wait:
    """What one thread was in the middle of."""

    thread: int
    text: str
    object: int
    holders: tuple[int, ...]
    """Threads that have what it waits for, or the thread it wants to join."""
    op: int = 0
    """The operation that it waits to do; 0 where it may be in none, or in a system call."""
    stamp: int = 0
    """Of its last event: as long as that is the same it has not gone on."""

    def line(self) -> str:
        held = ", ".join(f"thread {holder}" for holder in self.holders)
        return f"{self.text}{f': {held}' if held else ''}"


class _State:
    """What is held by whom, event by event."""

    def __init__(self) -> None:
        self.last: dict[int, Event] = {}
        self.held: dict[int, list[int]] = {}
        self.stacks: dict[int, int] = {}
        self._mutex: dict[int, int] = {}
        self._making: dict[int, int] = {}

    def see(self, event: Event) -> None:
        thread, kind = event.thread, event.kind
        before = self.last.get(thread)
        if kind in _TAKE and event.result in (0, _OWNER_DIED):
            self._take(event.object, thread)
        elif kind in _GIVE:
            self._give(event.object, thread)
        elif (kind == lib.GR_OP_FAILED and event.result and before and before.kind in _GIVE) or (
            kind == lib.GR_OP_ONCE and event.result
        ):
            self._take(event.object, thread)
        elif kind in (lib.GR_OP_ONCE_DONE, lib.GR_OP_ONCE_ABORT):
            self._give(event.object, thread)
        elif kind == lib.GR_OP_LIBRARY_LOCK:
            self._library(event.object, thread, event.result)
        elif kind == lib.GR_OP_COND_WAIT:
            self._mutex[thread] = event.result
            self._give(event.result, thread)
        elif kind == lib.GR_OP_COND_WOKEN and thread in self._mutex:
            self._take(self._mutex.pop(thread), thread)
        elif kind == lib.GR_OP_CREATE:
            self._making[thread] = event.object
        elif kind == lib.GR_OP_SYS_START and event.object and thread in self._making:
            self.stacks[self._making.pop(thread)] = event.object
        self.last[thread] = event

    def _take(self, thing: int, thread: int) -> None:
        self.held.setdefault(thing, []).append(thread)

    def _library(self, word: int, thread: int, held: int) -> None:
        """Whoever finds the word free has it then, whoever has it gives it back; anybody else has asked in vain."""
        if held == 0:
            self.held[word] = [thread]
        else:
            self._give(word, thread)

    def _give(self, thing: int, thread: int) -> None:
        holders = self.held.get(thing, [])
        if thread in holders:
            holders.remove(thread)

    def thread_at(self, address: int) -> tuple[int, ...]:
        """The thread whose stack holds its descriptor at ADDRESS."""
        bases = sorted(self.stacks)
        place = bisect.bisect_right(bases, address)
        return (self.stacks[bases[place - 1]],) if place else ()


def at_the_end(demo: Demo) -> list[Wait]:
    """One row for each thread that had not ended, in the order of threads."""
    state = _State()
    state.last = {event.thread: event for event in newest(demo)}
    if any(map(_waits_for_a_lock, state.last.values())):
        for event in demo.events(runs=True):
            state.see(event)
    elif any(event.kind == lib.GR_OP_BLOCK for event in state.last.values()):
        state.stacks = _stacks(demo, state.last)
    rows = (_row(thread, event, state) for thread, event in sorted(state.last.items()))
    return [replace(row, stamp=state.last[row.thread].stamp) for row in rows if row]


def _waits_for_a_lock(event: Event) -> bool:
    """Who has it is known only when all was seen, which takes a microsecond an event."""
    if event.kind == lib.GR_OP_BLOCK:
        return bool(event.result != lib.GR_OP_JOIN)
    return bool(event.kind == lib.GR_OP_LIBRARY_LOCK and event.result)


def _stacks(demo: Demo, known: Collection[int]) -> dict[int, int]:
    """Which thread has which descriptor: what `see` finds, from the births alone; all else is passed over in C."""
    found: dict[int, int] = {}
    span, event = ffi.new("struct gr_span *"), ffi.new("struct gr_event *")
    base, used = ffi.new("uint64_t *"), ffi.new("size_t *")
    for thread in known:
        making = None
        for number in demo.stream_blocks(thread)[0]:
            raw, at = demo.content(number), 0
            start, base[0] = ffi.from_buffer(raw), demo.block(number).base
            while at < len(raw):
                if making is None:
                    lib.gr_span_until(start + at, len(raw) - at, lib.GR_OP_CREATE, base[0], span)
                    at, base[0] = at + span.bytes, span.last if span.bytes else base[0]
                    if at == len(raw):
                        break
                if not lib.gr_batch_decode(start + at, len(raw) - at, event, 1, 1, base, used):
                    raise demo.broken(f"a stream block of thread {thread} holds no valid events")
                at += used[0]
                if event.kind == lib.GR_OP_CREATE:
                    making = event.object
                elif event.kind == lib.GR_OP_SYS_START and event.object and making is not None:
                    if event.object in known:
                        found[making] = event.object
                    making = None
    return found


def _row(thread: int, event: Event, state: _State) -> Wait | None:
    kind, thing = event.kind, event.object
    if kind == lib.GR_OP_EXIT:
        return None
    if kind == lib.GR_OP_BLOCK and event.result == lib.GR_OP_JOIN:
        return Wait(thread, "waits for the end of a thread", thing, state.thread_at(thing), event.result)
    if kind == lib.GR_OP_BLOCK:
        holders = tuple(dict.fromkeys(state.held.get(thing, ())))
        if not holders and event.check:  # a mutex whose taking was only counted
            holders = (event.check - 1,)
        name = _NAMES.get(event.result, "an object")
        return Wait(thread, f"waits for {name} at {thing:#x}", thing, holders, event.result)
    if kind == lib.GR_OP_LIBRARY_LOCK and event.result and (event.check or state.held.get(thing)):
        holders = (event.check - 1,) if event.check else tuple(state.held[thing])
        return Wait(thread, f"waits for a lock of the C library at {thing:#x}", thing, holders, kind)
    if kind == lib.GR_OP_COND_WAIT:
        return Wait(thread, f"waits for the condition variable at {thing:#x}", thing, ())
    if kind == lib.GR_OP_BARRIER_ARRIVE:
        return Wait(thread, f"waits at the barrier at {thing:#x}", thing, ())
    if kind == lib.GR_OP_SYS_START:
        calls = {call.nr: call.name for call in tables.syscalls()}
        return Wait(thread, f"is in the system call {calls.get(event.nr - 1, event.nr - 1)}", 0, ())
    return Wait(thread, "runs", 0, ())
