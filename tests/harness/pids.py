"""Which id the next process of this machine gets.

Runs in: pytest. May call: the kernel's word for it, which the right to restore processes is needed for.
Owns: nothing.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

_LAST = Path("/proc/sys/kernel/ns_last_pid")
_RESERVED = 300
"""Below that the kernel gives each id once only."""


def last() -> int:
    return int(_LAST.read_text())


def go_on_from(pid: int) -> None:
    """The next process gets the first free id behind this one."""
    most = int(Path("/proc/sys/kernel/pid_max").read_text())
    _LAST.write_text(str(_RESERVED + (pid - _RESERVED) % (most - _RESERVED)))


def chosen() -> bool:
    with contextlib.suppress(OSError):
        go_on_from(last())
        return True
    return False
