"""Which id the next process of this machine gets.

Runs in: pytest. May call: the kernel's word for it, which the right to restore processes is needed for.
Owns: that word, while somebody chooses.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Callable, Iterator
from pathlib import Path

_LAST = Path("/proc/sys/kernel/ns_last_pid")
_RESERVED = 300
"""Below that the kernel gives each id once only."""


@contextlib.contextmanager
def choosing() -> Iterator[Callable[[int], None]]:
    """The next process gets the first free id behind the one that is called for. There is one count for all of the
    machine's processes: nobody else who chooses begins meanwhile, in this run of the tests or in another."""
    most = int(Path("/proc/sys/kernel/pid_max").read_text())
    with _LAST.open() as count:
        fcntl.flock(count, fcntl.LOCK_EX)
        yield lambda pid: _go_on_from(_RESERVED + (pid - _RESERVED) % (most - _RESERVED))


def _go_on_from(pid: int) -> None:
    _LAST.write_text(str(pid))


def chosen() -> bool:
    """Whether somebody who asks may choose."""
    with contextlib.suppress(OSError), choosing():
        _go_on_from(int(_LAST.read_text()))
        return True
    return False
