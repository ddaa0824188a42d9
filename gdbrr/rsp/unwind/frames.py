"""Out of the engine's own frames: who asked the allocator for what became an operation, and from where a thread came
that was stopped in the engine before that had told so, or behind it.

Runs in: the server. May call: /proc of the process.
Owns: nothing. The allocator pays nothing for it: no register is kept at its entry.
"""

from __future__ import annotations

import os
import re
import signal
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace

from gdbrr.rsp.ids import SYSCALL
from gdbrr.rsp.regs import UNKNOWN
from gdbrr.rsp.unwind import stubs
from gdbrr.rsp.unwind.tables import KEPT, NAMES, RETURN, SP, Tables
from gdbrr.timeline.model import ThreadView
from gdbrr.timeline.step.code import decoded

_MOST = 32
_LONGEST_CALL = 6
"""Of those that lead into the engine."""
_LONGEST = 8
_IN_FRAME = b"\x77\x38\x06"
"""The place of the stack pointer while an entry's frame is on the engine's stack: preload/core/offsets.h."""
_FRAME = struct.Struct("<18Q8x8x")
_IN_FRAMES = "rax rbx rcx rdx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip eflags".split()
_RESTORER = b"\xb8\x0f\x00\x00\x00\x0f\x05"
_CONTEXT = (*(f"r{number}" for number in range(8, 16)), *"rdi rsi rbp rbx rdx rax rcx rsp rip eflags".split())
_CONTEXT_AT, _SIGINFO_AT = 40, 304
"""Where the kernel keeps registers behind a handler's return address, and the signal."""
_TRAPPED = 2
"""si_code of the SIGSYS by which a system call comes to the engine; others were sent."""
_ARGUMENTS = ("rdi", "rsi", "rdx", "r8", "r9", "r10")
"""Of calls that the engine makes an operation of; a wrapper clears them on its way out."""
_STAYING = tuple(NAMES[number] for number in (*KEPT, SP))
_SCRATCH = tuple(name for name in NAMES if name not in _STAYING)
_CALL = re.compile(rb"[\x40-\x4f]?(?:\xe8|\xff[\x10-\x17\x50-\x57\x90-\x97\xd0-\xd7])", re.DOTALL)


def led_here(read: Callable[[int, int], bytes], call: int, stack: int) -> bool:
    """Whether what stands at CALL is a call, and what returns behind it lies at the stack pointer."""
    code = read(call, _LONGEST)
    insn = decoded(code)
    back = int.from_bytes(read(stack, 8), "little")
    return bool(_CALL.match(code)) and insn is not None and back == call + insn.length


def at_syscall(view: ThreadView, regs: dict[str, int]) -> ThreadView:
    """VIEW of a thread that really has REGS, those behind a system call that it has not made yet."""
    return replace(view, in_engine=True, regs={**regs, "rip": regs["rip"] - 2}, ret_pc=regs["rip"])


