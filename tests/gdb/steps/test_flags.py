"""The flag by which a debugger steps is not the program's: no step leaves it in what the program pushes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import programs
from harness.run import gdbrr

from ..session import whole

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")
WAYS = (["stepi"] * 40, ["next"] * 8, ["break *$p", "continue", "stepi", "stepi"])
SEEN = ("print seen", "print narrow")


@pytest.mark.parametrize("way", WAYS)
def test_no_step_of_a_replay_is_seen(way: list[str], tmp_path: Path) -> None:
    program, demo = programs.build("pushes_flags", ["-O0"]), tmp_path / "x.demo"
    gdbrr("record", "-o", demo, "--", program).expect(0)
    begin = (
        f"rr-replay --start {demo}",
        "break look",
        "continue",
        "set var $p = $pc",
        *way,
        "tbreak getppid",
        "continue",
    )
    out = whole(program, *begin, *SEEN, "delete", "continue", *SEEN)
    assert re.findall(r"^\$\d+ = (.*)$", out, re.MULTILINE) == ["{0, 0, 0}", "0"] * 2, out


@pytest.mark.parametrize("way", WAYS[:2])
def test_no_step_under_rr_start_is_seen(way: list[str]) -> None:
    """And so the replay does the same."""
    program = programs.build("pushes_flags", ["-O0"])
    out = whole(program, "break look", "rr-start", *way, "delete", "continue", "rr-goto end", "rr-when")
    assert "0 0 0 0" in out and "output differs" not in out, out
