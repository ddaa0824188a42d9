"""A core file of a process that waits in the engine, in which every thread stands where the program thinks it does.

Runs in: commands outside GDB. May call: ctl; /proc of a process that is ours.
Owns: what of such a process is written down: enough to walk its stacks, never more than 64 MB.

The process itself is not touched: setting its registers through a debugger that then dies would let it run on.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from gdbrr.abi import lib
from gdbrr.ctl.threads import Thread

_EHDR = struct.Struct("<16sHHIQQQIHHHHHH")
_PHDR = struct.Struct("<IIQQQQQQ")
_NOTE = struct.Struct("<III8s")
_PRSTATUS = struct.Struct("<12xH2x16xi76x27Q8x")  # struct elf_prstatus: pr_cursig, pr_pid, pr_reg
_IN_PRSTATUS = "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi".split()
_NT_PRSTATUS, _NT_AUXV = 1, 6
_USER_CS, _USER_SS = 0x33, 0x2B
_WHOLE = 4 << 20
_RED_ZONE = 512
_STACK = 1 << 20
_MOST = 64 << 20
_PAGE = 4096


class _Piece(NamedTuple):
    start: int
    data: bytes


def write(pid: int, threads: Sequence[Thread], path: Path) -> None:
    """The core file at PATH; the first of THREADS is the one that a debugger selects. OSError when PID is gone."""
    notes = b"".join(_note(_NT_PRSTATUS, _prstatus(thread)) for thread in threads)
    notes += _note(_NT_AUXV, Path(f"/proc/{pid}/auxv").read_bytes())
    pieces = list(_memory(pid, [thread.regs["rsp"] for thread in threads]))
    count = 1 + len(pieces)
    offset = _EHDR.size + count * _PHDR.size
    ident = b"\x7fELF\2\1\1".ljust(16, b"\0")
    head = [_EHDR.pack(ident, 4, 62, 1, 0, _EHDR.size, 0, 0, _EHDR.size, _PHDR.size, count, 0, 0, 0)]
    head.append(_PHDR.pack(4, 0, offset, 0, 0, len(notes), 0, 4))
    offset += len(notes)
    for piece in pieces:
        head.append(_PHDR.pack(1, 7, offset, piece.start, 0, len(piece.data), len(piece.data), _PAGE))
        offset += len(piece.data)
    with open(path, "xb") as file:
        file.writelines([*head, notes, *(piece.data for piece in pieces)])


def _note(kind: int, content: bytes) -> bytes:
    return _NOTE.pack(5, len(content), kind, b"CORE") + content.ljust(len(content) + 3 & ~3, b"\0")


def _prstatus(thread: Thread) -> bytes:
    regs = thread.regs
    values = [regs[name] for name in _IN_PRSTATUS]
    values += [(1 << 64) - 1, regs["rip"], _USER_CS, regs["eflags"], regs["rsp"], _USER_SS]
    return _PRSTATUS.pack(0, thread.tid, *values, regs["fs_base"], regs["gs_base"], 0, 0, 0, 0)


def _memory(pid: int, stacks: Sequence[int]) -> Iterator[_Piece]:
    """What unwinding may want and no file holds: stacks, the loader's list of objects, what was relocated."""
    left = _MOST
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as maps:
        regions = [line.split(None, 5) for line in maps]
    memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        for fields in regions:
            low, high = (int(part, 16) for part in fields[0].split("-"))
            vdso = len(fields) == 6 and fields[5].strip() == "[vdso]"
            if "r" not in fields[1] or (not vdso and ("x" in fields[1] or "s" in fields[1])):
                continue
            if lib.GR_ZONE <= low < lib.GR_ZONE_END:
                continue
            wanted = [(low, high)]
            if high - low > _WHOLE:
                inside = [rsp for rsp in stacks if low <= rsp < high]
                wanted = [(max(low, rsp - _RED_ZONE & -_PAGE), min(high, rsp + _STACK & -_PAGE)) for rsp in inside]
            for start, end in wanted:
                try:
                    data = os.pread(memory, min(end - start, left), start)
                except OSError:
                    continue  # no page of it can be read, such as one behind the end of its file
                left -= len(data)
                if data:
                    yield _Piece(start, data)
    finally:
        os.close(memory)