class Unwinder:
    def __init__(self, pid: int, code: Sequence[tuple[int, int]]) -> None:
        """CODE is where the engine's is, its own file first."""
        self._pid = pid
        self._code = code
        self._tables = Tables(self._read, code[0][0])

    def shown(self, view: ThreadView) -> ThreadView:
        """VIEW at the call that led into the engine, where it stands in the middle of that."""
        regs = {**view.regs, "rip": view.ret_pc}
        for _ in range(_MOST):
            if not self._inside(regs["rip"]):
                return replace(view, regs=self._in_front(regs), ret_pc=regs["rip"])
            rules = self._tables.rules(regs["rip"] - 1)
            if rules is None:
                break
            regs = self._tables.behind(regs, rules)
        return view

    def outside(self, view: ThreadView, regs: dict[str, int]) -> ThreadView:
        """VIEW of a thread that really has REGS, in the engine: at the call that led there; VIEW itself where that is
        not found.

        Where a call has been made and nobody has kept a register for the caller, that is UNKNOWN.
        """
        try:
            shown = self._outside(view, regs)
        except (OSError, struct.error, KeyError, IndexError):  # between two instructions of which no table tells
            shown = None
        if shown is None:
            return view
        ret_pc = shown.pop("ret_pc")
        return replace(view, in_engine=True, regs={**dict.fromkeys(NAMES, UNKNOWN), **regs, **shown}, ret_pc=ret_pc)

    def _outside(self, view: ThreadView, regs: dict[str, int]) -> dict[str, int] | None:
        """The program's registers and `ret_pc`; 0 for that: it is in the program, but for the address."""
        known, exact = regs, True
        for depth in range(_MOST):
            pc = regs["rip"]
            start = self._inside(pc)
            if start is None:
                return self._found(view, known, exact)
            if place := stubs.place(known, self._read, start):
                at_lock = depth and place["ret_pc"] not in (0, place["rip"])
                return {**place, **dict.fromkeys(("rcx", "r11"), UNKNOWN)} if at_lock else place
            if context := self._context(regs):
                number, code = (self._word(regs["rsp"] + at) & 0xFFFFFFFF for at in (_SIGINFO_AT, _SIGINFO_AT + 8))
                exact = (number, code) != (signal.SIGSYS, _TRAPPED)
                regs = known = {**regs, **context}
                continue
            rules = self._tables.rules(pc if exact else pc - 1)
            if rules is None:
                return None
            entry = rules.found.get(SP) == _IN_FRAME
            if entry:
                frame = _FRAME.unpack(self._read(regs["rsp"], _FRAME.size))
                regs = dict(zip(_IN_FRAMES, frame, strict=True))
            else:
                entry = RETURN in rules.held or RETURN in rules.found
                regs = self._tables.behind(regs, rules)
            known = regs if entry else {**regs, **dict.fromkeys(_SCRATCH, UNKNOWN)}
            exact = rules.exact or self._tables.begins(regs["rip"])
        return None

    def interrupted(self, regs: dict[str, int]) -> dict[str, int]:
        """The registers behind the engine's handler that has called what stops for a debugger; REGS if it is none."""
        now = {**regs, "rip": self._word(regs["rsp"]), "rsp": regs["rsp"] + 8}
        for _ in range(_MOST):
            if context := self._context(now):
                return {**now, **context}
            rules = self._tables.rules(now["rip"] - 1) if self._inside(now["rip"]) is not None else None
            if rules is None:
                break
            now = self._tables.behind(now, rules)
        return regs

    def _found(self, view: ThreadView, regs: dict[str, int], exact: bool) -> dict[str, int]:
        """With the program's registers: where it goes on at their pc, or, not EXACT, is in the middle of the call in
        front of that. On the way out a call has its result: shown is what the engine told of it."""
        pc = regs["rip"]
        if exact:
            return {**regs, "ret_pc": stubs.behind_lock(pc, self._read) or pc}
        syscall = self._read(pc - 2, 2) == SYSCALL
        told = {name: view.regs[name] for name in NAMES}
        made = all(regs[name] == told[name] for name in _ARGUMENTS) or not (syscall or any(map(regs.get, _ARGUMENTS)))
        if view.ret_pc == pc and made and all(regs[name] == told[name] for name in _STAYING):
            return {**view.regs, "ret_pc": pc}
        if syscall:
            return {**regs, "rip": pc - 2, "rcx": pc, "r11": regs["eflags"], "ret_pc": pc}
        return {**self._in_front(regs), "ret_pc": pc}

    def _context(self, regs: dict[str, int]) -> dict[str, int] | None:
        """The registers behind a signal's handler of the engine, of a thread that has come to its end."""
        pc = regs["rip"]
        if _RESTORER not in (self._read(pc, len(_RESTORER)), self._read(pc - 5, len(_RESTORER))):
            return None
        values = struct.unpack("<18Q", self._read(regs["rsp"] + _CONTEXT_AT, 8 * len(_CONTEXT)))
        return dict(zip(_CONTEXT, values, strict=True))

    def _inside(self, pc: int) -> int | None:
        """Where the engine's code begins that PC is in."""
        return next((start for start, end in self._code if start <= pc < end), None)

    def _read(self, addr: int, length: int) -> bytes:
        with open(f"/proc/{self._pid}/mem", "rb", buffering=0) as memory:
            return os.pread(memory.fileno(), length, addr)

    def _word(self, addr: int) -> int:
        return int(struct.unpack("<Q", self._read(addr, 8))[0])

    def _in_front(self, regs: dict[str, int]) -> dict[str, int]:
        """REGS behind a call, with the pc at it, as gr_show_call of preload/core/guard.c takes it."""
        code = self._read(regs["rip"] - _LONGEST_CALL, _LONGEST_CALL)
        if code[-5:-4] == b"\xe8":
            length = 5
        elif code[0] == 0xFF and code[1] & 0x38 == 0x10:
            length = 6
        elif code[-3:-1] == b"\x41\xff" and code[-1] & 0xF8 == 0xD0:
            length = 3
        elif code[-2] == 0xFF and code[-1] & 0x38 == 0x10:
            length = 2
        else:
            length = 3 if code[-3] == 0xFF and code[-2] & 0xF8 == 0x50 else 0
        return {**regs, "rip": regs["rip"] - length}
