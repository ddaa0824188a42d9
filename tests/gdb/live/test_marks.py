"""Bookmarks and words of a process that is being recorded, and of one that no longer is."""

from __future__ import annotations

import re

import pytest

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
