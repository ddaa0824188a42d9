"""The terminal of a program under rr-start is GDB's, as under `run`: what is printed, and what is typed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from harness import ROOT, programs
from harness.run import run
from harness.terminal import Terminal

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")


def gdb(program: Path, *commands: str) -> Terminal:
    words = ["gdb", "-nx", "-q"]
    for command in (
        *("set pagination off", "set confirm off", "set width 0", "set debuginfod enabled off"),
        *("set style enabled off", f"source {ROOT / 'gdbinit.py'}", f"file {program}", *commands),
    ):
        words += ["-ex", command]
    return Terminal(*words, size=(40, 120), limit=60)


def test_what_is_typed_comes_to_the_program_and_the_rest_to_gdb() -> None:
    with gdb(programs.build("typed_to"), "break compute", "rr-start") as screen:
        screen.wait_for("a terminal: 1\r\nfirst? ")
        screen.type("hello\n")
        screen.wait_for("Breakpoint 1, compute ()")
        screen.type("up\n")
        screen.wait_for("#1  ")
        screen.type("print first\n")
        screen.wait_for('$1 = "hello\\n"')
        screen.type("continue\n")
        screen.wait_for("second? ")
        screen.type("world\n")
        screen.wait_for("got hello")
        screen.wait_for("and world")
        screen.type("\x04")
        screen.wait_for("at the end")
        screen.wait_for("exited normally")
        screen.type("rr-back -b compute\n")
        screen.wait_for("Program stopped.")
        screen.type("print sum\n")
        screen.wait_for("$2 = 0")
        screen.type("quit\n")
        assert screen.wait() == 0


def test_a_breakpoints_commands_go_on_by_themselves() -> None:
    """With `continue` as their last: GDB runs them behind the command that led there, and that one comes back."""
    with gdb(programs.build("past_values"), "break fibonacci") as screen:
        for line in ("commands", "silent", "print n", "continue", "end", "rr-start"):
            screen.type(line + "\n")
        screen.wait_for("The way is back.", "rr-start: ")
        screen.type("quit\n")
        assert screen.wait() == 0
    said = screen.seen.decode()
    assert "rr-start: " not in said and "$2 = " in said and "exited normally" in said, said


def test_a_line_for_which_nobody_waits_is_gdbs_next_command(tmp_path: Path) -> None:
    """The program is stopped in its computation for as long as it takes to type; the line is there when it goes on."""
    with gdb(programs.build("typed_to"), "break compute", "rr-start") as screen:
        screen.wait_for("first? ")
        screen.type("hello\nprint 6 * 7\n")
        screen.wait_for("Breakpoint 1, compute ()")
        screen.wait_for("$1 = 42")
        screen.type("kill\nquit\n")
        assert screen.wait() == 0


@pytest.mark.parametrize("given", [b"one\ntwo\x03", b""])
@pytest.mark.parametrize("through", ["exec", "cat | ", "exec <given"])
def test_a_script_shares_its_input(tmp_path: Path, given: bytes, through: str) -> None:
    """As under `run`: also where there is nothing to be read, which the program would wait for without end."""
    commands = (f"source {ROOT / 'gdbinit.py'}", f"file {programs.build('typed_to')}", "rr-start", "rr-when")
    words = ["gdb", "-nx", "-batch", *(word for command in commands for word in ("-ex", command))]
    (tmp_path / "given").write_bytes(given)
    shell = ["sh", "-c", f'exec 2>&1; {through} "$@"', "sh"]
    out = run(*shell, *words, cwd=tmp_path, stdin=given).out
    assert "a terminal: 0" in out and "exited " + ("normally" if given else "with code 01") in out, out
    assert ("got one\n and two\x03at the end" in out) == bool(given), out
    assert "(100%)" in out, out


def test_of_a_front_end_nothing_is_read(tmp_path: Path) -> None:
    """What a front end writes are its own commands, whatever the program waits for."""
    program = programs.build("typed_to")
    words = ["gdb", "-nx", "-q", "-i=mi", "-ex", f"source {ROOT / 'gdbinit.py'}", "-ex", f"file {program}"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ}) as front:
        assert front.stdin is not None and front.stdout is not None
        front.stdin.write('1-interpreter-exec console "break compute"\n')
        front.stdin.write("2-gdb-set mi-async off\n3-data-evaluate-expression 6*7\n4-gdb-exit\n")
        front.stdin.flush()
        said = front.stdout.read()
    assert '3^done,value="42"' in said and "4^exit" in said, said
