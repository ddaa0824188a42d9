"""Stop replies: gdbserver's, and those GDB is given; pure.

Runs in: the server and tests. May call: gdbrr.rsp.request.
Owns: the shape of T, S, W and X packets.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass, field

from gdbrr.rsp.request import ThreadId

SIGNAL_NONE = 0
SIGNAL_HUP = 1
SIGNAL_INT = 2
SIGNAL_TRAP = 5
SIGNAL_BUS = 10
SIGNAL_SEGV = 11
SIGNAL_SYS = 12
SIGNAL_STOP = 17
SIGNAL_CONT = 19
"""In GDB's own numbers, which are not the kernel's."""

_OTHERS = {7: 10, 10: 30, 12: 31, 16: 143, 17: 20, 18: 19, 19: 17, 20: 18, 23: 16, 29: 23}
_FROM_KERNEL = {number: number if number < 30 else number + 12 for number in range(1, 64)}
_FROM_KERNEL |= {**_OTHERS, 30: 32, 31: 12, 32: 77, 64: 78}

WATCHES = ("watch", "rwatch", "awatch")


@dataclass(frozen=True)
class Stop:
    """A process stopped, or ended."""

    signal: int = SIGNAL_TRAP
    tid: int = 0
    reasons: tuple[tuple[str, str], ...] = ()
    """What GDB is told beyond the signal: ("watch", "4010"), ("swbreak", ""), ("replaylog", "end")."""
    registers: dict[int, bytes] = field(default_factory=dict, compare=False)
    """Expedited registers: number, and value as hexadecimal digits in target order."""
    ended: bytes = b""
    """The whole W or X packet of a process that is no more."""

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.reasons)

    @property
    def watched(self) -> list[int]:
        """Where something was touched that is watched."""
        return [int(value, 16) for name, value in self.reasons if name in WATCHES]

    @property
    def exit_status(self) -> int | None:
        match = re.match(rb"W([0-9a-fA-F]+)", self.ended)
        return int(match[1], 16) if match else None


def from_kernel(number: int) -> int:
    """The kernel's signal NUMBER as GDB numbers it."""
    return _FROM_KERNEL.get(number, _OTHERS[16])


def name_of(number: int) -> str:
    """The signal that GDB calls NUMBER, as everybody calls it."""
    kernel = min(to_kernel(frozenset([number])), default=0)
    return signal.Signals(kernel).name if kernel in [*signal.Signals] else f"signal {kernel or number}"


def to_kernel(numbers: frozenset[int]) -> frozenset[int]:
    """The kernel's signals that GDB means by NUMBERS."""
    return frozenset(kernel for kernel, number in _FROM_KERNEL.items() if number in numbers)


def parse(payload: bytes) -> Stop:
    """A stop reply of gdbserver, run lengths undone. Raises ValueError when it is none."""
    if payload[:1] in (b"W", b"X"):
        return Stop(ended=payload.partition(b";")[0])
    if payload[:1] == b"S":
        return Stop(int(payload[1:3], 16))
    if payload[:1] != b"T":
        raise ValueError(f"not a stop reply: {payload[:60]!r}")
    tid = 0
    reasons: list[tuple[str, str]] = []
    registers: dict[int, bytes] = {}
    for part in payload[3:].split(b";"):
        name, _, value = part.partition(b":")
        if name == b"thread":
            tid = ThreadId.parse(value).tid
        elif re.fullmatch(rb"[0-9a-fA-F]+", name) and name != b"core":
            registers[int(name, 16)] = value
        elif name in (b"swbreak", b"hwbreak", b"library", b"watch", b"rwatch", b"awatch"):
            reasons.append((name.decode(), value.decode()))
    return Stop(int(payload[1:3], 16), tid, tuple(reasons), registers)


def render(stop: Stop, thread: ThreadId, features: frozenset[str]) -> bytes:
    """The packet GDB gets. FEATURES are those of its own qSupported: it is told no reason it does not know."""
    if stop.ended:
        if "multiprocess+" in features and thread.pid is not None:
            return stop.ended + b";process:%x" % thread.pid
        return stop.ended
    out = b"T%02x" % stop.signal
    for name, value in stop.reasons:
        if name in ("swbreak", "hwbreak") and f"{name}+" not in features:
            continue
        out += f"{name}:{value};".encode()
    for number, digits in sorted(stop.registers.items()):
        out += b"%02x:%b;" % (number, digits)
    return out + b"thread:%b;" % thread.wire("multiprocess+" in features)
