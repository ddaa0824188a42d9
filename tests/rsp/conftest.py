"""A program, a server of its fake timeline, and a GDB connected to it; nothing of them outlives a test."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gdbrr.rsp.packet import Framer, Kind, expand, frame
from rsp import fake

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "GDBRR_TEST_TOKEN"

HELPERS = """python
import json
def ask(**body):
    reply = gdb.selected_inferior().connection.send_packet("qGdbrr:" + json.dumps(body).encode().hex())
    print("answer", bytes.fromhex(reply.decode()).decode())
end"""


@dataclass
class Served:
    """One server process and how to reach it."""

    program: Path
    path: Path
    process: subprocess.Popen[str]
    token: str
    errors: Path
    complains: str = ""
    """What its standard error has to hold; otherwise it says nothing."""

    def gdb(self, *commands: str, connect: str | None = None) -> str:
        """What GDB prints while it runs COMMANDS."""
        out = subprocess.run(
            [*gdb_words(self.program, connect or f"target extended-remote {self.path}"), *as_words(commands)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        return out.stdout

    def end(self) -> int:
        """Wait until the server has ended by itself."""
        return self.process.wait(20)

    def survivors(self) -> list[str]:
        """Processes that came from this server and are still there."""
        return survivors(self.token)


def survivors(token: str) -> list[str]:
    """Processes with TOKEN in their environment that do not end by themselves right away."""
    deadline = time.monotonic() + 5
    while (left := with_token(token)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return left


def gdb_words(program: Path, connect: str) -> list[str]:
    settings = ["set debuginfod enabled off", "set sysroot /", "set confirm off", "set pagination off"]
    words = ["gdb", "-nx", "-batch"]
    for setting in settings:
        words += ["-iex", setting]
    return [*words, *as_words([HELPERS, connect]), str(program)]


def as_words(commands: list[str] | tuple[str, ...]) -> list[str]:
    words: list[str] = []
    for command in commands:
        if command.startswith("python\n"):
            command = "python exec(" + repr(command[len("python\n") : -len("\nend")]) + ")"
        words += ["-ex", command]
    return words


def with_token(token: str) -> list[str]:
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                environ = Path("/proc", entry, "environ").read_bytes()
                if token.encode() in environ:
                    found.append(entry + " " + Path("/proc", entry, "comm").read_text(errors="replace").strip())
            except OSError:
                continue
    return found


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake.build(tmp_path_factory.mktemp("program"))


@pytest.fixture(scope="session")
def known(program: Path) -> fake.FakeTimeline:
    """What happened when, for tests to compare with."""
    return fake.FakeTimeline(program)


class Starter:
    def __init__(self, program: Path, directory: Path) -> None:
        self._program = program
        self._directory = directory
        self.all: list[Served] = []

    def environment(self, token: str) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", TOKEN: token}

    def __call__(self, kind: str = "demo", *, slow: float = 0.0, lifeline: bool = False) -> Served:
        token = uuid.uuid4().hex
        # The socket's path has at most 107 bytes, which pytest's directories can exceed.
        path = Path(tempfile.mkdtemp(prefix="rsp-")) / "s" / "gdb"
        errors = self._directory / "server.err"
        with open(errors, "w") as sink:
            process = subprocess.Popen(
                [sys.executable, "-m", "rsp.serve_fake", kind, self._program, path, str(slow)],
                env=self.environment(token),
                stdin=subprocess.PIPE if lifeline else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=sink,
                text=True,
            )
        served = Served(self._program, path, process, token, errors)
        self.all.append(served)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line == f"ready {path}\n", errors.read_text()
        return served


@pytest.fixture
def serve(program: Path, tmp_path: Path) -> Iterator[Starter]:
    starter = Starter(program, tmp_path)
    yield starter
    for served in starter.all:
        if served.process.poll() is None:
            served.process.send_signal(signal.SIGTERM)
        try:
            served.process.wait(20)
            hung = False
        except subprocess.TimeoutExpired:
            # It must not be there for the tests to come, which look for processes that were left behind.
            hung = True
            served.process.kill()
            served.process.wait()
        for pipe in (served.process.stdin, served.process.stdout):
            if pipe is not None:
                pipe.close()
        complaints = served.errors.read_text()
        left = served.survivors()
        if served.path.parent.parent.exists():
            leftovers = [str(path) for path in served.path.parent.parent.rglob("*")]
            for path in (served.path, served.path.parent, served.path.parent.parent):
                if path.exists():
                    path.unlink() if path.is_socket() else path.rmdir()
        assert not hung, "the server did not end on SIGTERM"
        assert re.search(served.complains, complaints) if served.complains else not complaints
        assert not left
        if served.process.returncode >= 0:
            assert not leftovers


@pytest.fixture
def demo(serve: Starter) -> Served:
    return serve("demo")


@pytest.fixture
def live(serve: Starter) -> Served:
    return serve("live")


class Client:
    """The packets themselves, without a GDB."""

    def __init__(self, served: Served) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(30)
        self._socket.connect(str(served.path))
        self._framer = Framer()
        self._replies: list[bytes] = []

    def ask(self, payload: bytes) -> bytes:
        self.send(payload)
        return self.reply()

    def send(self, payload: bytes) -> None:
        self._socket.sendall(frame(payload))

    def send_plain(self, data: bytes) -> None:
        self._socket.sendall(data)

    def interrupt(self) -> None:
        self.send_plain(b"\x03")

    def reply(self) -> bytes:
        while not self._replies:
            data = self._socket.recv(65536)
            if not data:
                raise EOFError
            events = self._framer.feed(data)
            self._replies += [expand(event.payload) for event in events if event.kind is Kind.PACKET]
        return self._replies.pop(0)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def client(demo: Served) -> Iterator[Client]:
    connected = Client(demo)
    connected.ask(b"qSupported:multiprocess+;swbreak+;hwbreak+;xmlRegisters=i386")
    yield connected
    connected.close()
    demo.end()
