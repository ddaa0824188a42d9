"""How far a command is, also by moves that GDB does not show, and what Ctrl-C makes of it: where a person waits."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import ROOT, programs
from harness.run import gdbrr, run
from harness.screen import Screen
from harness.terminal import Terminal

LIMIT = 300
"""Searches that take seconds where nothing else runs."""
pytestmark = [pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints"), pytest.mark.limit(LIMIT + 60)]

CLEAR = b"\r\x1b[K"
FIRST = b"1 (was 0)  tick "


@pytest.fixture(scope="module")
def program() -> Path:
    return programs.build("slow_segment", ["-O1"])


@pytest.fixture(scope="module")
def demo(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """No search in it is over before one is told how far it is."""
    path = tmp_path_factory.mktemp("slow") / "x.demo"
    gdbrr("record", "-o", path, "--", program, "2").expect(0)
    return path


@contextlib.contextmanager
def gdb(program: Path, demo: Path, *first: str) -> Iterator[Terminal]:
    words = ["gdb", "-nx", "-q"]
    for command in (
        *first,
        *("set pagination off", "set confirm off", "set width 0", "set debuginfod enabled off"),
        *("set style enabled off", f"source {ROOT / 'gdbinit.py'}", f"file {program}", f"rr-replay {demo}"),
    ):
        words += ["-ex", command]
    with Terminal(*words, size=(40, 120), limit=LIMIT) as terminal:
        terminal.wait_for("(100%)")
        yield terminal
        terminal.type("quit\n")
        assert terminal.wait() == 0


@pytest.fixture
def typed(program: Path, demo: Path) -> Iterator[Terminal]:
    with gdb(program, demo) as terminal:
        yield terminal


def after(terminal: Terminal, command: str, end: str, interrupt: bool = False) -> bytes:
    """What COMMAND shows up to END; interrupted when it tells how far it is."""
    terminal.seen = b""
    terminal.type(f"{command}\n")
    if interrupt:
        terminal.wait_for("gdbrr: ")
        terminal.type("\x03")
    terminal.wait_for(end)
    return terminal.seen


def test_a_command_tells_how_far_it_is_and_leaves_nothing_of_that(typed: Terminal) -> None:
    for command, end in (
        ("rr-back -b never if number == 1", "not executed before here"),
        ("rr-back 2 -w steps[1]", "does not change that often before here"),
        ("rr-history steps[0]", FIRST.decode()),
        ("rr-back -w steps[0]", "steps[0]: 0 -> 1"),
    ):
        seen = after(typed, command, end)
        told = seen.partition(CLEAR)[2].split(CLEAR)
        assert any(each.startswith(b"gdbrr: ") and each.endswith(b"%") for each in told), seen
        # Whatever was told is gone before anything else is written.
        assert all(each.startswith(b"gdbrr: ") and b"\n" not in each for each in told[:-1] if each), seen
        assert b"%\r\n" not in seen, seen
        after(typed, "rr-when", ", epoch")


def test_ctrl_c_ends_a_quiet_move(typed: Terminal) -> None:
    for command in ("rr-history steps[0]", "rr-history steps[0] + 0", "rr-back -b never if number == 1"):
        seen = after(typed, command, f"{command.split()[0]}: interrupted", interrupt=True)
        assert FIRST not in seen and b"does not change" not in seen and b"not executed" not in seen, seen
        assert b"(100%)" in after(typed, "rr-when", ", epoch")
    # The same can be asked again, from where one stands.
    assert FIRST in after(typed, "rr-history steps[0]", FIRST.decode())


def test_ctrl_c_ends_the_way_out_of_a_recording(program: Path) -> None:
    """It is the first of several moves, and none follows it."""
    words = ["gdb", "-nx", "-q"]
    for command in (
        *("set pagination off", "set confirm off", "set width 0", "set debuginfod enabled off"),
        *("set style enabled off", f"source {ROOT / 'gdbinit.py'}", "break meet if number == 2"),
    ):
        words += ["-ex", command]
    with Terminal(*words, program, size=(40, 120), limit=LIMIT) as terminal:
        after(terminal, "rr-start --set follow=off 2", "meet (number=")
        for command in ("rr-back -w place", "rr-history place"):
            seen = after(terminal, command, f"{command.split()[0]}: interrupted", interrupt=True)
            assert b"place: " not in seen and b"(was " not in seen, seen
            assert b"recording: " in after(terminal, "rr-when", "so far")
        terminal.type("kill\nquit\n")
        assert terminal.wait() == 0


def test_beside_a_front_end_who_types_is_told(program: Path, demo: Path) -> None:
    front, theirs = os.openpty()
    with gdb(program, demo, f"new-ui mi3 {os.ttyname(theirs)}") as terminal:
        seen = after(terminal, "rr-history steps[0]", FIRST.decode())
        assert CLEAR + b"gdbrr: searching " in seen, seen
    os.close(front)
    os.close(theirs)


def test_where_nobody_looks_nothing_is_told(program: Path, demo: Path) -> None:
    words = [f"source {ROOT / 'gdbinit.py'}", f"rr-replay {demo}", "echo HERE\\n", "rr-back -b never if number == 1"]
    options = [each for word in (*words, "rr-history steps[0]") for each in ("-ex", word)]
    out = run("sh", "-c", 'exec "$@" 2>&1', "sh", "gdb", "-nx", "-batch", program, *options, limit=LIMIT).out
    assert "1 (was 0)  tick " in out and "never if number == 1 is not executed before here" in out, out
    assert "gdbrr: " not in out.partition("HERE")[2] and "\x1b" not in out, out


def test_a_front_end_is_told(program: Path, demo: Path) -> None:
    """Each line is a record, and nothing else of GDB's output is touched."""
    said = [f"source {ROOT / 'gdbinit.py'}", f"rr-replay {demo}", "rr-history steps[0]"]
    script = "".join(f'{number}-interpreter-exec console "{line}"\n' for number, line in enumerate(said, 1))
    out = subprocess.run(
        ["gdb", "-nx", "-q", "-i=mi3", "-iex", "set debuginfod enabled off", program],
        input=f"{script}9-gdb-exit\n", capture_output=True, text=True, timeout=LIMIT, check=False,
    ).stdout  # fmt: skip
    quiet = out.partition("(100%)")[2].splitlines()
    assert any(re.fullmatch(r'~"gdbrr: searching \d+%\\n"', line) for line in quiet), out
    assert all(re.fullmatch(r'~"gdbrr: [a-z ]+ \d+%\\n"', line) for line in quiet if "gdbrr: " in line), out
    assert any(FIRST.decode() in line for line in quiet), out


@pytest.mark.needs("tmux")
def test_the_text_interface_shows_it_and_is_left_as_it_was(program: Path, demo: Path) -> None:
    setting = ("set debuginfod enabled off", "set confirm off", "set pagination off", f"source {ROOT / 'gdbinit.py'}")
    words = [word for line in (*setting, f"rr-replay {demo}", "layout src") for word in ("-ex", line)]
    with Screen(["gdb", "-nx", "-q", *words, program], (40, 120), limit=LIMIT) as screen:
        before = screen.wait_for(lambda shown: shown.rstrip().endswith("(gdb)")).splitlines()
        screen.type("rr-history steps[0]")
        # Behind what was typed, and nowhere else.
        row = len("\n".join(before).rstrip().splitlines()) - 1
        told = r"\(gdb\) rr-history steps\[0\]  gdbrr: searching \d+%"
        during = screen.wait_for(lambda shown: re.search(told, shown)).splitlines()
        assert during[:row] == before[:row] and not "".join(during[row + 1 :]).strip(), during
        behind = screen.wait_for(lambda shown: shown.rstrip().endswith("\n(gdb)")).splitlines()
        assert behind[row] == "(gdb) rr-history steps[0]" and FIRST.decode() in behind[row + 1], behind
