"""Who is beside a real program while it is recorded: the clients of a server, who types, what it fetches.

Runs in: python -m faults, pytest: a thread for each recording. May call: apps, sockets, terminals.
Owns: that thread; it ends when the program has ended, or at its own work's end.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import re
import signal
import socket
import struct
import subprocess
import termios
import time
import tty
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from apps.clients import drive, serving
from apps.table import App

if TYPE_CHECKING:
    from faults.place import Running

KEYS = {"Escape": "\x1b", "Enter": "\r", "C-x": "\x18"}
"""As tmux calls them, whom table.py has in mind."""
_LOOK = 0.05
_HELD = contextlib.ExitStack()
atexit.register(_HELD.close)


class Company:
    """Nobody yet. `streams` is called before the program is started, `attend` in a thread behind that."""

    def __init__(self, app: App, here: Path) -> None:
        self.app = app
        self.here = here

    def streams(self, out: BinaryIO) -> tuple[int, int]:
        """Standard input and output."""
        return subprocess.DEVNULL, out.fileno()

    def started(self) -> None:
        """The program has its streams."""

    def attend(self, running: Running) -> None:
        raise NotImplementedError


class Clients(Company):
    """They ask a server as soon as it listens, and tell it to end; what a fault does to them is not their affair."""

    def attend(self, running: Running) -> None:
        while not listening(self.app.port):
            if running.over():
                return
            time.sleep(_LOOK)
        with contextlib.suppress(Exception):
            drive(self.app.client, self.app.port)
        for pid in running.programs():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)


class Files(Company):
    """What a client fetches is there before it starts."""

    def streams(self, out: BinaryIO) -> tuple[int, int]:
        self.open = contextlib.ExitStack()
        self.open.enter_context(serving(self.here, self.app.port))
        return super().streams(out)

    def attend(self, running: Running) -> None:
        with self.open:
            while not running.over():
                time.sleep(_LOOK)


class Typist(Company):
    """Types when the screen shows what it should. The terminal is raw: what appears is what was written."""

    def streams(self, out: BinaryIO) -> tuple[int, int]:
        self.master, self.slave = os.openpty()
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        tty.setraw(self.slave)
        return self.slave, self.slave

    def started(self) -> None:
        os.close(self.slave)

    def attend(self, running: Running) -> None:
        keys = "".join(KEYS.get(key, key) for key in self.app.keys).replace("{here}", str(self.here)).encode()
        seen = b""
        gone = contextlib.suppress(OSError)  # nobody has the terminal any more
        with running.out.open("ab", buffering=0) as out, open(self.master, "r+b", buffering=0) as screen, gone:
            while some := screen.read(65536):
                out.write(some)
                seen += some
                if keys and self.app.shows.encode() in seen:
                    screen.write(keys)
                    keys = b""


def beside(app: App, here: Path) -> Company | None:
    if app.client:
        return Clients(app, here)
    if app.fetches:
        return Files(app, here)
    return Typist(app, here) if app.keys else None


def listening(port: int) -> bool:
    """As the kernel tells, without a connection that the server would see."""
    rows = Path("/proc/net/tcp").read_text()
    return bool(re.search(rf"^ *\d+: \S+:{port:04X} \S+ 0A ", rows, re.MULTILINE))


def free_port() -> int:
    """Below those that the kernel gives away by itself; another process that does the same gets another one."""
    for port in range(18000, 20000):
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            stack.enter_context(held := socket.socket(socket.AF_UNIX))
            held.bind(f"\0gdbrr-test-port-{port}")  # nobody else may while it is open
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
            _HELD.push(stack.pop_all())
            return port
    raise OSError("no port is free")
