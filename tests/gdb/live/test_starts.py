"""What `rr-start` runs: the program that `run` would have run, by the same name.

Runs in: pytest. May call: the fixtures of this folder.
Owns: nothing.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness import programs
from harness.run import gdbrr, run
from harness.said import says_again

from ..session import whole, words

pytestmark = pytest.mark.needs("gdb", "gdbserver")


@pytest.mark.parametrize("name", ["other-name", "a name with spaces, which is wider than a terminal" + 40 * "."])
def test_a_program_has_the_name_by_which_it_was_loaded(tmp_path: Path, name: str) -> None:
    """Several programs are one file, which does what its name says."""
    link = tmp_path / name
    link.symlink_to(programs.build("own_name"))
    said = f"{link}\n"
    out = whole(Path(f'"{link}"'), "set width 40", "run", "rr-start", f"rr-save {tmp_path / 'x.demo'}")
    assert out.count(said) == 2, out
    assert said in gdbrr("replay", tmp_path / "x.demo").expect(0).out


def test_arguments_come_from_wherever_gdb_has_them() -> None:
    """From `gdb --args`, `run` and another inferior as well as from `set args`; so does the folder."""
    echo = Path("/bin/echo")
    another = ("add-inferior -exec /bin/pwd", "inferior 2", "set args another's", "set cwd /nowhere", "inferior 1")
    commands = words(echo, *another, "rr-start", "run of run", "rr-start", "set args of set", "set cwd /", "rr-start")
    out = run("sh", "-c", 'exec "$@" 2>&1', "sh", *commands, "--args", echo, "of", "a  shell", limit=100).out
    assert [line for line in out.splitlines() if line.startswith("of ")] == ["of a  shell", "of run", "of set"], out


def test_what_run_would_use_and_rr_start_does_not_is_said() -> None:
    wrapper = (
        "set exec-wrapper env A=b",
        "python\ntry:\n gdb.execute('rr-start')\nexcept gdb.error as e:\n print(e)\nend",
    )
    out = whole(Path("/bin/true"), *wrapper, "unset exec-wrapper", "set inferior-tty /dev/null", "rr-start")
    assert "rr-start: the exec-wrapper 'env A=b' would be recorded in place of the program. Try: unset exec-" in out, (
        out
    )
    assert "Note: the program's terminal is this one, and not /dev/null" in out and "exited normally" in out, out


@pytest.mark.parametrize("between", [(), ("kill",)])
def test_a_second_session_begins_without_words(between: tuple[str, ...]) -> None:
    """GDB takes the first stop of a connection for one like the last before it, which was a command's."""
    again = ("echo AGAIN\\n", *between, "rr-start plain")
    out = whole(programs.build("scenes", ["-O0"]), "break here", "rr-start plain", "rr-back", *again)
    first, _, second = out.partition("AGAIN")
    assert "Program stopped" in first and "Breakpoint 1, here" in second, out
    assert second.count("Program stopped") == says_again(), out


def test_names_and_values_need_not_be_text(tmp_path: Path) -> None:
    """Of the environment and of folders; as Python, GDB's commands give text only."""
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    command = words(Path("/usr/bin/printenv"), "rr-start VALUE MORE", "rr-save x.demo")
    given = {"VALUE": os.fsdecode(b"\xe9\n|%") + " = '", "MORE": "x", "PWD": str(folder)}
    out = run(*command, cwd=folder, env=given, limit=100).expect(0)
    again = gdbrr("replay", folder / "x.demo").expect(0)
    assert again.out == "\ufffd\n|% = '\nx\n", again.describe()
    assert "Error" not in out.err, out.describe()


def test_with_what_gdb_and_the_server_say_shown() -> None:
    """Of which some is no text."""
    debug = "set debug remote 1"
    out = whole(
        programs.build("scenes", ["-O0"]),
        debug,
        "break here",
        "rr-start plain",
        "rr-back",
        "set debug remote 0",
        "rr-when",
    )
    assert "Sending packet" in out and out.rstrip().splitlines()[-2].startswith("tick 0 of 1"), out[-3000:]
