"""The server as GDB's side sees it: starting `gdbrr serve`, and asking it by qGdbrr packets.

Runs in: GDB's Python, and without GDB in tests. May call: the standard library and gdbrr.errors; never gdb, no
threads: the packets themselves are sent by a function handed in.
Owns: the server's process, its lifeline (the pipe at its standard input: closing it ends the server) and the name of
the private directory its socket is born in.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from gdbrr.errors import GdbrrError

PACKAGE = Path(__file__).resolve().parent.parent

# The server is started by path, not by name: neither the working directory of the program that is debugged nor
# its PYTHON* variables (-I) may decide which Python code runs. Behind the interpreter's own directories when
# installed, because the directory of the package is then one that holds others as well.
_BOOT = """\
import runpy, sys
place, root = sys.argv[1:3]
del sys.argv[1:3]
sys.path.insert(0, root) if place == "checkout" else sys.path.append(root)
runpy.run_module("gdbrr", run_name="__main__", alter_sys=True)
"""

_POLL = 0.2
_GRACE = 5.0


def is_checkout(root: Path) -> bool:
    return (root / "pyproject.toml").is_file() and (root / "preload").is_dir()


def find_python(setting: str = "", package: Path = PACKAGE) -> str:
    """The interpreter of the project's environment, which need not be the one inside GDB."""
    if setting:
        found = shutil.which(os.path.expanduser(setting))
        if not found:
            raise GdbrrError(f"there is no interpreter {setting}", hint="try: set gdbrr python PATH")
        return found
    root = package.parent
    if is_checkout(root):
        python = root / ".venv" / "bin" / "python"
        if not os.access(python, os.X_OK):
            raise GdbrrError("gdbrr is not built", hint=f"try: make -C {root} build")
        return str(python)
    # PREFIX/lib/pythonX.Y/site-packages/gdbrr
    version = root.parent.name if root.parent.name.startswith("python") else "python3"
    prefix = root.parent.parent.parent
    candidates = [str(prefix / "bin" / version), version]
    if (prefix / "pyvenv.cfg").is_file():
        candidates.insert(1, str(prefix / "bin" / "python3"))
    for each in candidates:
        found = shutil.which(each)
        if found:
            return found
    raise GdbrrError(f"no {version} was found to run the server", hint="try: set gdbrr python PATH")


def command_line(python: str, words: Sequence[str], package: Path = PACKAGE) -> list[str]:
    """How to run `gdbrr WORDS` under the interpreter PYTHON."""
    root = package.parent
    place = "checkout" if is_checkout(root) else "installed"
    return [python, "-I", "-c", _BOOT, place, str(root), *words]


def socket_directory() -> Path:
    """A directory that does not exist yet. The server makes it, for this user only, and removes what it made.

    So nothing is left when GDB dies while it connects.
    """
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    if not (os.path.isabs(base) and os.access(base, os.W_OK | os.X_OK)):
        base = tempfile.gettempdir()
    return Path(base) / f"gdbrr-{secrets.token_hex(8)}"


def brings_files(demo: str) -> bool:
    """Whether DEMO was packed: then the block behind the manifest is a piece of a file (docs/demo-format.md)."""
    with open(demo, "rb") as file:
        at = 16
        for _ in range(2):
            file.seek(at)
            header = file.read(56).ljust(56, b"\0")
            at += 56 + int.from_bytes(header[20:24], "little")
    return header[:5] == b"GBLK\x80"


