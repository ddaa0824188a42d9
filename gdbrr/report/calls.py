"""A system call with its arguments, as a process that stands in front of it is about to make it.

Runs in: commands outside GDB. May call: config; /proc of a process that is ours.
Owns: how an argument reads.
"""

from __future__ import annotations

import os

from gdbrr.config import tables
from gdbrr.report.words import preview

_REGISTERS = ("rdi", "rsi", "rdx", "r10", "r8", "r9")
_TEXT = 60
_STANDARD = 2
_PATH = 256
_LARGE = 1 << 16


def text(pid: int, number: int, regs: dict[str, int]) -> str:
    """`openat(-100, "/etc/hosts", 0, 0)`, `read(3 "/etc/hosts", 0x55..., 4096)`; empty where the call is not known."""
    call = tables.syscall_by_nr().get(number)
    if call is None:
        return ""
    values = [regs[name] for name in _REGISTERS[: call.nargs]]
    shown = [_number(value) for value in values]
    for effect in call.effects:
        at = effect.numbers[0] - 1 if effect.numbers else len(values)
        if at >= len(values) or not values[at]:
            continue
        if effect.word == "STR":
            shown[at] = preview(_read(pid, values[at], 4096).split(b"\0", 1)[0], _TEXT)
        elif effect.word == "FD":
            shown[at] += _file(pid, values[at])
        elif effect.word == "IN" and call.name in ("write", "pwrite64", "sendto"):
            shown[at] = preview(_read(pid, values[at], values[at + 1]), _TEXT)
    return f"{call.name}({', '.join(shown)})"


def _file(pid: int, descriptor: int) -> str:
    """What a descriptor of the replay itself is open for; recorded ones are not there, standard ones are ours."""
    number = descriptor & 0xFFFFFFFF
    try:
        path = os.readlink(f"/proc/{pid}/fd/{number}") if number > _STANDARD else ""
    except OSError:
        return ""
    return f" {preview(os.fsencode(path), _PATH)}" if path.startswith("/") else ""


def _number(value: int) -> str:
    low = value & 0xFFFFFFFF  # an int whose upper half nobody cleared
    if low >= 0xFFFFF000 and value >> 32 in (0, 0xFFFFFFFF):
        return str(low - (1 << 32))
    return str(value) if value < _LARGE else f"{value:#x}"


def _read(pid: int, address: int, size: int) -> bytes:
    """As much of it as is there."""
    try:
        memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.pread(memory, min(size, 4096), address)
    except (OSError, OverflowError):
        return b""
    finally:
        os.close(memory)
