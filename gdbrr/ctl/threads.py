"""The threads of a process as its engine shows them, read from outside through /proc/PID/mem.

Runs in: the server, and commands outside GDB. May call: abi, config.
Owns: nothing; the blocks belong to the process.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import Any

from gdbrr.abi import ffi, lib
from gdbrr.config import tables
from gdbrr.errors import GdbrrError

REGISTERS = tuple("rax rbx rcx rdx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip eflags fs_base gs_base".split())
NO_TICK = (1 << 64) - 1


@dataclass(frozen=True)
class Thread:
    """One thread that has a block; `regs` are the program's registers at the call of its operation."""

    state: int
    index: int
    tid: int
    recorded_tid: int
    op: int
    tick: int | None
    ops: int
    regs: dict[str, int]
    ret_pc: int
    was: tuple[int, ...]
    """Kernel ids that it had in the processes this one is a copy of."""

    @property
    def in_engine(self) -> bool:
        born = self.state == lib.GR_T_BORN and self.ret_pc != 0  # by the program: it has begun nothing yet
        return born or self.state in (lib.GR_T_ENGINE, lib.GR_T_PARKED, lib.GR_T_TRAPPED, lib.GR_T_EXITED)


_SYS_TGKILL = 234


def send(pid: int, tid: int, number: int) -> None:
    """Send a signal to one thread; nothing happens where it is not there any more."""
    import ctypes  # for this alone

    ctypes.CDLL(None).syscall(_SYS_TGKILL, pid, tid, number)


_SIZES = {"uint64_t": 8, "uint32_t": 4, "uint8_t *": 8}


def field_at(pid: int, born: int, tid: int, name: str) -> int:
    """Address of a field that the engine keeps for thread TID, one of the first in thread.def; 0: no such thread."""
    offset = int(ffi.sizeof("struct gr_thread_pub"))
    for field in tables.thread_fields():
        size = _SIZES[field.type]
        offset = -(-offset // size) * size
        if field.name == name:
            break
        offset += size
    block = next((block for block, thread in _blocks(pid, born) if thread.tid == tid), None)
    return 0 if block is None else int(lib.GR_THREADS_ADDR) + block * int(lib.GR_THREAD_BLOCK) + offset


def read(pid: int, born: int) -> list[Thread]:
    """The live threads of PID, in the order of their creation; BORN is how many its run has created so far.

    A thread's block is the one of its index or, where the table has wrapped, one behind it; so no block behind the
    first BORN was ever used.
    """
    return sorted((thread for _, thread in _blocks(pid, born)), key=lambda thread: thread.index)


def leaving(pid: int, born: int) -> list[Thread]:
    """Those behind their last operation, whose end is still to come; but a main thread's task stays without one."""
    gone = lib.GR_T_EXITED
    with contextlib.suppress(OSError):
        there = {int(name) for name in os.listdir(f"/proc/{pid}/task")} - {pid}
        return [thread for _, thread in _blocks(pid, born, gone=True) if thread.state == gone and thread.tid in there]
    return []


def _blocks(pid: int, born: int, gone: bool = False) -> list[tuple[int, Thread]]:
    """The number of each thread's block, and the thread; with those that are GONE."""
    unseen = (lib.GR_T_FREE,) if gone else (lib.GR_T_FREE, lib.GR_T_EXITED)
    size = ffi.sizeof("struct gr_thread_pub")
    threads = []
    try:
        memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
    except OSError as error:
        raise GdbrrError(
            f"process {pid} cannot be looked at: {error.strerror}", "it has ended; go to a moment again"
        ) from None
    try:
        for block in range(min(born, lib.GR_LIVE_THREADS)):
            raw = os.pread(memory, size, lib.GR_THREADS_ADDR + block * lib.GR_THREAD_BLOCK)
            pub = ffi.from_buffer("struct gr_thread_pub *", raw)
            if pub.state not in unseen:
                threads.append((block, _thread(pub)))
    except OSError:
        return []  # the engine has not made its blocks yet
    finally:
        os.close(memory)
    return threads


def _thread(pub: Any) -> Thread:
    return Thread(
        state=pub.state,
        index=pub.index,
        tid=pub.tid,
        recorded_tid=pub.recorded_tid,
        op=pub.op,
        tick=None if pub.tick == NO_TICK else pub.tick,
        ops=pub.ops,
        regs={name: getattr(pub.shown, name) for name in REGISTERS},
        ret_pc=pub.ret_pc,
        was=tuple(tid for tid in pub.was if tid),
    )
