"""Runs a command under a time limit and leaves nothing behind.

Runs in: pytest. May call: anything a test asks for, in a session of its own.
Owns: that session: whatever is still alive in it when the command ended or the limit passed is killed.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import ROOT

LIMIT = 60.0
END_LIMIT = 30.0


class TooSlow(Exception):
    """The limit passed; the text says what the command had printed."""


@dataclass(frozen=True)
class Result:
    command: Sequence[str]
    status: int
    """As a shell has it: 128+N for a signal."""
    out: str
    err: str
    seconds: float

    def expect(self, status: int = 0) -> Result:
        """This result, or an AssertionError that shows all of it."""
        assert self.status == status, f"status {self.status}, not {status}\n{self.describe()}"
        return self

    def describe(self) -> str:
        return f"$ {shlex.join(self.command)}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


def run(
    *command: str | Path,
    limit: float = LIMIT,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
) -> Result:
    words = [str(word) for word in command]
    start = time.monotonic()
    with subprocess.Popen(  # closes its pipes also where a test's limit breaks this off
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env={**surroundings(), **(env or {})},
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(stdin, timeout=limit)
        except subprocess.TimeoutExpired:
            end_session(process.pid)
            out, err = process.communicate()
            seen = Result(words, -1, out.decode(errors="replace"), err.decode(errors="replace"), limit)
            raise TooSlow(f"no end within {limit:g} s\n{seen.describe()}") from None
        finally:
            end_session(process.pid)
    status = process.returncode if process.returncode >= 0 else 128 - process.returncode
    return Result(words, status, out.decode(errors="replace"), err.decode(errors="replace"), time.monotonic() - start)


def surroundings() -> dict[str, str]:
    """This process's environment, without what `make test` leaves there for a make below it."""
    return {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}


def end_session(leader: int) -> None:
    """Kill every process of the session, also those that made a process group of their own (gdb's inferiors)."""
    deadline = time.monotonic() + END_LIMIT
    while members := session_members(leader):
        assert time.monotonic() < deadline, f"processes {members} survived SIGKILL"
        for pid in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.001)


def session_members(leader: int) -> list[int]:
    members = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The command's name may hold spaces and parentheses; the fields begin behind the last one.
            fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            members.append(int(entry.name))
    return members


def gdbrr(
    *words: str | Path, limit: float = LIMIT, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> Result:
    """The checkout's own command, under the Python that runs the tests."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return run(sys.executable, "-m", "gdbrr", *words, limit=limit, cwd=cwd, env={"PYTHONPATH": path, **(env or {})})
