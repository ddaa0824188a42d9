"""Bookmarks and words of a process that is being recorded, and of one that no longer is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from confine.forge import forge, manifest_of
from harness import programs

from ..session import whole

pytestmark = pytest.mark.needs("gdb", "gdbserver")
BEGIN = ("break here", "rr-start plain")


def test_a_bookmark_leads_back_to_the_stop_at_which_it_was_made() -> None:
    """And not to the last operation in front of it."""
    moves = ("rr-mark first", "continue", "rr-goto first", "print number", "rr-live", "print number", "rr-mark first")
    out = whole(programs.build("scenes", ["-O0"]), *BEGIN, *moves)
    assert re.search(r"^first is tick \d+:0x\w+#1\. Try: rr-goto first$", out, re.MULTILINE), out
    assert re.findall(r"^\$\d+ = (\d+)$", out, re.MULTILINE) == ["1", "2"], out
    assert re.search(r"^first is tick \d+:0x\w+#\d+, and was tick \d+:0x\w+#1\. Try", out, re.MULTILINE), out


def test_a_recording_ends_once_and_nothing_behind_it_can_be_marked() -> None:
    moves = ("rr-live -e", "rr-live -e", "rr-mark there", "rr-when", "rr-goto end", "rr-mark there")
    out = whole(programs.build("scenes", ["-O0"]), *BEGIN, *moves)
    assert out.count("The recording ends here") == 1 and "rr-live: the recording has ended already. " in out, out
    assert "rr-mark: the recording has ended, and this is behind its end. Try: rr-goto end\n" in out, out
    assert re.search(r"^recorded: \d+ ticks?, thread 1 ", out, re.MULTILINE), out
    assert re.search(r"^there is tick \d+:0x\w+#1\. ", out, re.MULTILINE), out


def test_a_bookmark_means_its_moment_when_more_is_recorded_and_in_a_later_session(tmp_path: Path) -> None:
    """What is behind the last operation at one stop is in the middle of time at the next."""
    program, demo = programs.build("live_marks"), tmp_path / "x.demo"
    made = ("break reached", "rr-start", "rr-mark zeroth", "continue", "continue", "rr-mark second", "delete")
    there = ("rr-goto zeroth", "print round", "rr-goto second", "print round", "rr-when")
    later = ("break behind", "continue", *there, f"rr-save {demo}", "kill", f"rr-replay {demo}", *there)
    out = whole(program, *made, *later)
    assert re.findall(r"^\$\d+ = (\d+)$", out, re.MULTILINE) == ["0", "2", "0", "2"], out
    moments = re.findall(r"^tick (2:\S+) of ", out, re.MULTILINE)
    assert len(moments) >= 2 and len({*moments}) == 1 and f"second is tick {moments[0]}. " in out, out


def test_a_demo_that_is_saved_at_a_stop_ends_there(tmp_path: Path) -> None:
    """Not at the operation in front of it; forwards it is met as the end of time."""
    program, demo = programs.build("live_marks"), tmp_path / "x.demo"
    moves = ("print number", "break reached", "reverse-continue", "print round", "continue", "delete")
    ends = ("continue", "print number", "rr-mark here", "rr-goto start", "rr-goto here", "print number", "rr-when")
    out = whole(program, "break behind", "rr-start", f"rr-save {demo}", "kill", f"rr-replay {demo}", *moves, *ends)
    assert re.findall(r"^\$\d+ = (\d+)$", out, re.MULTILINE) == ["5", "5", "5", "5"], out
    assert re.search(r"^tick \S+#1 of \d+ \(100%\), .*live_marks.c:16$", out, re.MULTILINE), out


@pytest.mark.parametrize("stop", ["0x1#1", "0x7fffffffe000#3"])
def test_a_demo_that_lies_about_its_end_ends_at_its_last_operation(stop: str, tmp_path: Path) -> None:
    program, demo, other = programs.build("live_marks"), tmp_path / "x.demo", tmp_path / "y.demo"
    whole(program, "break behind", "rr-start", f"rr-save {demo}")
    said = manifest_of(demo)["stop"]
    moment = f"{said['moment'].partition(':')[0]}:{stop}"
    forge(demo, other, stop={**said, "moment": moment})
    out = whole(program, f"rr-replay {other}", "rr-when")
    assert re.search(r"^tick (\d+) of \1 .*the stop at which it was saved was not found", out, re.MULTILINE), out


def test_the_epochs_of_a_recording_are_told_where_it_stands() -> None:
    out = whole(programs.build("live_marks"), "break behind", "rr-start", "rr-epochs", "print number")
    assert re.search(r"^=>  e0 +0 +6 +1 ", out, re.MULTILINE) and out.endswith("$1 = 5\n"), out
