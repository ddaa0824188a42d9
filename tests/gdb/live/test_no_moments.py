"""Stops of a recorded process that are no moments: their past is there all the same, or what is missing is said."""

from __future__ import annotations

import re

import pytest

from harness import programs

from ..session import whole

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")


@pytest.mark.parametrize("which", range(4))
def test_in_the_middle_of_a_repeated_instruction(which: int) -> None:
    """The moment in front of it is the last one; what its rounds have changed by now changed behind that."""
    past = ("watch to[20]", f"rr-start {which}", "print $rcx > 0", "reverse-continue", "rr-when", "print $rcx > 5")
    out = whole(
        programs.build("repeats", ["-O0"]),
        *past,
        "break in_front",
        *["reverse-continue"] * 2,
        "rr-live",
        "print to[20]",
    )
    assert re.search(r"Old value = 0 .*\nNew value = 7 .*", out), out
    changed, _, front = out.partition("Breakpoint 2 at")
    assert re.search(r"Old value = 7 .*\nNew value = 0 .*", changed), out
    assert re.search(r"^tick \d+:0x\w+#1 of \d+ \(100%\)", changed, re.MULTILINE) and "approximate" not in out, out
    assert re.findall(r"^\$[12] = (\d)$", changed, re.MULTILINE) == ["1", "1"], out
    assert "Breakpoint 2, in_front () at" in front and "$3 = 7 '\\a'" in front, out


def test_a_step_back_from_the_middle_of_a_repeated_instruction_leads_in_front_of_it() -> None:
    stop = ("break in_front", "rr-start", "watch to[20]", "continue", "delete", "stepi", "print $rcx")
    out = whole(
        programs.build("repeats", ["-O0"]),
        *stop,
        *("reverse-stepi", "print $rcx", "reverse-stepi", "x/i $pc", "print to[0]"),
    )
    left, all_of_it = map(int, re.findall(r"^\$[12] = (\d+)$", out, re.MULTILINE))
    assert 0 < left < all_of_it == 40, out
    assert re.search(r"^=> .*\tmov ", out, re.MULTILINE) and "$3 = 0 '\\000'" in out, out


def test_values_that_no_recording_holds_are_named() -> None:
    steps = ("break main", "rr-start", "next", "next", "next", "print $_exitcode", "reverse-next", "reverse-next")
    out = whole(programs.build("unrecorded", ["-O0"]), *steps, "rr-when")
    assert re.search(
        r"^gdbrr: the replay has other values in .*rax.* here: .*, as rdrand or the time", out, re.MULTILINE
    ), out
    assert re.search(r"^tick 0:0x\w+#1 of .* unrecorded.c:2[0-9]\b", out, re.MULTILINE), out


def test_a_place_to_which_the_replay_does_not_come_is_named() -> None:
    late = ("break stands", "break never_again", "rr-start", "shell sleep 0.3", "continue", "reverse-stepi", "rr-when")
    out = whole(programs.build("unrecorded", ["-O0"]), *late)
    assert "Breakpoint 2, never_again ()" in out, out
    assert out.count("gdbrr: this place was not found in the replay; the past ends at the last operation") == 1, out
    assert re.search(r"^tick \d+ of .* approximate", out, re.MULTILINE), out
