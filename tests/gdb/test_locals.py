"""Watchpoints on local variables know what is there wherever time was moved to, and outlive their frame."""

from __future__ import annotations

import random
import re
from itertools import pairwise
from pathlib import Path

import pytest

from harness import programs

from .session import recorded, whole

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")

LOCAL = "watched_local"
SUMS = [n * (n + 1) // 2 for n in range(7)]
"""What `sum` holds, one after the other, in the call of sum_to(6)."""
TO_THE_CALL = "rr-goto start", "break sum_to if n == 6", "continue", "next", "watch sum", "delete 1"
YOUNGER = "python max(gdb.selected_inferior().threads(), key=lambda thread: thread.ptid).switch()"
TOLD = "Watchpoint 2 is disabled until its frame is there again."


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(programs.build(LOCAL), tmp_path_factory.mktemp("local"))


def played(demo: Path, *commands: str) -> str:
    return whole(programs.build(LOCAL), f"rr-replay {demo}", *TO_THE_CALL, *commands)


def changes(out: str) -> list[tuple[int, int]]:
    hit = r"^(?:Thread .* hit )?Hardware watchpoint 2: sum\n\nOld value = (\d+)\nNew value = (\d+)$"
    found = re.findall(hit, out, re.MULTILINE)
    return [(int(old), int(new)) for old, new in found]


def test_each_change_is_met_wherever_one_comes_from(demo: Path) -> None:
    """The oracle is the variable: what it holds before and behind a command are neighbours among all it ever held."""
    moments = played(demo, *["continue", "rr-when"] * 6)
    inside = [int(tick) for tick in re.findall(r"^tick (\d+):", moments, re.MULTILINE)]
    assert changes(moments) == list(pairwise(SUMS)), moments
    chance = random.Random(7)
    commands: list[str] = []
    for _ in range(12):
        commands += [f"rr-goto {chance.randint(inside[1], inside[-2])}", YOUNGER, "frame function sum_to"]
        commands += ["print sum", chance.choice(["continue", "reverse-continue"]), "print sum"]
    out = played(demo, *commands)
    values = [int(value) for value in re.findall(r"^\$\d+ = (\d+)$", out, re.MULTILINE)]
    met = changes(out)
    assert len(met) == 12 and len(values) == 24, out
    for at, (old, new) in enumerate(met):
        assert [old, new] == values[2 * at : 2 * at + 2], out
        assert abs(SUMS.index(old) - SUMS.index(new)) == 1, out


def test_it_outlives_a_move_out_of_its_frame(demo: Path) -> None:
    """GDB itself deletes it at the next command."""
    out = played(
        demo,
        *("continue", "continue", "rr-mark here", "rr-goto start", "rr-goto end", "rr-back", "info watchpoints"),
        *("rr-goto here", "info watchpoints", "continue", "reverse-continue", "reverse-continue"),
    )
    assert changes(out) == [(0, 1), (1, 3), (3, 6), (6, 3), (3, 1)], out
    assert out.count(TOLD) == 1 and "deleted" not in out, out
    listed = re.findall(r"^2 +(\S.*?) +keep (\w) ", out, re.MULTILINE)
    assert listed == [("watchpoint", "n"), ("hw watchpoint", "y")], out


def test_the_program_itself_may_come_to_the_frame(demo: Path) -> None:
    out = played(
        demo,
        *("rr-goto start", "tbreak sum_to if n == 6", "continue", "info watchpoints", *["continue"] * 8),
    )
    assert out.count(TOLD) == 1 and "hw watchpoint  keep y" in out, out
    assert changes(out)[1:] == list(pairwise(SUMS)), out
    assert "Watchpoint 2 deleted because the program has left the block" in out, out


def test_beside_a_search_for_something_else(demo: Path) -> None:
    """Its way leads over several moments."""
    out = played(demo, *["continue"] * 5, "rr-back 3 -w all", YOUNGER, "frame function sum_to", "print sum", "continue")
    value = int(re.findall(r"^\$\d+ = (\d+)$", out, re.MULTILINE)[0])
    assert changes(out)[-1] == (value, SUMS[SUMS.index(value) + 1]), out


def test_one_that_gdb_steps_for(demo: Path) -> None:
    out = played(
        demo,
        *("delete 2", "set can-use-hw-watchpoints 0", "watch sum", "rr-goto start", "rr-goto end", "rr-goto 50%"),
        *("tbreak sum_to if n == 6", "rr-goto start", "continue", "info watchpoints"),
    )
    assert "Watchpoint 3 is disabled until its frame is there again." in out and "deleted" not in out, out
    assert re.search(r"^3 +watchpoint +keep y ", out, re.MULTILINE), out


def test_one_for_reads_is_set_again_where_its_frame_is(demo: Path) -> None:
    """GDB deletes it wherever its frame is not. It comes back with all it had, by moves and by the program itself."""
    reads = re.compile(r"^(?:Thread .* hit )?Hardware read watchpoint (\d): n\n\nValue = 6$", re.MULTILINE)
    program = (
        *("delete 2", "rwatch n", "condition 3 sum == 3", "commands 3\nsilent\nprint i\nend", "rr-mark here"),
        *("rr-goto start", "info watchpoints", "rr-goto end", "rr-goto here", "info watchpoints", "continue"),
        *("rr-goto start", "tbreak sum_to if n == 6", "continue", "info watchpoints", "continue"),
    )
    script = demo.with_suffix(".gdb")
    script.write_text("\n".join(program) + "\n")
    out = played(demo, f"source {script}")
    assert out.count("No watchpoints.") == 1, out
    told = re.findall(r"^Watchpoint (\d is (?:deleted until its frame is there again|set again, as \d))\.$", out, re.M)
    gone = "is deleted until its frame is there again"
    assert told == [f"3 {gone}", "3 is set again, as 4", f"4 {gone}", "4 is set again, as 6"], out
    assert re.findall(r"^(\d) +read watchpoint keep y +n$", out, re.MULTILINE) == ["4", "6"], out
    assert out.count("stop only if sum == 3") == 2, out
    assert re.findall(r"^\$\d+ = (\d)$", out, re.MULTILINE) == ["3", "3"] and not reads.search(out), out


def test_its_condition_may_mean_nothing_yet(demo: Path) -> None:
    out = played(
        demo,
        *("rwatch n if i == 3", "rr-goto start", "tbreak sum_to if n == 6", "continue", "info watchpoints"),
    )
    assert "Watchpoint 3 is set again, as 5 without its condition, which means nothing here." in out, out
    assert re.search(r"^5 +read watchpoint keep y +n$", out, re.MULTILINE), out
