"""What .eh_frame of the engine says of its frames, as much of it as compilers write for C and preload/ for its entries.

Runs in: the server. May call: nothing; memory is what a function reads.
Owns: what was read of one engine's tables.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field, replace

Read = Callable[[int, int], bytes]
"""Memory at an address, as much of so many bytes as there is."""

NAMES = ("rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", *(f"r{number}" for number in range(8, 16)))
KEPT = (3, 6, 12, 13, 14, 15)
"""What a function gives back as it found it."""
SP, RETURN = 7, 16
_EH_FRAME = 0x6474E550  # PT_GNU_EH_FRAME
_ENCODINGS = b"\x01\x1b\x03\x3b"
"""Version 1; where .eh_frame is, from here; how many rows there are; their places, from the header."""


@dataclass
class Rules:
    """How the registers of a caller are found at one place: the stack pointer in front of the call, and from there."""

    register: int = SP
    offset: int = 8
    saved: dict[int, int] = field(default_factory=dict)
    held: dict[int, int] = field(default_factory=dict)
    """In other registers."""
    found: dict[int, bytes] = field(default_factory=dict)
    """At the address that an expression says; SP: the stack pointer itself."""
    exact: bool = False
    """The caller goes on at the very place that is found, which is not behind a call."""

    def copy(self) -> Rules:
        return replace(self, saved={**self.saved}, held={**self.held}, found={**self.found})

    def forget(self, number: int) -> None:
        for where in (self.saved, self.held, self.found):
            where.pop(number, None)


class Tables:
    def __init__(self, read: Read, code: int) -> None:
        """CODE is where the engine's begins, READ its memory."""
        self._read = read
        self._code = code
        self._rows: list[tuple[int, int]] | None = None
        """Address of a function and of its entry, in order."""

    def _table(self) -> list[tuple[int, int]]:
        if self._rows is None:
            base = next(at for at in range(self._code, 0, -0x1000) if self._read(at, 4) == b"\x7fELF")
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

    def begins(self, pc: int) -> bool:
        """Whether a function begins at PC."""
        row = self._row(pc)
        return row is not None and row[0] == pc

    def rules(self, pc: int) -> Rules | None:
        """Those of the place PC; None where there are none."""
        row = self._row(pc)
        return self._rules(row[1], pc) if row else None

    def _row(self, pc: int) -> tuple[int, int] | None:
        rows = self._table()
        at = bisect_right(rows, (pc, 1 << 64)) - 1
        return rows[at] if at >= 0 else None

    def behind(self, regs: dict[str, int], rules: Rules) -> dict[str, int]:
        """The caller's registers, by RULES of where those of a frame are."""
        stack = regs[NAMES[rules.register]] + rules.offset
        if SP in rules.found:
            stack = self._value(rules.found[SP], regs)
        out = {**regs, "rsp": stack, "rip": self._word(stack + rules.saved.get(RETURN, -8))}
        for number in (*KEPT, RETURN):
            name = "rip" if number == RETURN else NAMES[number]
            if number in rules.held:
                out[name] = regs[NAMES[rules.held[number]]]
            elif number in rules.found:
                out[name] = self._word(self._value(rules.found[number], regs))
            elif number in rules.saved:
                out[name] = self._word(stack + rules.saved[number])
        return out

    def _word(self, addr: int) -> int:
        return int(struct.unpack("<Q", self._read(addr, 8))[0])

    def _value(self, expression: bytes, regs: dict[str, int]) -> int:
        """Of an expression such as the engine's entries have: a register and a distance, what is there, differences."""
        code, stack = _Bytes(expression), [0]
        while code:
            op = code.take(1)[0]
            if 0x70 <= op < 0x80:
                stack.append(regs[NAMES[op - 0x70]] + code.signed())
            elif op == 0x06:
                stack.append(self._word(stack.pop()))
            elif 0x30 <= op < 0x50:
                stack.append(op - 0x30)
            elif op == 0x1C:
                stack.append(-stack.pop() + stack.pop())
            else:
                raise KeyError(op)
        return stack.pop()

    def _rules(self, entry: int, pc: int) -> Rules | None:
        """What the entry says of the place PC in its function; None for what no compiler writes for the engine."""
        length, back = struct.unpack("<II", self._read(entry, 8))
        common = entry + 4 - back
        start, size = struct.unpack("<iI", self._read(entry + 8, 8))
        start += entry + 8
        if not start <= pc < start + size:
            return None
        common_length = struct.unpack("<I", self._read(common, 4))[0]
        head = _Bytes(self._read(common + 8, common_length - 4))
        if head.take(3) != b"\x01zR" or (kind := head.take(1)) not in (b"S", b"\x00"):
            return None
        if (kind == b"S" and head.take(1) != b"\x00") or head.number() != 1:
            return None
        scale = head.signed()
        head.take(1 + 1 + 1)  # the return address, one byte of augmentation: the encoding of addresses
        rest = _Bytes(self._read(entry + 16, length - 12))
        rest.take(rest.number())
        rules = Rules(exact=kind == b"S")
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


def _run(code: _Bytes, rules: Rules, scale: int, place: int, pc: int) -> tuple[Rules | None, bool]:
    """RULES changed by CODE up to PC; and whether all of that was understood."""
    first, kept = rules.copy(), []
    now = rules.copy()
    while code:
        op = code.take(1)[0]
        low = op & 0x3F
        if op >> 6 == 1 or 2 <= op <= 4:
            place += low if op >> 6 else int.from_bytes(code.take(1 << (op - 2)), "little")
            if place > pc:
                break
        elif op >> 6 == 2:
            now.forget(low)
            now.saved[low] = code.number() * scale
        elif op >> 6 == 3:
            now.forget(low)
            if low in first.saved:
                now.saved[low] = first.saved[low]
        elif op == 0x08:
            now.forget(code.number())
        elif op == 0x09:
            now.forget(number := code.number())
            now.held[number] = code.number()
        elif op == 0x0A:
            kept.append(now.copy())
        elif op == 0x0B:
            now = kept.pop()
        elif op in (0x0C, 0x0D, 0x0E):
            now.found.pop(SP, None)
            now.register = code.number() if op != 0x0E else now.register
            now.offset = code.number() if op != 0x0D else now.offset
        elif op in (0x0F, 0x10):
            now.forget(number := SP if op == 0x0F else code.number())
            now.found[number] = code.take(code.number())
        elif op == 0x2E:
            code.number()
        elif op:
            return None, False
    return now, True
