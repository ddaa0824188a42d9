"""Where one round happens: a directory, a token in the environment of all it starts, and what is left of it.

Runs in: python -m faults, pytest. May call: harness.
Owns: a directory below /tmp for each round, gone behind it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from faults.company import Company
from harness import ROOT
from harness.run import surroundings

TOKEN = "GDBRR_TEST_TOKEN"
PATIENCE = 60.0
GDBRR = (sys.executable, "-m", "gdbrr")
SHARED = Path("/dev/shm")


class Lost(Exception):
    """Something was lost, leaked, or not said: what a fault must not do."""


@dataclass
class Ended:
    status: int
    out: bytes
    err: str

    def said(self) -> str:
        """The sentences of gdbrr's own, of which a person would go on."""
        lines = [line for line in self.err.splitlines() if line.startswith("gdbrr")]
        return " | ".join(lines)


@dataclass
class Place:
    private: Path
    """TMPDIR and the like: short, because a socket's path has at most 107 bytes. Nothing may stay in it."""
    kept: Path
    """Demos and outputs."""
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    shared: frozenset[str] = field(default_factory=lambda: names(SHARED))
    number: int = 0
    threads: list[threading.Thread] = field(default_factory=list)
    sessions: set[str] = field(default_factory=set)

    def environment(self) -> dict[str, str]:
        there = str(self.private)
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        return {**surroundings(), TOKEN: self.token, "TMPDIR": there, "XDG_RUNTIME_DIR": there, "PYTHONPATH": path}

    def start(
        self, *words: str | Path, before: Sequence[str | Path] = (), program: str = "", company: Company | None = None
    ) -> Running:
        """WORDS below BEFORE, with its output in files: nobody reads a pipe while a fault is injected. With COMPANY,
        which looks after PROGRAM."""
        self.number += 1
        paths = self.kept / f"{self.number}.out", self.kept / f"{self.number}.err"
        with paths[0].open("wb") as out, paths[1].open("wb") as err:
            stdin, stdout = company.streams(out) if company else (subprocess.DEVNULL, out.fileno())
            process = subprocess.Popen(
                [str(word) for word in (*before, *words)],
                cwd=self.kept, env=self.environment(), stdin=stdin, stdout=stdout, stderr=err,
                start_new_session=True,
            )  # fmt: skip
        self.sessions.add(str(process.pid))
        running = Running(self, process, *paths, program)
        if company:
            company.started()
            running.company = threading.Thread(target=company.attend, args=(running,))
            running.company.start()
            self.threads.append(running.company)
        return running

    def run(self, *words: str | Path, before: Sequence[str | Path] = (), patience: float = PATIENCE) -> Ended:
        return self.start(*words, before=before).wait(patience)

    def processes(self) -> list[int]:
        """All that were started from here and are alive."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if any(self._is_of_here(task) for task in (entry / "task").iterdir()):
                        found.append(int(entry.name))
        return found

    def _is_of_here(self, task: Path) -> bool:
        """The first task of a process may be gone, and with it what it says of itself, while others go on. A server
        may write its title over its environment, but stays in its session."""
        with contextlib.suppress(OSError):
            state, _, _, session = (task / "stat").read_text(errors="replace").rpartition(")")[2].split()[:4]
            if state in ("Z", "X"):
                return False
            return session in self.sessions or self.token.encode() in (task / "environ").read_bytes()
        return False

    def program_of(self, program: str, started: Running) -> int | None:
        """The recorded program, as soon as there is one; None when the recording has ended before."""
        while started.process.poll() is None:
            for pid in children(started.process.pid):
                if running(pid, Path(program)):
                    return pid
            time.sleep(0.0002)
        return None

    def left(self) -> list[str]:
        """Processes, files and shared memory that do not go by themselves."""
        deadline = time.monotonic() + PATIENCE
        while True:
            found = [f"process {pid}: {command(pid)[:200]}" for pid in self.processes()]
            found += [str(path) for path in sorted(self.private.rglob("*"))]
            found += [
                str(SHARED / name) for name in names(SHARED) - self.shared if "gdbrr" in name and "test" not in name
            ]
            if not found or time.monotonic() > deadline:
                return found
            time.sleep(0.02)

    def end(self) -> None:
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for thread in self.threads:
            thread.join()


@dataclass
class Running:
    place: Place
    process: subprocess.Popen[bytes]
    out: Path
    err: Path
    program: str = ""
    company: threading.Thread | None = None

    def programs(self) -> list[int]:
        """The program itself, wherever it runs."""
        return [pid for pid in self.place.processes() if running(pid, Path(self.program))]

    def over(self) -> bool:
        """Nobody is left, nor will anybody come."""
        return self.process.poll() is not None and not self.place.processes()

    def output(self) -> bytes:
        """What appeared on its terminal is there when the last one has left that, be it a program without recorder."""
        while self.company and self.company.is_alive() and not self.programs():
            time.sleep(0.01)
        return self.out.read_bytes()

    def wait(self, patience: float = PATIENCE) -> Ended:
        try:
            status = self.process.wait(patience)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            raise Lost(
                f"no end within {patience:g} s: {self.process.args!r}\n{self.err.read_text(errors='replace')}"
            ) from None
        status = status if status >= 0 else 128 - status
        ended = Ended(status, self.output(), self.err.read_text(errors="replace"))
        if "Traceback (most recent" in ended.err:
            raise Lost(f"a traceback in place of a sentence:\n{ended.err}")
        return ended


def names(folder: Path) -> frozenset[str]:
    with contextlib.suppress(OSError):
        return frozenset(os.listdir(folder))
    return frozenset()


def command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return " ".join(os.fsdecode(word) for word in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"))
    return ""


def children(pid: int) -> list[int]:
    """Quicker than a look at all processes: most programs here take a hundredth of a second."""
    with contextlib.suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def running(pid: int, program: Path) -> bool:
    """Is this the program itself, no longer the launcher?"""
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{pid}/exe") == str(program.resolve())
    return False


@contextlib.contextmanager
def a_place(keep: Path) -> Iterator[Place]:
    """For one round; what it made is kept in KEEP when it ends in an exception."""
    private, kept = Path(tempfile.mkdtemp(prefix="faults-")), Path(tempfile.mkdtemp(prefix="faulted-"))
    place = Place(private, kept)
    try:
        yield place
    except BaseException:
        shutil.rmtree(keep, ignore_errors=True)
        shutil.copytree(kept, keep, ignore_dangling_symlinks=True, symlinks=True)
        raise
    finally:
        place.end()
        for folder in (private, kept):
            shutil.rmtree(folder, ignore_errors=True)
