"""A command on a terminal of its own, as a person has it: keys go in, the screen's bytes come out.

Runs in: pytest. May call: anything a test asks for, in a session of its own.
Owns: that session and its terminal; `close` ends what is left of it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from harness import ROOT
from harness.run import LIMIT, TooSlow, end_session, surroundings


class Terminal:
    """Starts COMMAND at once. `seen` holds everything that appeared so far."""

    def __init__(
        self, *command: str | Path, size: tuple[int, int] = (24, 80), cwd: Path | None = None,
        env: Mapping[str, str] | None = None, limit: float = LIMIT,
    ) -> None:  # fmt: skip
        self._deadline = time.monotonic() + limit
        self._master, slave = os.openpty()
        self.resize(*size)
        self.seen = b""
        self.before = termios.tcgetattr(slave)
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            [str(word) for word in command],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=cwd,
            env={**surroundings(), "PYTHONPATH": path, "TERM": "xterm", **(env or {})},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        self._slave = slave

    @property
    def pid(self) -> int:
        return self._process.pid

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def wait_for(self, *texts: str) -> None:
        """Until one of TEXTS has appeared."""
        while not any(text.encode() in self.seen for text in texts):
            self._read(f"{' or '.join(map(repr, texts))} did not appear")

    def wait(self) -> int:
        """Until the command has ended; its status as a shell has it."""
        while self._process.poll() is None:
            self._read("it did not end")
        while self._ready(0):
            self._take()
        code = self._process.returncode
        return code if code >= 0 else 128 - code

    def settings(self) -> list[int | list[bytes | int]]:
        """What stty would show."""
        return termios.tcgetattr(self._slave)

    def close(self) -> None:
        end_session(self._process.pid)
        self._process.wait()
        for fd in (self._master, self._slave):
            os.close(fd)

    def _ready(self, seconds: float) -> bool:
        return bool(select.select([self._master], [], [], seconds)[0])

    def _take(self) -> None:
        with contextlib.suppress(OSError):
            self.seen += os.read(self._master, 65536)

    def _read(self, complaint: str) -> None:
        if time.monotonic() > self._deadline:
            raise TooSlow(f"{complaint}; seen so far:\n{self.seen.decode(errors='replace')}")
        if self._ready(0.05):
            self._take()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
