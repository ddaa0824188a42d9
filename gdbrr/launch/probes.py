"""What this machine allows, found out by trying: one function per question, answers as plain facts.

Runs in: a child of `gdbrr doctor`, one per probe, so that a probe may hang, die or leave its process in ruins.
May call: the kernel through ctypes; gdb and gdbserver for their versions.
Owns: the numbers of the system calls and requests it makes; no judgement (gdbrr.launch.doctor has that).
"""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import re
import resource
import select
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Facts = dict[str, Any]
Tell = Callable[[Facts], None]
"""Hands facts to the parent at once: what follows may end the process."""

SYS_PERF_EVENT_OPEN = 298
SYS_LANDLOCK_CREATE_RULESET = 444
LANDLOCK_VERSION = 1
PR_SET_SYSCALL_USER_DISPATCH = 59
PR_SET_PTRACER = 0x59616D61
PR_SET_PTRACER_ANY = ctypes.c_ulong(-1).value
ADDR_NO_RANDOMIZE = 0x0040000
PR_SET_SECCOMP, SECCOMP_MODE_FILTER, PR_SET_NO_NEW_PRIVS = 22, 2, 38
BPF_RETURN, SECCOMP_RET_ALLOW = 6, 0x7FFF0000
MADV_POPULATE_WRITE = 23
CLONE_NEWUSER = 0x10000000
PTRACE_POKEUSER, PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 6, 17, 0x4206, 0x4207
OFFSET_OF_DEBUG_REGISTERS = 848  # offsetof(struct user, u_debugreg) on x86-64

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
libc.ptrace.restype = ctypes.c_long


def _error() -> str:
    return errno.errorcode.get(ctypes.get_errno(), str(ctypes.get_errno()))


def _ulong(value: int) -> ctypes.c_ulong:
    return ctypes.c_ulong(value)


