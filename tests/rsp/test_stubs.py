"""What each instruction of a stub stands for in the program."""

from __future__ import annotations

import struct

import pytest

from gdbrr.rsp.regs import UNKNOWN
from gdbrr.rsp.unwind import stubs

START, AT, SITE, LOCK = 0x10000, 0x10100, 0x20000, 0x30000
REGS = {"rax": 1, "rcx": 2, "r11": 3, "rsp": 0x1000, "eflags": 0x246}
FAR = b"\x11\x22\x33\x44"
CALL = b"".join(
    (
        *(b"\xb8\x27\0\0\0", b"\x48\x8d\x0d" + FAR, b"\xff\x25" + FAR),  # the number, the tail's address, to the door
        *(b"\x0f\x05", b"\xeb\x0f", struct.pack("<Q", SITE + 7)),  # without the engine; what is behind the call
        *(b"\x48\x8d\x0d" + FAR, b"\xe9" + FAR),  # the tail
    )
)
INSTRUCTION, MOVED = b"\x87\x07", b"\x83\xf8\x01"  # xchg %eax, (%rdi); cmp $1, %eax
NATIVE = (
    b"\x64\x48\x8b\x0c\x25" + FAR + b"\x64\x48\xc7\x04\x25" + FAR + b"\0\0\0\0" + INSTRUCTION + MOVED + b"\xe9" + FAR
)
OPERATION = b"".join(
    (
        *(b"\x64\x4c\x89\x1c\x25" + FAR, b"\x48\x8d\x64\x24\x80", b"\x4c\x8d\x1d" + FAR),
        *(b"\xff\x15" + FAR, b"\x48\xc7\x44\x24\xf8\0\0\0\0", b"\x48\x8d\xa4\x24\x80\0\0\0", b"\xe9" + FAR),
    )
)
HEAD = b"\x64\x48\x89\x0c\x25" + FAR + b"\x64\x48\x8b\x0c\x25" + FAR + b"\xe3\x08\x8b\x89" + FAR + b"\xe3"
OF_LOCK = HEAD + bytes([len(NATIVE)]) + NATIVE + OPERATION
BEHIND = AT + 52
WAY = len(HEAD) + 1 + len(NATIVE)


def memory(addr: int, length: int) -> bytes:
    parts = {
        START: b"\xcc" * (AT - START - 8) + struct.pack("<Q", LOCK) + OF_LOCK + b"\xcc" * 200,
        SITE: b"\xe9" + struct.pack("<i", AT - SITE - 5),
        LOCK: struct.pack("<QQ16xB6xB", SITE, BEHIND, len(INSTRUCTION), len(INSTRUCTION + MOVED)),
    }
    start = max(start for start in parts if start <= addr)
    return parts[start][addr - start : addr - start + length]


def calls(addr: int, length: int) -> bytes:
    return (b"\xcc" * (AT - START) + CALL + b"\xcc" * 200)[addr - START : addr - START + length]


@pytest.mark.parametrize(
    ("at", "shown"),
    [
        (0, {"rip": SITE + 5, "rax": 39, "rcx": SITE + 7, "r11": 0x246, "ret_pc": SITE + 7}),
        (12, {"rip": SITE + 5, "rax": 1, "rcx": SITE + 7, "r11": 0x246, "ret_pc": SITE + 7}),
        (20, {"rip": SITE + 7, "rax": 1, "rcx": SITE + 7, "r11": 3, "ret_pc": SITE + 7}),
        (37, {"rip": SITE + 7, "rax": 1, "rcx": SITE + 7, "r11": 3, "ret_pc": SITE + 7}),
    ],
)
def test_of_a_call(at: int, shown: dict[str, int]) -> None:
    assert stubs.place({**REGS, "rip": AT + at}, calls, START) == {**REGS, **shown}


@pytest.mark.parametrize("at", [-1, len(CALL), 150])
def test_beside_a_call(at: int) -> None:
    assert stubs.place({**REGS, "rip": AT + at}, calls, START) is None


@pytest.mark.parametrize(
    ("at", "shown"),
    [
        (0, {"rip": SITE, "ret_pc": BEHIND}),
        (9, {"rip": SITE, "rcx": UNKNOWN, "ret_pc": BEHIND}),
        (50, {"rip": SITE, "ret_pc": BEHIND}),
        (52, {"rip": SITE + 2, "ret_pc": 0}),
        (55, {"rip": SITE + 5, "ret_pc": 0}),
        (WAY + 9, {"rip": SITE, "rcx": UNKNOWN, "r11": UNKNOWN, "ret_pc": BEHIND}),
        (WAY + 14, {"rip": SITE, "rcx": UNKNOWN, "r11": UNKNOWN, "rsp": 0x1080, "ret_pc": BEHIND}),
        (WAY + 27, {"rip": SITE + 2, "rsp": 0x1080, "ret_pc": 0}),
        (WAY + 44, {"rip": SITE + 2, "ret_pc": 0}),
    ],
)
def test_of_a_lock(at: int, shown: dict[str, int]) -> None:
    assert stubs.place({**REGS, "rip": AT + at}, memory, START) == {**REGS, **shown}


def test_behind_a_lock() -> None:
    """Not in the middle of the jump."""
    assert stubs.behind_lock(SITE, memory) == BEHIND
    assert stubs.behind_lock(LOCK, memory) is None
