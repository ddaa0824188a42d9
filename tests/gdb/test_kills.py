"""SIGKILL in the middle of a session, to each of those who take part: nothing of it is left behind."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import ROOT, programs
from harness.run import gdbrr
from harness.said import waits_for_ever

from .session import EPOCH_TICKS, session

pytestmark = [pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints"), pytest.mark.limit(300)]

ROUNDS = 10
TOKEN = "GDBRR_TEST_TOKEN"
PATIENCE = 30.0
MOVES = ("rr-goto 30", "reverse-stepi", "stepi", "rr-back", "rr-goto end", "rr-back -w total")
BEGINNINGS = {"replay": ("rr-replay {demo}",), "record": ("break puts_total", "rr-start")}


class Scene:
    """A demo, a token in the environment of everything that a session starts, and the place of its temporary files."""

    def __init__(self, place: Path) -> None:
        self.token = uuid.uuid4().hex
        self.private = Path(tempfile.mkdtemp(prefix="kills-"))  # short: a socket's path has at most 107 bytes
        self.env = {TOKEN: self.token, "TMPDIR": str(self.private), "XDG_RUNTIME_DIR": str(self.private)}
        self.program = programs.build("spine")
        self.demo = place / "x.demo"
        # A replay's processes have the recorded environment.
        gdbrr("record", "-o", self.demo, "--", self.program, env=self.env).expect(0)

    def start(self, kind: str) -> subprocess.Popen[str]:
        """GDB in a session of KIND, which goes on moving about in time until it is told to stop."""
        words = ["gdb", "-q", "-nx"]
        for command in (
            *("set pagination off", "set confirm off", "set width 0", f"source {ROOT / 'gdbinit.py'}"),
            *(f"set gdbrr epoch-ticks {EPOCH_TICKS}", f"file {self.program}"),
        ):
            words += ["-ex", command]
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **self.env},
            text=True,
            errors="replace",
        )
        assert process.stdin
        begin = "\n".join(BEGINNINGS[kind]).format(demo=self.demo)
        live = "rr-live\n" if kind == "record" else ""
        moves = "\n".join(MOVES) + "\n" + live
        process.stdin.write(f"{begin}\necho READY\\n\n{moves * 3}")
        process.stdin.flush()
        return process

    def processes(self, *names: str) -> list[int]:
        """Those of the session; with NAMES only those whose command line has one of them as a word."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if self.token.encode() not in (entry / "environ").read_bytes():
                    continue
                words = [Path(os.fsdecode(word)).name for word in (entry / "cmdline").read_bytes().split(b"\0")]
            except OSError:
                continue
            if not names or set(names) & set(words):
                found.append(int(entry.name))
        return found

    def left(self) -> list[str]:
        """Processes and files that do not go by themselves."""
        deadline = time.monotonic() + PATIENCE
        while True:
            found = [*map(str, self.processes()), *(str(path) for path in self.private.iterdir())]
            if not found or time.monotonic() > deadline:
                return found
            time.sleep(0.01)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    for pid in scene.processes():
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(scene.private)


def rounds(scene: Scene, victim: str) -> Iterator[str]:
    """Kills VICTIM, each time at another place of the session, and lets GDB come to its end."""
    chance = random.Random(victim)
    for number in range(ROUNDS):
        kind = ("replay", "record")[number % 2]
        with scene.start(kind) as process, contextlib.ExitStack() as last:
            last.callback(process.kill)
            assert process.stdout and process.stdin
            seen = ""
            lines = 0
            wanted = chance.randrange(40)
            for line in process.stdout:
                seen += line
                lines += "READY" in seen
                if lines > wanted:
                    break
            if victim == "gdb":
                process.kill()
            else:
                victims = scene.processes(victim)
                assert victims, seen
                os.kill(chance.choice(victims), signal.SIGKILL)
            process.stdin.close()
            process.stdin = None
            for line in process.stdout:
                if waits_for_ever(line):
                    process.kill()
            process.wait(60)
            assert lines > 0, seen
        yield kind


def test_killing_gdb(scene: Scene) -> None:
    for _ in rounds(scene, "gdb"):
        assert not scene.left()


def test_killing_gdbserver(scene: Scene) -> None:
    for _ in rounds(scene, "gdbserver"):
        assert not scene.left()


def test_killing_the_server(scene: Scene) -> None:
    for kind in rounds(scene, "serve"):
        if kind == "record":
            # The log of a recording that nobody can end any more; it would be all that is left of the program's run.
            for path in scene.private.glob("gdbrr-live-*"):
                shutil.rmtree(path)
        assert not scene.left()


def test_killing_the_process_that_is_looked_at(scene: Scene) -> None:
    """What is asked of it next is asked of another one at the same place."""
    leaf = "re.search(r'leaf: +(\\d+)', gdb.execute('info gdbrr', False, True))[1]"
    kill = f"python import os, re; os.kill(int({leaf}), 9)"
    look = ("rr-when", "print total")
    out = session(
        *(scene.program, f"rr-replay {scene.demo}", "rr-goto 50%", *look, kill, "maintenance flush dcache", *look),
        *("rr-back -w total", "print total", kill, "rr-back -w total", *look),
    )
    whens = re.findall(r"^tick .*", out, re.MULTILINE)[1:]  # behind what rr-goto says
    assert whens[0] == whens[1], out
    values = [int(value) for value in re.findall(r"^\$\d+ = (\d+)$", out, re.MULTILINE)]
    changes = [tuple(map(int, pair)) for pair in re.findall(r"^total: (\d+) -> (\d+) ", out, re.MULTILINE)]
    assert values[0] == values[1] == changes[0][1], out
    assert values[2] == changes[0][0] == changes[1][1] and values[3] == changes[1][0], out
    assert not scene.left()
