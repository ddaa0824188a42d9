"""Waiting for a word of shared memory to change, and waking those who wait.

Runs in: the server, and commands outside GDB. May call: the system call futex through libc.
Owns: nothing.
"""

from __future__ import annotations

import ctypes

_SYS_FUTEX = 202
_FUTEX_WAIT = 0
_FUTEX_WAKE = 1
_EVERYBODY = 0x7FFFFFFF

# Not the PRIVATE forms: the other side is another process.
_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.restype = ctypes.c_long


class _Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


def wait(address: int, value: int, timeout: float) -> None:
    """Sleep while the 32-bit word at ADDRESS is VALUE, at most TIMEOUT seconds; may return early, so check again."""
    seconds = int(timeout)
    limit = _Timespec(seconds, int((timeout - seconds) * 1e9))
    _syscall(_SYS_FUTEX, ctypes.c_void_p(address), _FUTEX_WAIT, ctypes.c_uint32(value), ctypes.byref(limit), None, 0)


def wake(address: int) -> None:
    _syscall(_SYS_FUTEX, ctypes.c_void_p(address), _FUTEX_WAKE, _EVERYBODY, None, None, 0)
