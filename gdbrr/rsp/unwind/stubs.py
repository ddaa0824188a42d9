"""The short pieces of code that preload/patch writes, and what in the program each of their instructions stands for.

Runs in: the server. May call: memory is what a function reads.
Owns: nothing. Which bytes a stub has is said in preload/patch/stub.c and lockstub.c.
"""

from __future__ import annotations

import re
import struct

from gdbrr.rsp.regs import UNKNOWN
from gdbrr.rsp.unwind.tables import Read

LONGEST = 160
_CALL = re.compile(rb"\xb8(.{4})\x48\x8d\x0d.{4}\xff\x25.{4}\x0f\x05\xeb\x0f(.{8})\x48\x8d\x0d.{4}\xe9", re.DOTALL)
"""Of a call that has its number loaded right in front: no others get one under a debugger."""
_NATIVE_CALL = 18
_LOCK = re.compile(rb"\x64\x48\x89\x0c\x25.{4}\x64\x48\x8b\x0c\x25.{4}\xe3.\x8b\x89.{4}\xe3(.)", re.DOTALL)
"""Of a lock inside the C library, up to where those that make an operation of it leave the way of all others."""
_RCX_BACK, _NATIVE_LOCK = 37, 50
_LOWERED, _ASKED, _RAISED = 14, 27, 44
"""In an operation's way: behind the instructions that leave the red zone, call the engine, and come back above it."""
_RED_ZONE = 128
_JUMP = b"\xe9"
_FACTS = struct.Struct("<QQ16xB6xB")
"""Of struct gr_lock: addr, behind, length, window."""


def place(regs: dict[str, int], read: Read, start: int) -> dict[str, int] | None:
    """The program's registers, of a thread with REGS in a stub; `ret_pc` with them is where it is met again behind the
    call or the lock, and 0 where it is behind that already. None: it is in no stub. START is that of the mapping."""
    pc = regs["rip"]
    low = max(start, pc - LONGEST)
    code = read(low, pc - low + LONGEST)
    if found := _around(_CALL, code, pc - low):
        return _of_call(regs, found, pc - low - found.start())
    if found := _around(_LOCK, code, pc - low):
        return _of_lock(regs, found, pc - low - found.start(), read)
    return None


def behind_lock(addr: int, read: Read) -> int | None:
    """Where a thread is met again behind the lock at ADDR, should a jump stand there: what follows a short one is
    executed in its stub. None: there is none."""
    jump = read(addr, 5)
    if jump[:1] != _JUMP or len(jump) < 5:
        return None
    stub = addr + 5 + int.from_bytes(jump[1:], "little", signed=True)
    if not _LOCK.match(read(stub, LONGEST)):
        return None
    lock, behind, _, _ = _facts(stub, read)
    return behind if lock == addr else None


def _around(kind: re.Pattern[bytes], code: bytes, at: int) -> re.Match[bytes] | None:
    """The last one that begins in front of AT or there."""
    found = None
    for each in kind.finditer(code):
        if each.start() > at:
            break
        found = each
    return found if found is not None and (kind is _LOCK or at < found.end() + 4) else None


def _of_call(regs: dict[str, int], found: re.Match[bytes], at: int) -> dict[str, int]:
    behind = int.from_bytes(found[2], "little")
    if at > _NATIVE_CALL:
        return {**regs, "rip": behind, "rcx": behind, "ret_pc": behind}
    number = regs["rax"] if at else int.from_bytes(found[1], "little")
    return {**regs, "rax": number, "rip": behind - 2, "rcx": behind, "r11": regs["eflags"], "ret_pc": behind}


def _of_lock(regs: dict[str, int], found: re.Match[bytes], at: int, read: Read) -> dict[str, int]:
    addr, behind, length, window = _facts(regs["rip"] - at, read)
    way = found.end() - found.start() + int.from_bytes(found[1], "little", signed=True)
    if at < way:
        there = addr + min(max(at - _NATIVE_LOCK, 0), window)
        rcx = UNKNOWN if 0 < at < _RCX_BACK else regs["rcx"]
        return {**regs, "rip": there, "rcx": rcx, "ret_pc": behind if there == addr else 0}
    at -= way
    out = {**regs, "rsp": regs["rsp"] + (_RED_ZONE if _LOWERED <= at < _RAISED else 0)}
    if at < _ASKED:
        return {**out, "rip": addr, "rcx": UNKNOWN, "r11": UNKNOWN, "ret_pc": behind}
    return {**out, "rip": addr + length, "ret_pc": 0}


def _facts(stub: int, read: Read) -> tuple[int, int, int, int]:
    (lock,) = struct.unpack("<Q", read(stub - 8, 8))
    addr, behind, length, window = _FACTS.unpack(read(lock, _FACTS.size))
    return addr, behind, length, window
