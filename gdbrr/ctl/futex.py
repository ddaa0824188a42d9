"""Waiting for a word of shared memory to change, and waking those who wait.

Runs in: the server, and commands outside GDB. May call: the system call futex through libc.
Owns: nothing.
"""

from __future__ import annotations

import struct

from gdbrr.quick.kept import cache
from gdbrr.quick.rows import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_SYS_FUTEX = 202
# Not the PRIVATE forms: the other side is another process.
_FUTEX_WAIT = 0
_FUTEX_WAKE = 1
_EVERYBODY = 0x7FFFFFFF


@cache
def _syscall() -> Callable[..., int]:
    import ctypes  # for who waits only: a recording does not

    call = ctypes.CDLL(None).syscall
    call.restype = ctypes.c_long
    long, number, word, pointer = ctypes.c_long, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p
    call.argtypes = (long, pointer, number, word, ctypes.c_char_p, pointer, number)
    return call


def wait(address: int, value: int, timeout: float) -> None:
    """Sleep while the 32-bit word at ADDRESS is VALUE, at most TIMEOUT seconds; may return early, so check again."""
    seconds = int(timeout)
    limit = struct.pack("=qq", seconds, int((timeout - seconds) * 1e9))
    _syscall()(_SYS_FUTEX, address, _FUTEX_WAIT, value, limit, None, 0)


def wake(address: int) -> None:
    _syscall()(_SYS_FUTEX, address, _FUTEX_WAKE, _EVERYBODY, None, None, 0)
