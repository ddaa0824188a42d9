"""The connection to GDB: a Unix socket or standard input and output.

Runs in: the server. May call: gdbrr.rsp.packet.
Owns: the bytes to and from GDB, acknowledgements, what came in while GDB was waiting for a stop; the line that
tells how far a command is.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from gdbrr.errors import GdbrrError
from gdbrr.rsp.packet import Framer, Kind, frame, to_hex
from gdbrr.timeline.model import Interrupted

_MOVING = (b"vCont;", b"c", b"C", b"s", b"S", b"bc", b"bs")
_RESUMING = (*_MOVING, b"Z", b"Hc", b"QPassSignals:", b"QProgramSignals:", b"vCont?")
"""What GDB sends when it resumes, and in front of that."""
_TELLING = (b"qXfer:threads:read:", b"qfThreadInfo")
"""GDB (12 to 16) asks for the threads where it tells of a stop, and not where it goes on by itself."""
QUIET_SECONDS = 1.0
EVERY_SECONDS = 0.5
_CLEAR = "\r\033[K"
_KEEP, _GO_BACK = "\0337\033[?7l  ", "\033[?7h\0338"  # nothing goes on in the next row


class Manner(Enum):
    """How a line is shown that tells how far a command is."""

    LINE = "line"
    """On a terminal, as the only one of its kind, and gone at the end."""
    DRAWN = "drawn"
    """The same where GDB draws on all of it: at the cursor, which stays where it is, and no further than it is long."""
    MI = "mi"
    """As a record of GDB's machine interface. INVARIANT(a-record-is-whole): GDB writes none while it waits for a stop,
    and a pipe takes one this short at once, or not at all."""


@dataclass(frozen=True)
class Where:
    """The place for such a line."""

    path: str
    manner: Manner

    def shown(self, line: str, before: str) -> str:
        if self.manner is Manner.LINE:
            return _CLEAR + line
        if self.manner is Manner.DRAWN:
            return _KEEP + line.ljust(len(before)) + _GO_BACK
        return f'~"{line}\\n"\n'

    def cleared(self, line: str) -> str:
        if self.manner is Manner.LINE:
            return _CLEAR
        return self.shown("", line) if self.manner is Manner.DRAWN else ""


class Closed(GdbrrError):
    """GDB is gone, or the server has to end."""

    def __init__(self) -> None:
        super().__init__("the connection to GDB is closed")


class Link:
    """`closing` tells, between any two packets, whether somebody else wants the server to end."""

    def __init__(
        self, fd_in: int, fd_out: int, closing: Callable[[], bool] = lambda: False, wake_fds: Sequence[int] = ()
    ) -> None:
        self.fd = fd_in
        self._out = fd_out
        self._closing = closing
        self.wake_fds = wake_fds
        """Readable when it is worth asking `closing`."""
        self._framer = Framer()
        self._packets: deque[bytes] = deque()
        self._interrupted = False
        self._told = True
        """GDB has told its user of the last stop."""
        self._last = b""
        """The reply that may be asked for again: none while the next one is made. GDB (13.1) asks by a `-` when it has
        waited for `remotetimeout`, even without acknowledgements, and takes the reply before for the one to come."""
        self.acknowledge = True

    def next_packet(self) -> bytes:
        while not self._packets:
            select.select([self.fd, *self.wake_fds], [], [])
            self.pump()
        return self._packets.popleft()

    def pump(self) -> None:
        """Take in what has come, without waiting."""
        if self._closing():
            raise Closed
        if not select.select([self.fd], [], [], 0)[0]:
            return
        try:
            data = os.read(self.fd, 1 << 16)
        except OSError:
            data = b""
        if not data:
            raise Closed
        for event in self._framer.feed(data):
            if event.kind is Kind.PACKET:
                if self.acknowledge:
                    self._write(b"+")
                self._last = b""
                self._packets.append(event.payload)
                self._hear(event.payload)
            elif event.kind is Kind.INTERRUPT:
                self._interrupted = True
            elif event.kind is Kind.NAK and self._last and self.acknowledge:
                self._write(self._last)
            elif event.kind is Kind.BAD and self.acknowledge:
                self._write(b"-")

    def _hear(self, payload: bytes) -> None:
        """INVARIANT(ctrl-c-until-told): between two stops of which GDB tells nobody, as at a condition that it tests
        itself, a Ctrl-C is for what goes on. Behind one that it tells of it was meant for what is over, unless GDB is
        about to resume."""
        telling = payload.startswith(_TELLING)
        self._told |= telling
        self._interrupted &= not telling and (not self._told or payload.startswith(_RESUMING))
        self._told &= not payload.startswith(_MOVING)

    def take_interrupt(self) -> bool:
        """Whether GDB sent Ctrl-C since this was last asked."""
        taken, self._interrupted = self._interrupted, False
        return taken

    def keep_interrupt(self) -> None:
        """What it was for has ended for another reason."""
        self._interrupted = True

    def reply(self, payload: bytes) -> None:
        self._last = frame(payload)
        self._write(self._last)

    def console(self, text: str | bytes) -> None:
        """Text for GDB's terminal; allowed only while GDB waits for a stop."""
        self._write(frame(b"O" + to_hex(text)))

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._out, data) :]
        except OSError:
            raise Closed from None


class Meter:
    """Progress of one command: looks for Ctrl-C always, says something only when it takes long."""

    def __init__(
        self,
        link: Link,
        speak: bool = True,
        deadline: float | None = None,
        where: Where | None = None,
        since: float = 0.0,
    ) -> None:
        """It tells WHERE it is to, else GDB, if it is to SPEAK. SINCE when the command goes on; 0: it begins."""
        self._link = link
        self._say = self._show if where else link.console if speak else None
        self._where = where
        self._fd = -1
        self._deadline = deadline
        self._next = (since or time.monotonic()) + QUIET_SECONDS
        self._said = ""

    def __call__(self, text: str, fraction: float) -> None:
        self._link.pump()
        now = time.monotonic()
        if self._link.take_interrupt() or (self._deadline is not None and now > self._deadline):
            raise Interrupted("interrupted")
        if self._say and now >= self._next:
            self._next = now + EVERY_SECONDS
            line = f"gdbrr: {text} {fraction:.0%}\n"
            if line != self._said:
                self._say(line)
            self._said = line

    def _show(self, line: str) -> None:
        """Where nothing can be taken now, as behind Ctrl-S, that is not waited for."""
        assert self._where is not None
        with contextlib.suppress(OSError):
            if self._fd < 0:
                self._fd = os.open(self._where.path, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.write(self._fd, self._where.shown(line.rstrip("\n"), self._said.rstrip("\n")).encode())

    def close(self) -> None:
        """The command goes on, or is at its end: what it prints begins on an empty line."""
        if self._fd >= 0:
            assert self._where is not None
            with contextlib.suppress(OSError):
                os.write(self._fd, self._where.cleared(self._said.rstrip("\n")).encode())
            os.close(self._fd)
            self._fd = -1
