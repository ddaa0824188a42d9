"""The log's next pages, made before the program comes to them: that is a third of what logging costs it.

Runs in: `gdbrr record`, between two looks at the program. May call: abi, the file system.
Owns: how much of the log is prepared. Nothing of it is ever written here.
"""

from __future__ import annotations

import mmap
import os

from gdbrr import abi
from gdbrr.abi import lib
from gdbrr.quick.paths import Path
from gdbrr.quick.scopes import suppress

_POPULATE_WRITE = 23  # MADV_POPULATE_WRITE, Linux 5.14
_DONTNEED = 4
_MOST = 32 << 20
_STEP = 1 << 20


class Ahead:
    """What a recording logs is expected to go on as it went so far, up to a limit."""

    def __init__(self, page: abi.Ctl, log: Path) -> None:
        self._page = page
        self._log = log
        self._size = int(page.c.data_size)
        self._mapping: mmap.mmap | None = None
        self._ready = 0
        self._on = True

    def look(self) -> bool:
        """Prepare what is missing; True when the program has come on far enough that it may soon be so again."""
        used = int(self._page.c.units) * lib.GR_UNIT
        if not self._on or used < lib.GR_LOG_SHORT:  # most runs end before
            return False
        start, end = max(self._ready, used), min(used + min(used, _MOST), self._size)
        if end - start < _STEP:
            return False
        try:
            self._prepare(start, end)
        except (OSError, ValueError):  # a full disk, an old kernel: the engine does it, and says what is wrong
            self._on = False
        return self._on

    def _prepare(self, start: int, end: int) -> None:
        if self._mapping is None:
            with open(self._log, "r+b") as file:
                self._mapping = mmap.mmap(file.fileno(), self._size)
        free = os.statvfs(self._log)
        if free.f_bavail * free.f_frsize < 4 * _MOST:
            raise OSError
        # INVARIANT(pages-not-bytes): a page that the program has reached meanwhile keeps what is in it.
        self._mapping.madvise(_POPULATE_WRITE, start, end - start)
        self._mapping.madvise(_DONTNEED, start, end - start)  # our own view of it only
        self._ready = end

    def end(self) -> None:
        """Give back what the program never came to."""
        if self._mapping is None:
            return
        self._mapping.close()
        self._mapping = None
        with suppress(OSError):
            os.truncate(self._log, int(self._page.c.units) * lib.GR_UNIT)
