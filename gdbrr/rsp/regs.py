"""Where registers lie in `g` packets, and the program's put in place of the real ones; pure.

Runs in: the server and tests. May call: the standard library only.
Owns: the meaning of ThreadView.regs on the wire.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

RBP, RSP, RIP = 6, 7, 16
EXPEDITED = (RBP, RSP, RIP)

_GENERAL = (
    *("rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp"),
    *("r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rip"),
)
KNOWN = frozenset((*_GENERAL, "eflags", "fs_base", "gs_base"))
UNKNOWN = -1
"""In place of a register's value: nobody has kept it, and GDB says so."""

_REG = re.compile(r"<reg\s[^>]*>")
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True)
class Register:
    name: str
    number: int
    offset: int
    size: int


class Layout:
    """The `g` packet of one target description."""

    def __init__(self, registers: list[tuple[str, int, int]]) -> None:
        """REGISTERS are (name, number, size in bytes), in any order: `g` is in the order of numbers."""
        self.by_number: dict[int, Register] = {}
        offset = 0
        for name, number, size in sorted(registers, key=lambda row: row[1]):
            self.by_number[number] = Register(name, number, offset, size)
            offset += size
        self.by_name = {register.name: register for register in self.by_number.values()}

    @classmethod
    def from_xml(cls, text: str) -> Layout:
        """From the `target.xml` of gdbserver, which writes every register into one document."""
        rows = []
        number = 0
        for tag in _REG.findall(text):
            attributes = dict(_ATTRIBUTE.findall(tag))
            number = int(attributes.get("regnum", number))
            rows.append((attributes["name"], number, int(attributes["bitsize"]) // 8))
            number += 1
        return cls(rows) if rows else amd64()

    def read(self, g_packet: bytes) -> dict[str, int]:
        """The registers that moments are made of, from a `g` reply (hexadecimal digits)."""
        values = {}
        for name in KNOWN:
            register = self.by_name.get(name)
            if register is None:
                continue
            digits = g_packet[register.offset * 2 : (register.offset + register.size) * 2]
            if len(digits) == register.size * 2 and b"x" not in digits:
                values[name] = int.from_bytes(bytes.fromhex(digits.decode()), "little")
        return values

    def cut(self, g_packet: bytes, number: int) -> bytes:
        """One register's digits out of a `g` reply; empty where there is none."""
        register = self.by_number.get(number)
        return g_packet[register.offset * 2 : (register.offset + register.size) * 2] if register else b""

    def substitute(self, g_packet: bytes, shown: dict[str, int], keep_call: bool = False) -> bytes:
        """G_PACKET with the program's registers; vector and floating-point parts stay as they came.

        KEEP_CALL leaves alone whether the kernel restarts a system call: for writing a packet back.
        """
        out = bytearray(g_packet)
        for register in self.by_number.values():
            if keep_call and register.name == "orig_rax":
                continue
            digits = self.shown(register.number, shown)
            end = (register.offset + register.size) * 2
            if digits is not None and end <= len(out):
                out[register.offset * 2 : end] = digits
        return bytes(out)

    def shown(self, number: int, shown: dict[str, int]) -> bytes | None:
        """One register of SHOWN as digits; None: the real one is right."""
        register = self.by_number.get(number)
        if register is None:
            return None
        if register.name == "orig_rax":
            # The engine waits in a system call that the program never made: GDB must not restart it.
            return b"f" * (register.size * 2)
        value = shown.get(register.name)
        if value is None or register.name not in KNOWN:
            return None
        if value == UNKNOWN:
            return b"x" * (register.size * 2)
        return (value & ((1 << register.size * 8) - 1)).to_bytes(register.size, "little").hex().encode()


def amd64() -> Layout:
    """What GDB assumes of a target that describes nothing."""
    rows = [(name, number, 8) for number, name in enumerate(_GENERAL)]
    rows.append(("eflags", 17, 4))
    rows += [(name, 18 + index, 4) for index, name in enumerate(("cs", "ss", "ds", "es", "fs", "gs"))]
    rows += [(f"st{index}", 24 + index, 10) for index in range(8)]
    rows += [(f"fpu{index}", 32 + index, 4) for index in range(8)]
    rows += [(f"xmm{index}", 40 + index, 16) for index in range(16)]
    rows.append(("mxcsr", 56, 4))
    return Layout(rows)
