"""What each system call of a demo is about: a replay that is stopped in front of calls and looked at.

Runs in: `gdbrr suggest` and `gdbrr minimize`. May call: errors, config, ctl, demo, launch.
Owns: which calls are looked at, and how what a descriptor refers to is named. A demo holds hashes of arguments, not
the arguments: only the program itself can tell them.
"""

from __future__ import annotations

import os
import posixpath
import struct
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from gdbrr.abi import lib
from gdbrr.config import tables
from gdbrr.ctl import threads
from gdbrr.ctl.control import ProcessEnded
from gdbrr.launch import replay as replays

if TYPE_CHECKING:
    from gdbrr.demo.events import Event
    from gdbrr.demo.reader import Demo
    from gdbrr.launch.replay import Replay

STOPS = 20_000
"""Calls that are looked at, of those about a descriptor or a path; the others are known by their class only."""
_PATIENCE = 60.0
_REGISTERS = ("rdi", "rsi", "rdx", "r10", "r8", "r9")
_AT_FDCWD = -100
_STANDARD = {0: "standard input", 1: "standard output", 2: "standard error"}
_MADE = {
    "socket": "a socket", "socketpair": "a socket pair", "accept": "a connection", "accept4": "a connection",
    "pipe": "a pipe", "pipe2": "a pipe", "eventfd": "an eventfd", "eventfd2": "an eventfd",
    "epoll_create": "an epoll set", "epoll_create1": "an epoll set", "timerfd_create": "a timerfd",
    "signalfd": "a signalfd", "signalfd4": "a signalfd", "inotify_init": "inotify", "inotify_init1": "inotify",
    "memfd_create": "a memfd",
}  # fmt: skip

_PAIRS = {"pipe": "pipe", "pipe2": "pipe", "socketpair": "net"}
"""Calls that tell two descriptors, and of which class these are."""

Poll = Callable[[int], None]


class Thing(NamedTuple):
    """What a call is about."""

    cls: str
    """Its class; empty for what the program was started with, whose class the demo does not tell."""
    name: str
    """A path, or what a descriptor refers to, with its number; else the name of the call."""
    call: str


class Arguments(NamedTuple):
    """Of a call with a descriptor or a path: as far as it has them."""

    fd: int | None
    path: str | None


def positions(call: tables.Syscall) -> tuple[int | None, int | None]:
    """Which arguments, from 0, are the descriptor and the path that a call is about."""
    fd = next((effect.numbers[0] - 1 for effect in call.effects if effect.word == "FD"), None)
    path = next((effect.numbers[0] - 1 for effect in call.effects if effect.word == "STR"), None)
    return fd, path


def look(demo: Demo, trust: bool, poll: Poll | None = None) -> dict[int, Arguments]:
    """The arguments of calls, by the tick of their start. As far as the replay keeps to the demo."""
    wanted: list[tuple[int, int, tables.Syscall]] = []
    for event in demo.events(runs=True):
        call = tables.syscall_by_nr().get(event.nr - 1) if event.kind == lib.GR_OP_SYS_START else None
        if call and positions(call) != (None, None):
            wanted.append((event.tick, event.thread, call))
            if len(wanted) == STOPS:
                break
    found: dict[int, Arguments] = {}
    if not wanted:
        return found
    with replays.standing_at(demo, wanted[0][0], trust, _PATIENCE) as replay:
        if replay is None:
            return found
        born = len(demo.threads) + 1
        for tick, thread, call in wanted:
            if not _go(replay, tick):
                break
            found[tick] = _read(replay.pid, born, thread, call)
            if poll:
                poll(tick)
    return found


def _go(replay: Replay, tick: int) -> bool:
    """Whether the replay stands in front of TICK."""
    slot = replay.slot
    if slot.tick < tick:
        slot.command(lib.GR_CMD_RUN, stop_tick=tick)
        try:
            slot.wait((lib.GR_S_STANDING, lib.GR_S_ENDED), timeout=_PATIENCE)
        except ProcessEnded:
            return False
    return slot.state == lib.GR_S_STANDING and slot.tick == tick


