"""What a replayed program says, on its way to where the user wants it.

Runs in: commands outside GDB. May call: abi, the user's standard output and error.
Owns: the standard descriptors of a replay that is shown: nothing to read, and one pipe of ours in place of the user's
own output and error. So a replay has nothing of the user's open, cannot change what was there before, and cannot read a
terminal or type into it. See struct gr_said in preload/abi.h.
"""

from __future__ import annotations

import codecs
import errno
import fcntl
import os
import select
import stat

from gdbrr.abi import ffi, lib
from gdbrr.errors import harmless
from gdbrr.quick.rows import TYPE_CHECKING
from gdbrr.quick.scopes import suppress

if TYPE_CHECKING:
    from types import TracebackType

_HEAD: int = ffi.sizeof("struct gr_said")
_MESSAGE = _HEAD + lib.GR_SAID_MOST
_AT_ONCE = 1 << 20
"""Bytes that are put together before they are written."""
_ROOM = 1 << 20
_LOWEST = 3


def above_standard(fd: int) -> int:
    """FD, or a copy of it, that is none of the standard descriptors: somebody may have started us without them."""
    if fd >= _LOWEST:
        return fd
    copy = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _LOWEST)
    os.close(fd)
    return copy


class _Tamer:
    """What another's program says, without what a terminal obeys but for colours: a terminal can be made to answer,
    and its answers are what a shell takes for typed."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._rest = ""
        import re  # other people's demos on terminals only

        self._colour = re.compile(r"(\x1b\[[0-9;:]{0,32}m)")
        self._cut_off = re.compile(r"\x1b(\[[0-9;:]{0,32})?\Z")

    def __call__(self, data: bytes) -> bytes:
        text = self._rest + self._decoder.decode(data)
        cut = self._cut_off.search(text)  # a colour of which the end is still to come
        text, self._rest = (text[: cut.start()], text[cut.start() :]) if cut else (text, "")
        pieces = self._colour.split(text)
        tamed = (piece if at % 2 else harmless(piece, "\n\t\r\b") for at, piece in enumerate(pieces))
        return "".join(tamed).encode("utf-8", "backslashreplace")


class _Output:
    """Standard output or error of the user."""

    def __init__(self, fd: int, tame: bool) -> None:
        self.fd = fd
        self._tamer = _Tamer() if tame and os.isatty(fd) else None
        self.floor = self.shift = 0
        """Where a replay may write from; from a place in the recording's file to that in ours."""
        try:
            placed = stat.S_ISREG(os.fstat(fd).st_mode) and not fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND
            self.closed = False
        except OSError:
            placed, self.closed = False, True
        self.placed = placed
        if placed:  # as if the recording's file had been empty, while nobody says more
            self.floor = self.shift = os.lseek(fd, 0, os.SEEK_CUR)

    def write(self, data: bytes) -> None:
        data = self._tamer(data) if self._tamer else data
        while data and not self.closed:
            try:
                data = data[os.write(self.fd, data) :]
            except BlockingIOError:
                select.select([], [self.fd], [])

    def write_at(self, place: int, data: bytes) -> None:
        if not self.placed:
            return self.write(data)
        at = max(self.floor, place + self.shift)
        while data:
            done = os.pwrite(self.fd, data, at)
            data, at = data[done:], at + done
        return None

    def move(self, place: int, whence: int, result: int) -> None:
        if not self.placed or whence not in (os.SEEK_SET, os.SEEK_CUR, os.SEEK_END):
            return
        at = {os.SEEK_SET: self.shift, os.SEEK_CUR: os.lseek(self.fd, 0, os.SEEK_CUR)}.get(whence)
        at = place + (os.fstat(self.fd).st_size if at is None else at)
        at = os.lseek(self.fd, max(self.floor, at), os.SEEK_SET)
        if whence == os.SEEK_CUR:
            self.shift = at - result


class Shown:
    """The program's output while a replay runs. Without WANTED it goes nowhere; TAME where it is somebody else's."""

    def __init__(self, wanted: bool = True, tame: bool = False) -> None:
        self._nothing = above_standard(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC))
        self._theirs, self._ours = -1, -1
        self.error = 0
        """The errno for which the output was given up."""
        self._outputs = {1: _Output(1, tame), 2: _Output(2, tame)} if wanted else {}
        if wanted:
            # A pipe with this flag keeps what one write brings apart from what the next one does.
            ours, theirs = os.pipe2(os.O_CLOEXEC | os.O_DIRECT)
            self._ours, self._theirs = above_standard(ours), above_standard(theirs)
            os.set_blocking(self._ours, False)
            with suppress(OSError):  # up to a limit of the user's
                fcntl.fcntl(self._ours, fcntl.F_SETPIPE_SZ, _ROOM)
        self._poll = select.poll()
        self._process = -1

    @property
    def stdio(self) -> tuple[int, int, int]:
        """What the program is started with."""
        out = self._theirs if self._outputs else self._nothing
        return self._nothing, out, out

    def follow(self, pid: int) -> None:
        """The program has been started as PID."""
        self._close("_theirs")
        if self._ours >= 0:
            self._poll.register(self._ours, select.POLLIN)
        self._process = above_standard(os.pidfd_open(pid))
        self._poll.register(self._process, select.POLLIN)

    def wait(self, seconds: float) -> None:
        """Show what there is; wait for more, or for the program's end, for SECONDS at most."""
        self._poll.poll(seconds * 1000)
        self.show()

    def show(self) -> None:
        """Whatever has been said so far."""
        if self._ours < 0:
            return
        try:
            self._take()
        except OSError as error:
            self.error = error.errno or errno.EIO
            self._end()

    def _take(self) -> None:
        to, size = self._outputs[1], 0
        pieces: list[bytes] = []

        def out() -> None:
            nonlocal size
            if pieces:
                to.write(pieces[0] if len(pieces) == 1 else b"".join(pieces))
            pieces.clear()
            size = 0

        head = ffi.new("struct gr_said *")
        while True:
            try:
                message = os.read(self._ours, _MESSAGE)
            except BlockingIOError:
                return out()
            if not message:
                out()
                return self._end()
            ffi.memmove(head, message[:_HEAD].ljust(_HEAD, b"\0"), _HEAD)
            if head.magic != lib.GR_SAID_MAGIC or head.output not in self._outputs:
                kind, which, data = lib.GR_SAID_NEXT, 2, message  # the loader's, which has an error to tell
            else:
                kind, which, data = head.kind, head.output, message[_HEAD:]
            if which != to.fd or kind != lib.GR_SAID_NEXT or size > _AT_ONCE:
                out()
                to = self._outputs[which]
            if kind == lib.GR_SAID_NEXT:
                pieces.append(data)
                size += len(data)
            elif kind == lib.GR_SAID_PLACE:
                to.write_at(head.place, data)
            elif kind == lib.GR_SAID_MOVE:
                to.move(head.place, head.whence, head.result)

    def _end(self) -> None:
        """Nothing more is shown; the program is told by its next write."""
        if self._process >= 0:
            self._poll.unregister(self._ours)
        self._close("_ours")

    def _close(self, name: str) -> None:
        fd = getattr(self, name)
        setattr(self, name, -1)
        if fd >= 0:
            with suppress(OSError):
                os.close(fd)

    def __enter__(self) -> Shown:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in ("_nothing", "_theirs", "_ours", "_process"):
            self._close(name)
