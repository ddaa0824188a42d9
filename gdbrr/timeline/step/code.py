"""Which instructions may have led to another one, and whether one did: by their bytes, registers and memory alone.

Runs in: the server and scripts. May call: abi (the engine's decoder).
Owns: nothing.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from gdbrr.abi import ffi, lib

Read = Callable[[int, int], bytes]
"""Memory at an address, as much of so many bytes as there is."""

LONGEST = 15
USER = 1 << 47
"""Addresses of programs are below."""
_TABLE = 8
"""Instructions from a call through the linkage table to the function, or to the loader."""
_TAILS = 2
NEAR = 1 << 14
"""Jumps are looked for so far around, and the returns of a function in so many bytes."""
_ENDBR = b"\xf3\x0f\x1e\xfa"
_SHORT_JUMPS = {0xEB, *range(0x70, 0x80), *range(0xE0, 0xE4)}
_NAMES = "rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15".split()
_ANY = range(8)
_PREFIXES = {0x66, 0xF0, 0xF2, 0xF3, *range(0x40, 0x50)}
_STORES: dict[int, Collection[int]] = {
    **{base + wide: _ANY for base in (0x00, 0x08, 0x10, 0x18, 0x20, 0x28, 0x30, 0x86, 0x88) for wide in (0, 1)},
    **dict.fromkeys((0x80, 0x81, 0x83), range(7)),
    **dict.fromkeys((0xC6, 0xC7), (0,)),
    **dict.fromkeys((0xF6, 0xF7), (2, 3)),
    **dict.fromkeys((0xFE, 0xFF), (0, 1)),
}
"""By opcode: the numbers in the register field that make it a store. Comparisons, tests, shifts (by none, maybe) and
what may leave the store out are not among them."""
_STORES_0F: dict[int, Collection[int]] = dict.fromkeys((0x11, 0x29, 0x7F, 0xC0, 0xC1, 0xD6, *range(0x90, 0xA0)), _ANY)
_CF, _PF, _ZF, _SF, _OF = 1, 1 << 2, 1 << 6, 1 << 7, 1 << 11


class Insn(NamedTuple):
    length: int
    kind: int
    cc: int
    rel: int


def decoded(code: bytes) -> Insn | None:
    found = ffi.new("struct gr_insn *")
    if not lib.gr_decode(ffi.from_buffer(code), len(code), found):
        return None
    return Insn(found.length, found.kind, found.cc, found.rel)


def always_stores(code: bytes) -> bool:
    """Whether CODE is an instruction that stores to one address, the same whatever registers hold, each time."""
    at = 0
    while at < len(code) and code[at] in _PREFIXES:
        at += 1
    wide = code[at : at + 1] == b"\x0f"
    row = code[at + wide : at + wide + 2]
    if len(row) < 2 or row[1] & 0xC7 != 0x05:  # not relative to rip
        return False
    digits = (_STORES_0F if wide else _STORES).get(row[0])
    return digits is not None and row[1] >> 3 & 7 in digits


def sources(pc: int, read: Read, regs: Mapping[str, int]) -> set[int]:
    """Where instructions may stand that go on at PC, with REGS behind them. Some of these are none, and jumps through
    tables are not among them."""
    return {
        *_in_front(pc, read, lambda insn: insn.kind not in (lib.GR_INSN_JMP, lib.GR_INSN_RET, lib.GR_INSN_INT3)),
        *_jumps(pc, read),
        *_calls(pc, regs["rsp"], read),
        *_returns(pc, read, regs),
    }


def _in_front(pc: int, read: Read, wanted: Callable[[Insn], bool]) -> Iterator[int]:
    code = read(pc - LONGEST, LONGEST)
    if len(code) < LONGEST:
        return
    for length in range(1, LONGEST + 1):
        insn = decoded(code[LONGEST - length :])
        if insn is not None and insn.length == length and wanted(insn):
            yield pc - length


def calls_in_front(back: int, read: Read) -> list[int]:
    """Where the call may stand that returns to BACK, should that be code."""
    return list(_in_front(back, read, _is_call)) if LONGEST <= back < USER else []


def _is_call(insn: Insn) -> bool:
    return bool(insn.kind == lib.GR_INSN_CALL)


def _is_direct(code: bytes, insn: Insn) -> bool:
    return code[insn.length - 5 : insn.length - 4] == b"\xe8" and insn.length >= 5


def _jumps(pc: int, read: Read) -> Iterator[int]:
    """Jumps with their distance in them."""
    code = read(pc - 128, 256)
    for at in range(len(code) - 1):
        start = pc - 128 + at
        if code[at] in _SHORT_JUMPS and start + 2 + struct.unpack_from("b", code, at + 1)[0] == pc:
            yield start
    code = read(pc - NEAR, 2 * NEAR)
    for found in re.finditer(rb"\xe9|\x0f[\x80-\x8f]", code):
        if found.end() + 4 > len(code):
            break
        if pc - NEAR + found.end() + 4 + struct.unpack_from("<i", code, found.end())[0] == pc:
            yield pc - NEAR + found.start()


def _calls(pc: int, sp: int, read: Read) -> Iterator[int]:
    """At the first instruction of a function, or in the linkage table on the way there: who called it, and the way."""
    for place in range(3):  # the table pushes two words for the loader
        back = _word(sp + 8 * place, read)
        for start in _in_front(back, read, _is_call) if back else ():
            yield start
            code = read(start, LONGEST)
            insn = decoded(code)
            at = start + insn.length + insn.rel if insn is not None and _is_direct(code, insn) else None
            for _ in range(_TABLE):
                if at is None or at == pc:
                    break
                yield at
                at = follows(at, read, {})


def _returns(pc: int, read: Read, regs: Mapping[str, int]) -> Iterator[int]:
    """Behind a call: the returns of the function that was called, if that is known: what it went by may be gone."""
    for start in _in_front(pc, read, _is_call):
        code = read(start, LONGEST)
        insn = decoded(code)
        entry = None if insn is None else pc + insn.rel if _is_direct(code, insn) else _target(start, code, regs, read)
        for _ in range(2 if entry else 0):
            assert entry is not None
            yield from _of_function(entry, read)
            stub = entry + len(_ENDBR) * (read(entry, 4) == _ENDBR)
            through = _target(stub, read(stub, LONGEST), {}, read)
            if through is None:
                break
            entry = through


def _of_function(entry: int, read: Read, depth: int = _TAILS) -> Iterator[int]:
    """The returns of a function, and of those that it ends in by a jump."""
    code, at, farthest = read(entry, NEAR), 0, 0
    while at < len(code):
        insn = decoded(code[at : at + LONGEST])
        if insn is None:
            return
        behind = at + insn.length
        if insn.kind == lib.GR_INSN_RET:
            yield entry + at
        if insn.kind in (lib.GR_INSN_JCC, lib.GR_INSN_JMP):
            if 0 <= behind + insn.rel < NEAR:
                farthest = max(farthest, behind + insn.rel)
            elif depth:
                yield from _of_function(entry + behind + insn.rel, read, depth - 1)
        ends = insn.kind in (lib.GR_INSN_RET, lib.GR_INSN_JMP, lib.GR_INSN_INT3)
        if ends and behind > farthest:
            return
        at = behind


def follows(pc: int, read: Read, regs: Mapping[str, int]) -> int | None:
    """Where a thread goes on behind the instruction at PC, executed with REGS; None where that cannot be told."""
    code = read(pc, LONGEST)
    insn = decoded(code)
    if insn is None:
        return None
    behind = pc + insn.length
    if insn.kind == lib.GR_INSN_JCC:
        if "eflags" not in regs:
            return None
        return behind + insn.rel if holds(insn.cc, regs["eflags"]) else behind
    if insn.kind == lib.GR_INSN_JMP or (insn.kind == lib.GR_INSN_CALL and _is_direct(code, insn)):
        return behind + insn.rel
    if insn.kind == lib.GR_INSN_RET:
        return _word(regs["rsp"], read) if "rsp" in regs else None
    if insn.kind in (lib.GR_INSN_INDIRECT, lib.GR_INSN_CALL):
        return _target(pc, code, regs, read)
    if insn.kind in (lib.GR_INSN_PLAIN, lib.GR_INSN_MEMORY, lib.GR_INSN_RIP):
        return behind
    return None


def leads_on(code: bytes, back: int) -> bool:
    """Whether, of CODE around a pc, what stands at pc + BACK is an instruction that leads to the pc and may store.

    At most of the fifteen places in front of an instruction none begins, or one of registers and constants alone:
    to count executions there is a run in vain.
    """
    insn = decoded(code[LONGEST + back :])
    return insn is None or (insn.length == -back and insn.kind in (lib.GR_INSN_MEMORY, lib.GR_INSN_RIP))


def leads_into(code: range, pc: int, read: Read) -> bool:
    """Whether the instruction at PC is a jump or a call that may lead into CODE: through memory that says so, or
    through a register, of which nobody knows."""
    insn = decoded(read(pc, LONGEST))
    if insn is None or insn.kind not in (lib.GR_INSN_INDIRECT, lib.GR_INSN_CALL):
        return False
    target = follows(pc, read, {})
    return target is None or target in code


def engine_of(pid: int) -> range:
    """Where the engine's code is in a process."""
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as maps:
        found = re.search(r"^(\w+)-(\w+) r-x. .*/libgdbrr\.so$", maps.read(), re.MULTILINE)
    return range(int(found[1], 16), int(found[2], 16)) if found else range(0)


