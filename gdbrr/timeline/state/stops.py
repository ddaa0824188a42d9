"""Where a process stands that a debugger has stopped, also where that is no moment: in the middle of an instruction, or
where its replay has other registers.

Runs in: the server and scripts. May call: errors, ctl, launch, the timeline's workers.
Owns: nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from gdbrr.abi import lib
from gdbrr.ctl.control import Armed, PointHit
from gdbrr.errors import GdbrrError
from gdbrr.timeline.model import Moment
from gdbrr.timeline.state.passes import NoOther, Patience
from gdbrr.timeline.worker import Worker

NEAR = ("rbx", "rbp", "rsp", "r12", "r13", "r14", "r15"), ("rbp", "rsp"), ("rsp",)
"""By what a place is found at which not all registers are the same: first by what a function keeps for its caller."""
KNOWN = ("rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", *(f"r{number}" for number in range(8, 16)))
"""Registers as the `g` packet and GDB's agent number them."""
_BACKWARDS = 0x400
"""The direction flag."""
_LONGEST = 15
_ADD, _SUB, _MUL, _NOT, _AND, _EQUAL, _LESS, _CONST64, _REG, _END = (
    bytes([code]) for code in (0x02, 0x03, 0x04, 0x0E, 0x0F, 0x13, 0x15, 0x25, 0x26, 0x27)
)
_DESTINATION, _SOURCE = {0xA4, 0xA6, 0xAA, 0xAE, 0x6C}, {0xA4, 0xA6, 0xAC, 0x6E}
"""String instructions on bytes that go through memory by rdi, by rsi."""
_LOADS, _NARROW, _WIDE, _SHORT = 0xAC, 0x67, 0x48, 0x66


class NotFound(GdbrrError):
    """No moment has these registers."""


class Stopped(NamedTuple):
    moment: Moment
    inside: bool = False
    """It has begun the instruction of that moment, and not ended it."""
    differs: tuple[str, ...] = ()
    """Registers that the replay has others in."""
    doubtful: bool = False
    """It may be another pass of a loop."""


class _Enough(Exception):
    pass


def code_at(pid: int | None, pc: int) -> bytes:
    """Of the stopped process; nothing where it cannot be read."""
    if pid is None:
        return b""
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            return os.pread(memory.fileno(), _LONGEST, pc)
    except OSError:
        return b""


def with_registers(regs: Mapping[str, int], names: Sequence[str]) -> bytes:
    """GDB's agent bytecode for: these registers are the same."""
    return _all([_reg(name) + _const(regs[name]) + _EQUAL for name in names]) + _END


def in_turns_of(code: bytes, regs: Mapping[str, int]) -> bytes | None:
    """The same for: here begins the repeated string instruction CODE in whose rounds REGS are. What is left to do and
    how far it is add up to the same in all of them. None of one that is not understood."""
    place = next(at for at, byte in enumerate(code) if byte & 0xFE in _DESTINATION | _SOURCE)
    prefixes, form = code[:place], code[place]
    if _NARROW in prefixes:
        return None
    size = 1 if not form & 1 else 8 if any(byte & _WIDE == _WIDE for byte in prefixes if byte & 0xF0 == 0x40) else 4
    size = 2 if size == 4 and _SHORT in prefixes else size
    size = 4 if size == 8 and form & 0xFC == 0x6C else size
    moving = ["rdi"] * (form & 0xFE in _DESTINATION) + ["rsi"] * (form & 0xFE in _SOURCE)
    kept = [name for name in KNOWN if name not in ("rcx", *moving) and (name != "rax" or form & 0xFE != _LOADS)]
    back = regs["eflags"] & _BACKWARDS
    terms = [_reg(name) + _const(regs[name]) + _EQUAL for name in kept]
    for name in moving:
        end = regs[name] + (-1 if back else 1) * size * regs["rcx"]
        terms.append(_reg(name) + _reg("rcx") + _const(size) + _MUL + (_SUB if back else _ADD) + _const(end) + _EQUAL)
    terms.append(_reg("rcx") + _const(regs["rcx"]) + _LESS + _NOT)
    return _all(terms) + _END


def both(one: bytes, other: bytes) -> bytes:
    """Bytecode for: both hold."""
    return one.removesuffix(_END) + other.removesuffix(_END) + _AND + _END if other else one


def _reg(name: str) -> bytes:
    return _REG + KNOWN.index(name).to_bytes(2, "big")


def _const(value: int) -> bytes:
    return _CONST64 + (value & (1 << 64) - 1).to_bytes(8, "big")


def _all(terms: Sequence[bytes]) -> bytes:
    return terms[0] + b"".join(term + _AND for term in terms[1:])


def passing(
    worker_at: Callable[[], Worker], ticks: int, condition: bytes, patience: Patience
) -> Callable[[Armed], Worker | None]:
    """What `passes.find` asks for, where not all registers tell a pass from others, but CONDITION does."""

    def run(armed: Armed) -> Worker | None:
        wanted = both(condition, armed.condition)
        nth = _number(worker_at(), ticks, armed._replace(stop_at=0, condition=wanted), armed.stop_at, patience)
        if nth is None:
            return None
        worker = worker_at()
        there = Armed(armed.addr, 1, lib.GR_POINT_EXEC, armed.from_tick, nth)
        if not worker.stops_in(armed.from_tick, ticks, [there]):
            return None
        patience.found(worker)
        return worker

    return run


def _number(worker: Worker, ticks: int, armed: Armed, count: int, patience: Patience) -> int | None:
    """Which of all executions is the COUNT-th at which the condition holds."""
    log: list[PointHit] = []
    over = patience.over(worker)

    def look(what: str, part: float) -> None:
        if len(log) >= count:
            raise _Enough
        if over is not None:
            over(what, part)

    try:
        worker.slot.flag(lib.GR_SLOT_KEEP_HITS)
        worker.begin_segment(armed.from_tick, ticks, [armed])
        worker.finish(look, "replaying", armed.from_tick + 1, log)
    except (_Enough, NoOther):
        pass
    finally:
        worker.drop()
    return log[count - 1].nth if len(log) >= count else None
