"""Out of the engine's own frames, by its .eh_frame: who asked the allocator for what became an operation.

Runs in: the server. May call: /proc of the process.
Owns: what was read of one engine's tables. The allocator pays nothing for it: no register is kept at its entry.
"""

from __future__ import annotations

import os
import re
import struct
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from gdbrr.timeline.model import ThreadView
from gdbrr.timeline.step.code import decoded

_NAMES = ("rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", *(f"r{number}" for number in range(8, 16)))
_SP, _RETURN = 7, 16
_KEPT = (3, 6, 12, 13, 14, 15)
_EH_FRAME = 0x6474E550  # PT_GNU_EH_FRAME
_ENCODINGS = b"\x01\x1b\x03\x3b"
"""Version 1; where .eh_frame is, from here; how many rows there are; their places, from the header."""
_MOST = 32
_LONGEST_CALL = 6
"""Of those that lead into the engine."""
_LONGEST = 8
_CALL = re.compile(rb"[\x40-\x4f]?(?:\xe8|\xff[\x10-\x17\x50-\x57\x90-\x97\xd0-\xd7])", re.DOTALL)


@dataclass
class _Rules:
    """How the registers of a caller are found at one place: the stack pointer in front of the call, and from there."""

    register: int = _SP
    offset: int = 8
    saved: dict[int, int] = field(default_factory=dict)


def led_here(read: Callable[[int, int], bytes], call: int, stack: int) -> bool:
    """Whether what stands at CALL is a call, and what returns behind it lies at the stack pointer."""
    code = read(call, _LONGEST)
    insn = decoded(code)
    back = int.from_bytes(read(stack, 8), "little")
    return bool(_CALL.match(code)) and insn is not None and back == call + insn.length


