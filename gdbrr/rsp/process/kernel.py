"""What a function that GDB calls in the past may ask of the kernel: it looks around, and changes nothing outside.

Runs in: the server. May call: gdbrr.rsp.upstream, gdbrr.config.tables.
Owns: the rules, and what the function printed.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from enum import Enum, auto

from gdbrr.config import tables
from gdbrr.rsp.process.threads import Attached

_PASSED = frozenset(
    "brk mmap munmap mremap mprotect madvise sched_yield clock_gettime clock_getres clock_nanosleep nanosleep"
    " gettimeofday time getrandom uname sysinfo getcwd stat fstat lstat newfstatat statx access faccessat faccessat2"
    " readlink readlinkat read pread64 readv preadv lseek close getdents64 getuid geteuid getgid getegid getgroups"
    " getrlimit getrusage times sched_getaffinity getcpu".split()
)
"""What only looks, or changes memory that dies with the leaf. What the replay's fence forbids stays forbidden."""
_ANSWERED_0 = frozenset("rt_sigprocmask rt_sigaction sigaltstack set_robust_list rseq".split())
"""These are the engine's; the function shall believe that it was obeyed."""
_OLD_STATE = {"rt_sigprocmask": 8, "rt_sigaction": 32}
"""Bytes that these write to their third argument."""
_WRITING = 0o3 | 0o100 | 0o1000 | 0o20000000 & ~0o200000
"""Of open: an access mode other than reading, O_CREAT, O_TRUNC, O_TMPFILE."""
_FUTEX_WAITS = (0, 9)
_FUTEX_WAKES = (1, 3, 4, 10)
_OUTPUT = (1, 2)
_AT_ONCE = 4096
WAY_OUT = "Any move undoes the call, e.g. reverse-stepi"
_MOST = 1 << 20
"""Bytes of one write that are shown."""


class Verdict(Enum):
    PASS = auto()
    ANSWERED = auto()
    STUCK = auto()
    """It would not come back."""


class Kernel:
    def __init__(self, process: Attached, say: Callable[[str | bytes], None]) -> None:
        self._process = process
        self._say = say
        self._named: set[str] = set()

    def judge(self, tid: int, regs: dict[str, int]) -> tuple[Verdict, int]:
        """What becomes of the call that thread TID stands behind, and its result where it is ANSWERED."""
        number = regs["rax"]
        call = tables.syscall_by_nr().get(number)
        name = call.name if call is not None else f"system call {number}"
        args = [regs[name] for name in ("rdi", "rsi", "rdx", "r10", "r8", "r9")]
        if name in _PASSED or (name in ("open", "openat") and not args[1 + (name == "openat")] & _WRITING):
            return Verdict.PASS, 0
        if name in ("write", "writev") and args[0] in _OUTPUT:
            data = self._memory(args[1], args[2]) if name == "write" else self._vector(args[1], args[2])
            self._say(data)
            return Verdict.ANSWERED, len(data)
        if name in _ANSWERED_0:
            if name in _OLD_STATE and args[2]:
                self._write(args[2], bytes(_OLD_STATE[name]))
            return Verdict.ANSWERED, 0
        if name in ("gettid", "getpid"):
            views = self._process.views()
            first = min(views.values(), key=lambda view: view.index).tid if views else tid
            return Verdict.ANSWERED, self._process.virtual(tid if name == "gettid" else first)
        if name == "ioctl":
            return Verdict.ANSWERED, -errno.ENOTTY
        if name == "futex":
            return self._futex(args)
        if name in ("exit", "exit_group"):
            self._say(f"gdbrr: the called function would end the process here. {WAY_OUT}\n")
            return Verdict.STUCK, 0
        if name not in self._named:
            self._named.add(name)
            self._say(f"gdbrr: {name} was refused: what is called in the past changes nothing outside of it\n")
        return Verdict.ANSWERED, -errno.EPERM

    def _futex(self, args: list[int]) -> tuple[Verdict, int]:
        operation = args[1] & 0x7F
        if operation in _FUTEX_WAKES:
            return Verdict.PASS, 0
        if operation not in _FUTEX_WAITS:
            return Verdict.ANSWERED, -errno.EPERM
        word = self._memory(args[0], 12)
        differs = int.from_bytes(word[:4], "little") != args[2] & 0xFFFFFFFF
        if differs or args[3]:  # it comes back at once, or when its time is over
            return Verdict.PASS, 0
        # The word of a mutex; its owner stands 8 bytes behind it. Replays keep the recorded ids in there.
        owner = int.from_bytes(word[8:12], "little")
        owned = any(view.recorded_tid == owner for view in self._process.views().values())
        who = f"the lock at {args[0]:#x}, which thread {owner} holds" if owned else f"what happens at {args[0]:#x}"
        self._say(f"gdbrr: the called function would wait for ever for {who}. {WAY_OUT}\n")
        return Verdict.STUCK, 0

    def counter(self) -> tuple[int, int]:
        """rax and rdx of a function that reads the time stamp counter."""
        now = time.monotonic_ns()
        return now & 0xFFFFFFFF, now >> 32 & 0xFFFFFFFF

    def _memory(self, addr: int, length: int) -> bytes:
        out = b""
        while len(out) < min(length, _MOST):
            part = self._process.upstream.memory(addr + len(out), min(_AT_ONCE, min(length, _MOST) - len(out)))
            if not part:
                break
            out += part
        return out

    def _vector(self, addr: int, count: int) -> bytes:
        rows = self._memory(addr, 16 * min(count, 1024))
        out = b""
        for at in range(0, len(rows) - 15, 16):
            base, length = (int.from_bytes(rows[at + part : at + part + 8], "little") for part in (0, 8))
            out += self._memory(base, min(length, _MOST - len(out)))
        return out

    def _write(self, addr: int, data: bytes) -> None:
        self._process.upstream.request(b"M%x,%x:%b" % (addr, len(data), data.hex().encode()))