def _file(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def kernel(tell: Tell) -> None:
    host = os.uname()
    numbers = [int(n) for n in re.findall(r"\d+", host.release)[:2]]
    tell({"system": host.sysname, "release": host.release, "machine": host.machine, "version": numbers})


def dispatch(tell: Tell) -> None:
    """Arm Syscall User Dispatch and make one call: where it works, that call is a SIGSYS and the end."""
    selector = ctypes.c_char(b"\0")
    armed = libc.prctl(
        PR_SET_SYSCALL_USER_DISPATCH, _ulong(1), _ulong(0), _ulong(0), _ulong(ctypes.addressof(selector))
    )
    if armed != 0:
        tell({"error": _error()})
        return
    tell({"armed": True})
    selector.value = b"\1"
    os.getppid()
    selector.value = b"\0"
    tell({"armed": True, "passed_through": True})


class _Attr(ctypes.Structure):
    """struct perf_event_attr, as far as a breakpoint needs it."""

    _fields_ = (
        ("type", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("config", ctypes.c_uint64),
        ("sample_period", ctypes.c_uint64),
        ("sample_type", ctypes.c_uint64),
        ("read_format", ctypes.c_uint64),
        ("flags", ctypes.c_uint64),
        ("wakeup_events", ctypes.c_uint32),
        ("bp_type", ctypes.c_uint32),
        ("bp_addr", ctypes.c_uint64),
        ("bp_len", ctypes.c_uint64),
        ("rest", ctypes.c_uint8 * 56),
    )


def _open_write_breakpoint(address: int, sigtrap: bool = False) -> int:
    exclude_kernel, exclude_hv, remove_on_exec, deliver_sigtrap = 1 << 5, 1 << 6, 1 << 36, 1 << 37
    attr = _Attr(type=5, size=ctypes.sizeof(_Attr), bp_type=2, bp_addr=address, bp_len=8)
    attr.flags = exclude_kernel | exclude_hv
    if sigtrap:
        attr.sample_period = 1 << 40
        attr.flags |= remove_on_exec | deliver_sigtrap
    fd: int = libc.syscall(
        SYS_PERF_EVENT_OPEN, ctypes.byref(attr), ctypes.c_int(0), ctypes.c_int(-1), ctypes.c_int(-1), _ulong(8)
    )
    return fd


def _time_of_writes(cell: ctypes.c_ulong, count: int) -> float:
    start = time.perf_counter()
    for value in range(count):
        cell.value = value
    return time.perf_counter() - start


def perf_allowed() -> bool:
    """Whether this process may open a breakpoint that sends SIGTRAP at each hit."""
    cell = ctypes.c_ulong()
    fd = _open_write_breakpoint(ctypes.addressof(cell), sigtrap=True)
    if fd >= 0:
        os.close(fd)
    return fd >= 0


def perf_breakpoints(tell: Tell) -> None:
    cells = (ctypes.c_ulong * 16)()
    facts: Facts = {"paranoid": _file("/proc/sys/kernel/perf_event_paranoid"), "slots": 0}
    fds: list[int] = []
    while len(fds) < len(cells):
        fd = _open_write_breakpoint(ctypes.addressof(cells) + 8 * len(fds))
        if fd < 0:
            facts["error"] = _error()
            break
        fds.append(fd)
    facts["slots"] = len(fds)
    for fd in fds:
        os.close(fd)
    tell(facts)
    if not fds:
        return
    fd = _open_write_breakpoint(ctypes.addressof(cells), sigtrap=True)
    facts["sigtrap"] = fd >= 0
    if fd >= 0:
        os.close(fd)
    count = 1000
    cell = ctypes.c_ulong.from_buffer(cells)
    plain = min(_time_of_writes(cell, count) for _ in range(3))
    fd = _open_write_breakpoint(ctypes.addressof(cells))
    watched = min(_time_of_writes(cell, count) for _ in range(3))
    facts["hits"] = struct.unpack("Q", os.read(fd, 8))[0]
    facts["expected_hits"] = 3 * count
    facts["hit_us"] = round((watched - plain) / count * 1e6, 2)
    tell(facts)


def ptrace(tell: Tell) -> None:
    """Trace one's own parent, as the launcher's helper does, and set one of its debug registers."""
    ready, wake = os.pipe()
    done, finish = os.pipe()
    libc.prctl(PR_SET_PTRACER, _ulong(PR_SET_PTRACER_ANY), _ulong(0), _ulong(0), _ulong(0))
    target = os.getpid()
    cell = ctypes.c_ulong()
    child = os.fork()
    if child == 0:
        os.close(finish)
        os.read(ready, 1)
        facts: Facts = {"seize": False, "debug_registers": False}
        if libc.ptrace(PTRACE_SEIZE, target, None, None) != 0:
            facts["error"] = _error()
        else:
            facts["seize"] = True
            libc.ptrace(PTRACE_INTERRUPT, target, None, None)
            os.waitpid(target, 0x40000000)  # __WALL: the target is not a child
            for offset, value in ((0, ctypes.addressof(cell)), (7 * 8, 0x90001), (7 * 8, 0)):
                where = _ulong(OFFSET_OF_DEBUG_REGISTERS + offset)
                if libc.ptrace(PTRACE_POKEUSER, target, where, _ulong(value)) != 0:
                    facts["error"] = _error()
                    break
            else:
                facts["debug_registers"] = True
            libc.ptrace(PTRACE_DETACH, target, None, None)
        tell(facts)
        os._exit(0)
    os.close(finish)
    os.write(wake, b"x")
    os.read(done, 1)  # returns at the child's end
    os.waitpid(child, 0)


def yama(tell: Tell) -> None:
    tell({"scope": _file("/proc/sys/kernel/yama/ptrace_scope")})


class _Filter(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))


def landlock() -> int:
    """The version of Landlock that the kernel has; 0 where it has none."""
    version = libc.syscall(SYS_LANDLOCK_CREATE_RULESET, None, _ulong(0), ctypes.c_uint32(LANDLOCK_VERSION))
    return max(int(version), 0)


def fence(tell: Tell) -> None:
    """What preload/fence.c needs: a seccomp filter (here one that allows everything), and Landlock's version."""
    facts: Facts = {"landlock": landlock()}
    code = ctypes.create_string_buffer(struct.pack("HBBI", BPF_RETURN, 0, 0, SECCOMP_RET_ALLOW), 8)
    program = _Filter(1, ctypes.addressof(code))
    libc.prctl(PR_SET_NO_NEW_PRIVS, _ulong(1), _ulong(0), _ulong(0), _ulong(0))
    done = libc.prctl(PR_SET_SECCOMP, _ulong(SECCOMP_MODE_FILTER), ctypes.byref(program), _ulong(0), _ulong(0))
    facts["seccomp"] = done == 0
    if done != 0:
        facts["error"] = _error()
    tell(facts)


def user_namespaces(tell: Tell) -> None:
    allowed = libc.unshare(CLONE_NEWUSER) == 0
    tell({"allowed": True} if allowed else {"allowed": False, "error": _error()})


def aslr(tell: Tell) -> None:
    before = libc.personality(_ulong(0xFFFFFFFF))
    if before != -1 and before & ADDR_NO_RANDOMIZE:
        tell({"off": True})  # by whoever started us: `setarch -R`
        return
    if before == -1 or libc.personality(_ulong(before | ADDR_NO_RANDOMIZE)) == -1:
        tell({"off": False, "error": _error()})
        return
    tell({"off": bool(libc.personality(_ulong(0xFFFFFFFF)) & ADDR_NO_RANDOMIZE)})


def limits(tell: Tell) -> None:
    def limit(name: int) -> list[int | None]:
        return [None if value == resource.RLIM_INFINITY else value for value in resource.getrlimit(name)]

    tell({"stack": limit(resource.RLIMIT_STACK), "nofile": limit(resource.RLIMIT_NOFILE)})


def populate(tell: Tell) -> None:
    with mmap.mmap(-1, mmap.PAGESIZE) as area:
        try:
            area.madvise(MADV_POPULATE_WRITE)
        except OSError as error:
            tell({"works": False, "error": errno.errorcode.get(error.errno or 0, str(error.errno))})
        else:
            tell({"works": True})


def disk(tell: Tell) -> None:
    tell({"path": str(Path.cwd()), "free": shutil.disk_usage(".").free, "writable": os.access(".", os.W_OK)})


def _output(*command: str) -> str | None:
    path = shutil.which(command[0])
    if path is None:
        return None
    result = subprocess.run(
        [path, *command[1:]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    return result.stdout.decode(errors="replace")


def _version(*command: str) -> Facts:
    text = _output(*command)
    if text is None:
        return {"version": None}
    match = re.search(r"(\d+)\.(\d+)(?:[.\d]*)\s*$", text.splitlines()[0] if text else "")
    return {"version": match.group(0).strip() if match else text[:60], "major": int(match.group(1)) if match else 0}


def gdb(tell: Tell) -> None:
    tell(_version("gdb", "-nx", "--version"))


def gdbserver(tell: Tell) -> None:
    tell(_version("gdbserver", "--version"))


def gdb_python(tell: Tell) -> None:
    text = _output("gdb", "-nx", "-batch", "-ex", "python import sys; print('py', *sys.version_info[:2])")
    match = re.search(r"^py (\d+) (\d+)$", text or "", re.MULTILINE)
    tell({"gdb": text is not None, "version": [int(part) for part in match.groups()] if match else None})


def run_in_child(probe: Callable[[Tell], None], timeout: float) -> Facts:
    """The facts PROBE told last; `signal` if it died of one, `timeout` if it had to be ended."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        _child(probe, read_end, write_end)
    os.close(write_end)
    return _collect(child, read_end, timeout)


def _child(probe: Callable[[Tell], None], read_end: int, write_end: int) -> None:
    def tell(facts: Facts) -> None:
        os.write(write_end, json.dumps(facts).encode() + b"\n")

    status = 1
    try:
        os.setsid()  # what a probe starts can be ended together with it
        os.close(read_end)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        probe(tell)
        status = 0
    except BaseException as error:  # nothing may escape into the parent's code
        tell({"error": f"{type(error).__name__}: {error}"})
    finally:
        os._exit(status)


def _collect(child: int, read_end: int, timeout: float) -> Facts:
    deadline = time.monotonic() + timeout
    data = b""
    timed_out = False
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([read_end], [], [], left)[0]:
            timed_out = True
            break
        piece = os.read(read_end, 65536)
        if not piece:
            break
        data += piece
    os.close(read_end)
    try:
        os.killpg(child, signal.SIGKILL)  # the group outlives its leader where a probe left something behind
    except (ProcessLookupError, PermissionError):
        if timed_out:
            os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    whole = data.split(b"\n")[:-1]
    facts: Facts = json.loads(whole[-1]) if whole else {}
    if timed_out:
        facts["timeout"] = timeout
    elif status < 0:
        facts["signal"] = -status
    return facts