def holds(cc: int, flags: int) -> bool:
    """Whether condition CC of a jump is met."""
    c, p, z, s, o = (bool(flags & bit) for bit in (_CF, _PF, _ZF, _SF, _OF))
    met = (o, c, z, c or z, s, p, s != o, z or s != o)[cc >> 1]
    return met != bool(cc & 1)


def _word(addr: int, read: Read) -> int | None:
    found = read(addr, 8)
    return int.from_bytes(found, "little") if len(found) == 8 else None


def _target(pc: int, code: bytes, regs: Mapping[str, int], read: Read) -> int | None:
    """Where `call *` or `jmp *` at PC leads; through a register or memory that REGS know."""
    found = re.match(rb"[\xf2\x3e]*([\x40-\x4f]?)\xff(.)(.?)", code, re.DOTALL)
    if not found or found[2][0] >> 3 & 7 not in (2, 4):
        return None
    rex = found[1][0] if found[1] else 0
    modrm, at = found[2][0], found.end(2)
    mod, low = modrm >> 6, modrm & 7
    try:
        if mod == 3:
            return regs[_NAMES[low | (rex & 1) << 3]]
        if mod == 0 and low == 5:
            insn = decoded(code)
            return None if insn is None else _word(pc + insn.length + struct.unpack_from("<i", code, at)[0], read)
        base = 0
        if low == 4:
            sib, at = found[3][0], at + 1
            index = (sib >> 3 & 7) | (rex & 2) << 2
            base += regs[_NAMES[index]] << (sib >> 6) if index != 4 else 0
            low = sib & 7
        if mod == 0 and low == 5:
            return _word(base + struct.unpack_from("<i", code, at)[0] & (1 << 64) - 1, read)
        base += regs[_NAMES[low | (rex & 1) << 3]]
        if mod:
            base += struct.unpack_from("b" if mod == 1 else "<i", code, at)[0]
    except (KeyError, struct.error):
        return None
    return _word(base & (1 << 64) - 1, read)
