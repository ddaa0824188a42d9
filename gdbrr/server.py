"""One debugging session served: a demo or a recording on one side, one GDB on the other.

Runs in: the server. May call: rsp.
Owns: the socket, and the signals that end a server.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from gdbrr.errors import GdbrrError
from gdbrr.rsp.link import Link
from gdbrr.rsp.live import Session
from gdbrr.rsp.proxy import Proxy

_ENDING = (signal.SIGTERM, signal.SIGHUP)
_IGNORED = (signal.SIGINT, signal.SIGQUIT)
"""A terminal sends these to everybody on it; GDB decides what they mean."""

MAX_SOCKET_PATH = 107

Opener = Callable[[], Session]
"""Makes the session; called before GDB can connect, so that what is wrong with a demo is said on standard error."""


class Server:
    """Serves one session to one GDB, then ends."""

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._wake_in, self._wake_out = os.pipe()
        self._lifeline = -1
        self._ending = False

    def serve_socket(self, path: Path, ready: Callable[[], None], lifeline: int = -1) -> None:
        """Listen at PATH, call READY, serve who connects. The end of LIFELINE, a pipe, ends the server."""
        self._lifeline = lifeline
        with self._signals(), _listening(path) as listener:
            session = self._opener()
            proxy: Proxy | None = None
            try:
                ready()
                connection = self._accept(listener)
                if connection is None:
                    return
                with _hung_up(connection):
                    proxy = self._proxy(session, connection.fileno(), connection.fileno())
                    proxy.run()
            finally:
                if proxy is None:
                    _close(session)

    def serve_stdio(self) -> None:
        """For `target remote | gdbrr serve --stdio DEMO`. Whatever is printed by mistake goes to standard error."""
        fd_in, fd_out = os.dup(0), os.dup(1)
        os.dup2(2, 1)
        with self._signals(), open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
            self._proxy(self._opener(), fd_in, fd_out).run()

    def _proxy(self, session: Session, fd_in: int, fd_out: int) -> Proxy:
        wake = [self._wake_in] if self._lifeline < 0 else [self._wake_in, self._lifeline]
        proxy = Proxy(Link(fd_in, fd_out, self._closing, wake), session)
        try:
            proxy.open()
        except BaseException:
            proxy.close()
            raise
        return proxy

    def _accept(self, listener: socket.socket) -> socket.socket | None:
        while not self._closing():
            watched = [listener.fileno(), self._wake_in]
            if self._lifeline >= 0:
                watched.append(self._lifeline)
            ready, _, _ = select.select(watched, [], [])
            if listener.fileno() in ready:
                return listener.accept()[0]
        return None

    def _closing(self) -> bool:
        if not self._ending and self._lifeline >= 0 and select.select([self._lifeline], [], [], 0)[0]:
            self._ending = not os.read(self._lifeline, 4096)
        return self._ending

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGTERM and SIGHUP end the server between two packets, where everything can be taken down in order."""

        def end(number: int, frame: FrameType | None) -> None:
            self._ending = True
            with contextlib.suppress(BlockingIOError):
                os.write(self._wake_out, b"x")

        os.set_blocking(self._wake_out, False)
        before = {number: signal.signal(number, end) for number in _ENDING}
        before |= {number: signal.signal(number, signal.SIG_IGN) for number in _IGNORED}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(self._wake_in)
            os.close(self._wake_out)


def pipe_at(fd: int) -> int:
    """FD if its end can be waited for, as that of a pipe from whoever started the server; otherwise -1."""
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        return -1
    return fd if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) else -1


def private_directory() -> Path:
    """A fresh directory that only this user can enter."""
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    if not (os.path.isabs(base) and os.access(base, os.W_OK | os.X_OK)):
        base = tempfile.gettempdir()
    return Path(tempfile.mkdtemp(prefix="gdbrr-", dir=base))


@contextlib.contextmanager
def _listening(path: Path) -> Iterator[socket.socket]:
    """A socket that only this user can connect to: whoever can, commands a debugger."""
    if len(os.fsencode(path)) > MAX_SOCKET_PATH:
        raise GdbrrError(f"the socket's path is longer than {MAX_SOCKET_PATH} bytes", hint="choose a shorter one")
    created = not path.parent.exists()
    if created:
        path.parent.mkdir(mode=0o700)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        listener.bind(os.fspath(path))
    except OSError as error:
        listener.close()
        if created:
            path.parent.rmdir()
        raise GdbrrError(
            f"cannot listen at {path}: {error.strerror}", hint="name a path that does not exist yet"
        ) from None
    finally:
        os.umask(mask)
    try:
        listener.listen(1)
        yield listener
    finally:
        listener.close()
        with contextlib.suppress(OSError):
            path.unlink()
        if created:
            with contextlib.suppress(OSError):
                path.parent.rmdir()


@contextlib.contextmanager
def _hung_up(connection: socket.socket) -> Iterator[None]:
    """INVARIANT(nothing-unread): where a socket is closed with something in it that nobody has read, GDB (16.3) says
    "Error detected on fd", and then looks for what comes next without end, and without an eye for Ctrl-C."""
    with connection:
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
                while connection.recv(1 << 16):
                    pass


def _close(session: Session) -> None:
    if session.timeline is not None:
        session.timeline.close()
    if session.live is not None:
        session.live.close()