def _read(pid: int, born: int, thread: int, call: tables.Syscall) -> Arguments:
    regs = next((row.regs for row in threads.read(pid, born) if row.index == thread), None)
    if regs is None:
        return Arguments(None, None)
    fd_at, path_at = positions(call)
    fd = path = None
    if fd_at is not None:
        low = regs[_REGISTERS[fd_at]] & 0xFFFFFFFF
        fd = low - (1 << 32) if low >> 31 else low
    if path_at is not None and regs[_REGISTERS[path_at]]:
        path = _text(pid, regs[_REGISTERS[path_at]])
    return Arguments(fd, path)


def _text(pid: int, address: int) -> str | None:
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            raw = os.pread(memory.fileno(), min(4096, 8192 - address % 4096), address)
    except (OSError, OverflowError):
        return None
    return os.fsdecode(raw.split(b"\0", 1)[0])


class Names:
    """What the descriptors of the program refer to, while one walks over its operations in their order."""

    def __init__(self, demo: Demo, arguments: Mapping[int, Arguments]) -> None:
        self._arguments = arguments
        self._cwd: str = demo.manifest["cwd"]
        self._open = {fd: Thing("", name, "") for fd, name in _STANDARD.items()}
        self._under_way: dict[int, tuple[Thing, Arguments]] = {}

    def start(self, event: Event) -> Thing:
        """What a call is about that starts."""
        call = tables.syscall_by_nr().get(event.nr - 1)
        if call is None:
            return Thing("", f"call {event.nr - 1}", f"call {event.nr - 1}")
        arguments = self._arguments.get(event.tick, Arguments(None, None))
        thing = Thing(call.cls, call.name, call.name)
        if arguments.path:
            thing = Thing(call.cls, self._absolute(arguments), call.name)
        elif arguments.fd is not None and arguments.fd in self._open:
            known = self._open[arguments.fd]
            thing = Thing(known.cls if "BY_FD" in call.flags else known.cls or call.cls, known.name, call.name)
        elif arguments.fd is not None and arguments.fd >= 0:
            thing = Thing(call.cls, f"descriptor {arguments.fd}", call.name)
        elif "BY_FD" in call.flags:
            thing = Thing("", "descriptors that were not looked at", call.name)
        self._under_way[event.thread] = thing, arguments
        return thing

    def end(self, event: Event) -> Thing:
        """The same of a call that ends; descriptors that it made or closed are known from here on."""
        thing, arguments = self._under_way.get(event.thread, (Thing("", "", ""), Arguments(None, None)))
        call = tables.syscall_by_nr().get(event.nr - 1)
        if call is None or event.result < 0:
            return thing
        words = {effect.word: effect.numbers for effect in call.effects}
        fd = arguments.fd if arguments.fd is not None else -1
        if "CLOSES" in words:
            self._open.pop(fd, None)
        elif "DUPS" in words or "DUPS_TO" in words or (call.name == "fcntl" and event.flags):
            if fd in self._open:
                self._open[event.result] = self._open[fd]
        elif call.name in _PAIRS and len(event.data) >= 12:
            for number in struct.unpack_from("<ii", event.data, 4):
                self._open[number] = Thing(_PAIRS[call.name], f"{_MADE[call.name]} ({number})", "")
        elif event.flags and call.makes:
            cls = tables.classes()[event.flags & 31].name if event.flags & 31 < len(tables.classes()) else ""
            name = thing.name if arguments.path else f"{_MADE.get(call.name, 'what it made')}"
            self._open[event.result] = Thing(cls, name if arguments.path else f"{name} ({event.result})", "")
        if call.name == "chdir" and arguments.path:
            self._cwd = thing.name
        return thing

    def _absolute(self, arguments: Arguments) -> str:
        path = arguments.path or ""
        if path.startswith("/"):
            return posixpath.normpath(path)
        base = self._cwd
        if arguments.fd is not None and arguments.fd != _AT_FDCWD and arguments.fd in self._open:
            base = self._open[arguments.fd].name
        return posixpath.normpath(posixpath.join(base, path))
