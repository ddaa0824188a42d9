"""The log's next pages, made before the program comes to them, and full ones, used again: fresh ones cost it dearly.

Runs in: `gdbrr record`, between two looks at the program. May call: abi, the file system.
Owns: how much of the log is prepared; the mapping by which the controller sees it.
"""

from __future__ import annotations

import mmap
import os

from gdbrr import abi
from gdbrr.abi import lib
from gdbrr.quick.paths import Path
from gdbrr.quick.rows import TYPE_CHECKING
from gdbrr.quick.scopes import suppress

if TYPE_CHECKING:
    from gdbrr.ctl.drain import Drain

_POPULATE_WRITE = 23  # MADV_POPULATE_WRITE, Linux 5.14
_DONTNEED = 4
_MOST = 32 << 20
_STEP = 1 << 20
_WANTED = 24
"""Chunks that are full at a look: a look costs as much as packing some."""
_SOON, _SHORTEST, _SLOWEST = 0.001, 0.004, 0.1
"""Seconds between two looks, which cost less than those at what the program has mapped."""


class Ahead:
    """What a recording logs is expected to go on as it went so far, up to a limit."""

    def __init__(self, page: abi.Ctl, log: Path) -> None:
        self._page = page
        self._log = log
        self._size = int(page.c.data_size)
        self._mapping: mmap.mmap | None = None
        self._drain: Drain | None = None
        self._ready = self._passed = 0
        self._on = True

    def look(self, pause: float) -> float:
        """Take out what is full, and prepare what is missing; the pause that follows this one."""
        slower = min(pause * 1.5, _SLOWEST)
        if int(self._page.c.units) * lib.GR_UNIT < lib.GR_LOG_SHORT:  # most runs end before
            return slower
        try:
            taken = self._drained()
        except (OSError, ValueError):
            taken = 0
        if self._prepared():
            return _SOON
        return min(max(pause * _WANTED / taken, pause / 4, _SHORTEST), slower, pause * 4) if taken else slower

    def _drained(self) -> int:
        if self._mapping is None:
            with open(self._log, "r+b") as file:
                self._mapping = mmap.mmap(file.fileno(), self._size)
            from gdbrr.ctl.drain import NAME, Drain  # most runs end without

            self._drain = Drain(self._page, self._mapping, f"{self._log.parent}/{NAME}")
        taken = self._drain.look() if self._drain and self._drain.on else 0
        # As INVARIANT(log-is-no-burden) in log.c: headers of short chunks, as threads that end leave them, were read.
        used = int(self._page.c.units) * lib.GR_UNIT
        if used - self._passed >= _MOST:
            self._mapping.madvise(_DONTNEED, 0, min(used, self._size))  # our own view of it only
            self._passed = used
        return taken

    def _prepared(self) -> bool:
        used = int(self._page.c.units) * lib.GR_UNIT
        if not self._on or self._mapping is None:
            return False
        start, end = max(self._ready, used), min(used + min(used, _MOST), self._size)
        if end - start < _STEP:
            return False
        try:
            self._prepare(self._mapping, start, end)
        except (OSError, ValueError):  # a full disk, an old kernel: the engine does it, and says what is wrong
            self._on = False
        return self._on

    def _prepare(self, mapping: mmap.mmap, start: int, end: int) -> None:
        free = os.statvfs(self._log)
        if free.f_bavail * free.f_frsize < 4 * _MOST:
            raise OSError
        # INVARIANT(pages-not-bytes): a page that the program has reached meanwhile keeps what is in it.
        mapping.madvise(_POPULATE_WRITE, start, end - start)
        mapping.madvise(_DONTNEED, start, end - start)  # our own view of it only
        self._ready = end

    def end(self) -> None:
        """Give back what the program never came to."""
        if self._mapping is None:
            return
        if self._drain:
            self._drain.end()
        self._mapping.close()
        self._mapping = self._drain = None
        with suppress(OSError):
            os.truncate(self._log, int(self._page.c.units) * lib.GR_UNIT)