class Server:
    """One `gdbrr serve`, from its start to its end."""

    def __init__(
        self,
        python: str,
        words: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        folder: str | None = None,
        shares_input: bool = False,
        package: Path = PACKAGE,
    ) -> None:
        """SHARES_INPUT: the program that it records reads what this process would."""
        self.directory = socket_directory()
        self.socket = str(self.directory / "gdb")
        self._stderr: IO[bytes] | None = None
        self._shown = 0
        self._process: subprocess.Popen[bytes] | None = None
        given: list[int] = []
        try:
            if shares_input:
                given.append(os.dup(0))
            options = ["--socket", self.socket, *(f"--input={fd}" for fd in given)]
            # An unnamed file, not a pipe: nobody would read a pipe while GDB waits for its user.
            self._stderr = tempfile.TemporaryFile()
            self._process = subprocess.Popen(
                command_line(python, [words[0], *options, *words[1:]], package),
                stdin=subprocess.PIPE,
                pass_fds=given,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                cwd=folder,
                env=None if env is None else dict(env),
                start_new_session=True,  # Ctrl-C in the terminal is for GDB, which tells the server
            )
        except OSError as error:
            self.close()
            raise GdbrrError(f"the server does not start: {error}", hint="try: set gdbrr python PATH") from error
        except BaseException:
            self.close()
            raise
        finally:
            for fd in given:
                os.close(fd)

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    def wait_ready(self) -> None:
        """Until the server listens. Takes as long as it takes; Ctrl-C and the server's end are noticed."""
        process = self._process
        assert process is not None and process.stdout is not None
        line = b""
        while not line.endswith(b"\n"):
            readable, _, _ = select.select([process.stdout], [], [], _POLL)
            if readable:
                more = os.read(process.stdout.fileno(), 4096)
                if not more:
                    raise self.failure()
                line += more
        if not line.startswith(b"ready "):
            raise GdbrrError(f"the server said {line[:80]!r} instead of being ready", hint="try: make build")

    def ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def failure(self, silent: GdbrrError | None = None) -> GdbrrError:
        """Why the server ended, or why it is ended now, in its own words where it left some; else SILENT."""
        assert self._stderr is not None
        if self._process is not None:
            self._end(self._process)
        self._stderr.seek(0)
        said = [line for line in self._stderr.read().decode(errors="replace").splitlines() if line.strip()]
        if not said:
            return silent or GdbrrError("the server ended without a word", hint="try: gdbrr doctor")
        # "gdbrr serve: MESSAGE. HINT", which may go on over several lines; the command that failed is named by whoever
        # prints this. Anything else is a traceback, and its last line says most.
        for prefix in ("gdbrr serve: ", "gdbrr: "):
            for number, line in enumerate(said):
                if line.startswith(prefix):
                    return GdbrrError("\n".join([line[len(prefix) :], *said[number + 1 :]]))
        return GdbrrError(said[-1])

    def complaints(self) -> str:
        """What it has written to its standard error since this was last asked."""
        if self._stderr is None:
            return ""
        # Not by seeking: where one reads is where the server, which has the same open file, writes next.
        new = b""
        while more := os.pread(self._stderr.fileno(), 1 << 16, self._shown):
            new += more
            self._shown += len(more)
        return new.decode(errors="replace")

    def forget_directory(self) -> None:
        """The socket is needed until GDB is connected; after that nothing in the file system is."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def let_go(self) -> None:
        """Cut the lifeline without waiting for the end."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def close(self) -> None:
        """End it and wait until it has ended."""
        self.forget_directory()
        if self._process is not None:
            self._end(self._process)
            self._process = None
        if self._stderr is not None:
            self._stderr.close()
            self._stderr = None

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            print(f"gdbrr: the server (process {process.pid}) had to be killed", file=sys.stderr)
            process.send_signal(signal.SIGKILL)
            process.wait()


class Link:
    """Questions to the server and its answers."""

    def __init__(self, send: Callable[[str], str]) -> None:
        self._send = send

    def request(self, verb: str, **fields: Any) -> Any:
        """What the server answers to VERB; its errors are raised with their way out."""
        question = json.dumps({"verb": verb, **fields}, separators=(",", ":"))
        answer = self._send("qGdbrr:" + question.encode().hex())
        if not answer:
            raise GdbrrError("whatever GDB is connected to is not a gdbrr server", hint="try: rr-replay FILE")
        try:
            reply = json.loads(bytes.fromhex(answer))
        except ValueError:
            raise GdbrrError(f"the server answered {answer[:40]!r}", hint="try: rr-replay FILE") from None
        if not isinstance(reply, dict):
            raise GdbrrError(f"the server answered {reply!r}", hint="try: rr-replay FILE")
        if "error" in reply:
            raise GdbrrError(str(reply["error"]), hint=str(reply.get("hint", "")))
        return reply.get("ok")
