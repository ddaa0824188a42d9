"""`gdbrr serve` as its help shows it: a GDB without gdbinit.py, which knows remote targets only.

Runs in: pytest. May call: gdb, gdbrr record, gdbrr serve.
Owns: nothing.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from harness import ROOT, programs
from harness.run import gdbrr, run

pytestmark = pytest.mark.needs("gdb", "gdbserver")

SERVE = (sys.executable, "-m", "gdbrr", "serve")
BACK = ("watch turns", "reverse-continue", "print turns", "reverse-continue", "print turns")


@pytest.fixture
def program() -> Path:
    return programs.build("spine")


@pytest.fixture
def demo(program: Path, tmp_path: Path) -> Path:
    path = tmp_path / "x.demo"
    gdbrr("record", "-o", path, program).expect(0)
    return path


def plain_gdb(program: Path, *commands: str) -> str:
    words: list[str | Path] = ["gdb", "-nx", "-batch"]
    for command in ("set pagination off", "set confirm off", *commands):
        words += ["-ex", command]
    return run(*words, program, limit=100, env={"PYTHONPATH": str(ROOT)}).expect(0).out


def went_back(said: str) -> bool:
    return "New value = 39" in said and said.index("$1 = 39") < said.index("$2 = 38")


def test_over_a_socket(program: Path, demo: Path, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with subprocess.Popen([*SERVE, "--socket", path, demo], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=-1) as server:
        assert server.stdout
        assert server.stdout.readline() == f"ready {path}\n".encode()
        assert went_back(plain_gdb(program, f"target extended-remote {path}", *BACK))
        assert server.wait(30) == 0  # it ends with the one GDB it served
    assert not path.exists()


def test_over_a_pipe(program: Path, demo: Path) -> None:
    said = plain_gdb(program, f"target remote | {shlex.join([*SERVE, '--stdio', str(demo)])}", *BACK)
    assert went_back(said)


def test_a_program_is_recorded_for_it(program: Path) -> None:
    pipe = shlex.join([*SERVE, "--stdio", "--record", "--", str(program)])
    said = plain_gdb(program, f"target remote | {pipe}", "break puts_total", "continue", *BACK)
    assert went_back(said)


def test_it_writes_no_demo(tmp_path: Path) -> None:
    assert "--output" not in gdbrr("serve", "--help").expect(0).out
    assert "serve writes no demo by itself. Leave out -o" in gdbrr("serve", "-o", tmp_path / "x", "y.demo").err
