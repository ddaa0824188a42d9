"""What an operation maps or drops is a change of what is watched there, also forwards: no debug register sees it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import programs
from harness.run import gdbrr

from ..session import whole

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")
CHANGES = [("0", "98"), ("98", "0"), ("0", "99"), ("99", "0"), ("0", "97"), ("97", "100"), ("100", "97")]


def told(out: str) -> list[tuple[str, str]]:
    return re.findall(r"^Old value = (\d+) .*\nNew value = (\d+) ", out, re.MULTILINE)


@pytest.mark.parametrize(
    "watch", ["watch -l *place", "watch place[0]", "watch -l *(char (*)[1]) place", "awatch -l *place"]
)
def test_forwards_the_same_changes_as_back(watch: str, tmp_path: Path) -> None:
    program, demo = programs.build("watched_maps"), tmp_path / "x.demo"
    gdbrr("record", "-o", demo, "--", program).expect(0)
    begin = (f"rr-replay --start {demo}", "break watched_from_here", "continue", watch)
    out = whole(program, *begin, *["continue"] * 9, "echo BACK\\n", *["reverse-continue"] * 9)
    forth, back = out.split("BACK\n")
    if "(char" in watch:  # an array is shown as a text
        assert forth.count("Hardware watchpoint") - 1 == back.count("Hardware watchpoint") == len(CHANGES), out
    else:
        assert told(forth) == CHANGES, out
        assert told(back)[: len(CHANGES)] == [(new, old) for old, new in reversed(CHANGES)], out


def test_steps_over_such_an_operation_tell_of_it(tmp_path: Path) -> None:
    program, demo = programs.build("watched_maps"), tmp_path / "x.demo"
    gdbrr("record", "-o", demo, "--", program).expect(0)
    steps = ("finish", "watch -l *place", *["next"] * 12)
    out = whole(program, f"rr-replay --start {demo}", "break watched_from_here", "continue", *steps)
    assert told(out)[:4] == CHANGES[:4], out
