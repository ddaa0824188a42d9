"""What a command cannot do: one line with its name and a way out, and everything stays where it was."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import programs
from harness.run import Result, run

from ..session import recorded, words

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")


def played(program: Path, *commands: str) -> Result:
    return run(*words(program, *commands), limit=100)


def test_a_moment_that_is_not_there(tmp_path: Path) -> None:
    program = programs.build("spine")
    for begin in (("rr-replay", f"rr-replay {recorded(program, tmp_path)}"), ("rr-start", "rr-start")):
        result = played(program, "break puts_total", begin[1], "rr-when", "rr-goto 3:0x10#1", "rr-when", "print turns")
        before, after = re.findall(r"^(?:tick|recording).*$", result.out, re.MULTILINE)[-2:]
        assert before == after, result.out
        said = [line for line in result.err.splitlines() if "does not exist" in line]
        assert len(said) == 1 and re.match(r"rr-goto: .* does not exist\. \w", said[0]), result.err
        assert "does not exist" not in result.out, result.out


def test_a_place_without_a_size(tmp_path: Path) -> None:
    program = programs.build("spine")
    demo = recorded(program, tmp_path)
    for command in ("rr-back -w", "rr-history"):
        result = played(program, f"rr-replay {demo}", f"{command} *(char (*)[0]) order")
        assert result.err.splitlines()[-1] == (
            f"{command.split()[0]}: *(char (*)[0]) order has no size of its own. Name an element of it"
        ), result.err


def test_texts_that_differ_at_their_end_differ_in_what_is_told(tmp_path: Path) -> None:
    """Of 41 characters, one is added by each change."""
    program = programs.build("spine")
    demo = recorded(program, tmp_path)
    out = played(program, f"rr-replay {demo}", "rr-back -w order", "rr-history -n 1 order").out
    back = re.findall(r"^order: (.*) -> (.*) at spine.c", out, re.MULTILINE)
    listed = re.findall(r"^(.*) \(was (.*)\)  tick ", out, re.MULTILINE)
    assert len(back) == len(listed) == 1, out
    (older, old), (new, newer) = listed[0][::-1], back[0]
    assert older != old == new != newer, out


def test_a_watchpoint_where_no_program_has_memory(tmp_path: Path) -> None:
    """Of the kernel's half a debug register takes no address, and a gdbserver ends that finds out by itself."""
    program = programs.build("spine")
    for begin in (f"rr-replay {recorded(program, tmp_path)}", "rr-start"):
        moves = (
            "watch -l *(char*)-1",
            "continue",
            "reverse-continue",
            "delete 2",
            "rr-goto start",
            "continue",
            "rr-when",
        )
        result = played(program, "break puts_total", begin, *moves)
        assert result.err.count("Could not insert hardware watchpoint 2") == 2, result.err
        assert "OverflowError" not in result.err and "gdbserver ended" not in result.err, result.err
        assert "puts_total () at" in result.out.partition("tick 0")[2], result.out
