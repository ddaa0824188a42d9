"""What a watchpoint says was there before: of the place that it was set on, as it is where a move has ended."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import programs
from harness.run import gdbrr

from ..session import recorded, whole

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")

CHANGES = [("15", "10"), ("10", "6"), ("6", "3"), ("3", "1"), ("1", "0")]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(programs.build("same_names"), tmp_path_factory.mktemp("names"))


def past(demo: Path, *commands: str) -> list[tuple[str, str]]:
    """The old and the new value of each stop of a watchpoint."""
    out = whole(programs.build("same_names"), f"rr-replay --start {demo}", *commands)
    return re.findall(r"^Old value = (\w+)\nNew value = (\w+)$", out, re.MULTILINE)


@pytest.mark.parametrize("name", ["total", "::total", "'same_names.c'::total", "*(long *) &total", "-l total"])
@pytest.mark.parametrize("where", ["rr-goto end", "rr-back -b same_names.c:13"])
def test_it_is_of_where_a_move_has_ended(demo: Path, name: str, where: str) -> None:
    """INVARIANT(old-is-here): also in a frame that has a variable of this name itself."""
    assert past(demo, f"watch {name}", "rr-goto end", where, *["reverse-continue"] * 5) == CHANGES


def test_a_condition_means_what_it_meant(demo: Path) -> None:
    moves = ("rr-goto end", "rr-back -b same_names.c:13", *["reverse-continue"] * 3)
    assert past(demo, "watch *(long *) &total if total < 5", *moves) == CHANGES[2:]


def test_what_has_no_name_elsewhere_is_told(demo: Path) -> None:
    there = ("break inner", "continue", "delete")
    out = whole(
        programs.build("same_names"),
        *(f"rr-replay --start {demo}", *there, "watch calls", "rr-goto end", "rr-goto 50%", "delete", "rr-goto start"),
        *(*there, "watch -location calls", "rr-goto end", "reverse-continue"),
    )
    assert out.count("Watchpoint 2 may tell an old value from another moment") == 1, out
    assert "Try: watch -location calls" in out and "Old value = 50\nNew value = 40\n" in out, out


@pytest.mark.parametrize("back", ["reverse-continue", "continue"])
def test_what_a_called_function_has_changed_is_undone_for_a_watchpoint_too(back: str, tmp_path: Path) -> None:
    """GDB was told of it, and would take it for the old value of the next change."""
    program = programs.build("scenes", ["-O0"])
    demo = tmp_path / "x.demo"
    gdbrr("record", "-o", demo, "--", program, "plain").expect(3)
    out = whole(
        program,
        *(f"rr-replay --start {demo}", "tbreak here if number == 3", "continue", "up", "tbreak here if number > 100"),
        *("watch value", "call here(1000)", "continue", "continue", back, back, back),
    )
    changes = re.findall(r"^Old value = (\d+)\nNew value = (\d+)$", out, re.MULTILINE)
    assert ("3", "1003") in changes and ("1003", "3") in changes, out
    assert changes[changes.index(("1003", "3")) + 1][0] == "3", out
    assert changes[-1] in {("1", "0"), ("6", "10")}, out