class Unwinder:
    def __init__(self, pid: int, code: list[tuple[int, int]]) -> None:
        """CODE is where the engine's is."""
        self._pid = pid
        self._code = code
        self._rows: list[tuple[int, int]] | None = None
        """Address of a function and of its entry, in order."""

    def shown(self, view: ThreadView) -> ThreadView:
        """VIEW at the call that led into the engine, where it stands in the middle of that."""
        regs = {**view.regs, "rip": view.ret_pc}
        for _ in range(_MOST):
            if not self._inside(regs["rip"]):
                call = regs["rip"] - self._call_in_front(regs["rip"])
                return replace(view, regs={**regs, "rip": call}, ret_pc=regs["rip"])
            caller = self._caller(regs)
            if caller is None:
                break
            regs = caller
        return view

    def _inside(self, pc: int) -> bool:
        return any(start <= pc < end for start, end in self._code)

    def _read(self, addr: int, length: int) -> bytes:
        with open(f"/proc/{self._pid}/mem", "rb", buffering=0) as memory:
            return os.pread(memory.fileno(), length, addr)

    def _word(self, addr: int) -> int:
        return int.from_bytes(self._read(addr, 8), "little")

    def _call_in_front(self, pc: int) -> int:
        """The length of the call in front of a return address, as gr_show_call of preload/core/guard.c takes it."""
        code = self._read(pc - _LONGEST_CALL, _LONGEST_CALL)
        if code[-5:-4] == b"\xe8":
            return 5
        if code[0] == 0xFF and code[1] & 0x38 == 0x10:
            return 6
        if code[-3:-1] == b"\x41\xff" and code[-1] & 0xF8 == 0xD0:
            return 3
        if code[-2] == 0xFF and code[-1] & 0x38 == 0x10:
            return 2
        return 3 if code[-3] == 0xFF and code[-2] & 0xF8 == 0x50 else 0

    # ------------------------------------------------------------ the tables

    def _table(self) -> list[tuple[int, int]]:
        if self._rows is None:
            base = min(start for start, _ in self._code)
            base = next(at for at in range(base, 0, -0x1000) if self._read(at, 4) == b"\x7fELF")
            headers, size, count = struct.unpack("<Q14xHH", self._read(base + 32, 26))
            for at in range(base + headers, base + headers + size * count, size):
                kind, place = struct.unpack("<I12xQ", self._read(at, 24))
                if kind == _EH_FRAME:
                    self._rows = self._rows_at(base + place)
                    break
            else:
                self._rows = []
        return self._rows

    def _rows_at(self, header: int) -> list[tuple[int, int]]:
        encodings, _, count = struct.unpack("<4siI", self._read(header, 12))
        if encodings != _ENCODINGS:
            return []
        rows = struct.iter_unpack("<ii", self._read(header + 12, 8 * count))
        return [(header + pc, header + entry) for pc, entry in rows]

    def _caller(self, regs: dict[str, int]) -> dict[str, int] | None:
        """The registers of who called, from those of a frame that stands behind a call."""
        pc = regs["rip"] - 1
        rows = self._table()
        at = bisect_right(rows, (pc, 1 << 64)) - 1
        rules = self._rules(rows[at][1], pc) if at >= 0 else None
        if rules is None:
            return None
        stack = regs[_NAMES[rules.register]] + rules.offset
        saved = {_NAMES[number]: self._word(stack + place) for number, place in rules.saved.items() if number in _KEPT}
        return {**regs, **saved, "rsp": stack, "rip": self._word(stack + rules.saved.get(_RETURN, -8))}

    def _rules(self, entry: int, pc: int) -> _Rules | None:
        """What the entry says of the place PC in its function; None for what no compiler writes for the engine."""
        length, back = struct.unpack("<II", self._read(entry, 8))
        common = entry + 4 - back
        start, size = struct.unpack("<iI", self._read(entry + 8, 8))
        start += entry + 8
        if not start <= pc < start + size:
            return None
        common_length = struct.unpack("<I", self._read(common, 4))[0]
        head = _Bytes(self._read(common + 8, common_length - 4))
        if head.take(4) != b"\x01zR\x00" or head.number() != 1:
            return None
        scale = head.signed()
        head.take(1 + 1 + 1)  # the return address, one byte of augmentation: the encoding of addresses
        rest = _Bytes(self._read(entry + 16, length - 12))
        rest.take(rest.number())
        rules = _Rules()
        rules = _run(head, rules, scale, 0, 0)[0] or rules
        found, known = _run(rest, rules, scale, start, pc)
        return found if known else None


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def take(self, count: int) -> bytes:
        found = self._data[self._at : self._at + count]
        self._at += count
        return found

    def number(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def signed(self) -> int:
        before = self._at
        value = self.number()
        bits = 7 * (self._at - before)
        return value - (1 << bits) if value >> (bits - 1) else value


def _run(code: _Bytes, rules: _Rules, scale: int, place: int, pc: int) -> tuple[_Rules | None, bool]:
    """RULES changed by CODE up to PC; and whether all of that was understood."""
    first, kept = replace(rules, saved={**rules.saved}), []
    now = replace(rules, saved={**rules.saved})
    while code:
        op = code.take(1)[0]
        low = op & 0x3F
        if op >> 6 == 1 or 2 <= op <= 4:
            place += low if op >> 6 else int.from_bytes(code.take(1 << (op - 2)), "little")
            if place > pc:
                break
        elif op >> 6 == 2:
            now.saved[low] = code.number() * scale
        elif op >> 6 == 3:
            now.saved.pop(low, None)
            if low in first.saved:
                now.saved[low] = first.saved[low]
        elif op == 0x0A:
            kept.append(replace(now, saved={**now.saved}))
        elif op == 0x0B:
            now = kept.pop()
        elif op == 0x0C:
            now.register, now.offset = code.number(), code.number()
        elif op == 0x0D:
            now.register = code.number()
        elif op == 0x0E:
            now.offset = code.number()
        elif op == 0x2E:
            code.number()
        elif op:
            return None, False
    return now, True
