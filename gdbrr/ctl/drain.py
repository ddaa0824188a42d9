"""What is full of a log, taken out of it while the program runs, to a file of its own: its pages are used again.

Runs in: `gdbrr record`, between two looks at the program. May call: abi, demo, the file system; zstandard.
Owns: the file `drained` of a recording while it is written; which chunks of the log are free.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from functools import partial

from gdbrr import abi
from gdbrr.abi import ffi, lib
from gdbrr.quick.rows import Any

NAME = "drained"
"""As in gdbrr.demo.drained."""
_REMOVE = 9  # MADV_REMOVE: its pages and their place on disk
_CHUNK: int = lib.GR_CHUNK_UNITS * lib.GR_UNIT
_HEADER: int = ffi.sizeof("struct gr_chunk")
_MOST = 64
"""Chunks that one look takes out, so that somebody looks at the program, too."""


class Drain:
    """Of chunks that are whole and of the usual size; threads that ended, and large events, leave others."""

    def __init__(self, page: abi.Ctl, log: mmap.mmap, path: str) -> None:
        self._page = page
        self._log = log
        self._path = path
        self._base: Any = ffi.from_buffer("uint8_t *", log)
        self._drain: Any = ffi.new("struct gr_drain *")
        self._fd = -1
        self._size = 0
        self._record: Any = None
        self.on = True

    def look(self) -> int:
        """Take out what is full by now; how many chunks that were."""
        taken, most = 0, len(self._log) // lib.GR_UNIT
        try:
            while self.on and taken < _MOST:
                count = int(lib.gr_drain_take(self._drain, self._base, self._page.c.units, most))
                if not count:
                    break
                self._keep(count)
                self._give()
                taken += count
        except OSError:  # a full disk: the log grows on, as far as it may
            self.on = False
        return taken

    def _keep(self, count: int) -> None:
        if self._fd < 0:
            from gdbrr.demo import drained  # brings zstandard along, which most runs end without

            self._record = partial(drained.record, packer=drained.packer())
            self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        drain = self._drain
        record = self._record(ffi.buffer(drain.head, count * _HEADER), ffi.buffer(drain.body, drain.bytes))
        size = sum(map(len, record))
        try:
            if os.writev(self._fd, record) != size:
                raise OSError
        except OSError:
            os.ftruncate(self._fd, self._size)
            raise
        self._size += size
        self._page.c.drained = self._size

    def _give(self) -> None:
        """INVARIANT(taken-out-then-free): who is killed here leaves chunks twice, and never one not at all."""
        places = ffi.addressof(self._page.c, "free")
        while unit := lib.gr_drain_give(self._drain, self._base, ffi.cast("uint32_t *", places)):
            # INVARIANT(few-go-round): the program's memory holds those that it writes to again.
            with contextlib.suppress(OSError):
                self._log.madvise(_REMOVE, unit * lib.GR_UNIT, _CHUNK)

    def end(self) -> None:
        """Nothing more is taken out; what is left is in the log."""
        ffi.release(self._base)
        if self._fd >= 0:
            os.close(self._fd)
