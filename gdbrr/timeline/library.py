"""Locks inside the C library, which are operations (preload/patch/locks.h), as a debugger meets them in its code.

Runs in: the server. May call: /proc of the process, the files it has mapped.
Owns: how their bytes are read in a replay, where the first one of each is that of an instruction that faults.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable

_LIBRARY = re.compile(r"/libc(?:-[0-9.]+)?\.so(?:\.6)?\Z")
_FAULTS = re.compile(rb"(?:\xf4[\x40-\x4f]?(?:\x0f\xb1|\x87)|\xfa|\xfb\x87)(?=(.)(.?))", re.DOTALL)
_FIRST = {0xF4: range(0xF0, 0xF1), 0xFA: range(0x87, 0x88), 0xFB: range(0x40, 0x50)}
"""What stands in the file where each of the instructions that fault stands in a replay."""


class Library:
    """The C library's code in one process."""

    def __init__(self, pid: int) -> None:
        self._parts: list[tuple[int, int, int, str]] = []
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as maps:
            for line in maps:
                fields = line.rstrip("\n").split(None, 5)
                if len(fields) == 6 and "x" in fields[1] and _LIBRARY.search(fields[5]):
                    start, end = (int(word, 16) for word in fields[0].split("-"))
                    self._parts.append((start, end, int(fields[2], 16), fields[5]))

    def beyond(self, pc: int, code: bytes) -> int | None:
        """How long the lock is that faults at PC, if CODE is one."""
        if not any(start <= pc < end for start, end, _, _ in self._parts):
            return None
        found = _FAULTS.match(code)
        return found.end() + _operand(found[1][0], found[2]) if found else None

    def as_in_file(self, addr: int, reply: bytes) -> bytes:
        """REPLY to a read at ADDR, in hexadecimal, without what the engine made of locks."""
        if reply[:1] == b"E":
            return reply
        code = bytes.fromhex(reply.decode("ascii"))
        result = bytearray(code)
        for start, end, offset, path in self._parts:
            low, high = max(addr, start), min(addr + len(code), end)
            if low < high and any(byte in _FIRST for byte in code[low - addr : high - addr]):
                for at, byte in enumerate(_read(path, offset + low - start, high - low), low - addr):
                    if byte in _FIRST.get(result[at], ()):
                        result[at] = byte
        return result.hex().encode("ascii")


def behind_stub(pc: int, before: int, memory: Callable[[int, int], bytes]) -> int | None:
    """Where a thread at the stub of the lock at BEFORE goes on; a struct gr_lock is named in front of the stub."""
    lock = int.from_bytes(memory(pc - 8, 8), "little")
    found = memory(lock, 16)
    return int.from_bytes(found[8:], "little") if found[:8] == before.to_bytes(8, "little") else None


def _operand(modrm: int, sib: bytes) -> int:
    """The length of a memory operand."""
    mod, rm = modrm >> 6, modrm & 7
    wide = mod == 2 or (mod == 0 and rm == 5) or (mod == 0 and rm == 4 and bool(sib) and sib[0] & 7 == 5)
    return 1 + (rm == 4) + (4 if wide else mod == 1)


def _read(path: str, offset: int, length: int) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return os.pread(file.fileno(), length, offset)
    except OSError:
        return b""
