"""Breakpoints with conditions: the engine and gdbserver look at every pass, GDB only at those that they let through.

A pass that GDB has to look at costs a round, backwards a search: 20,000 of them would not end within a test's time.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import programs
from harness.run import gdbrr
from harness.said import NO_MORE

from ..session import whole

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")

RARE = "total % 6000 == 7"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("conditions") / "x.demo"
    gdbrr("record", "-o", path, "--", programs.build("long_loop", ["-O0"]), "20000").expect(0)
    return path


def played(*commands: str) -> str:
    return whole(programs.build("long_loop", ["-O0"]), *commands)


def numbers(out: str) -> list[int]:
    return [int(number) for number in re.findall(r"^\$\d+ = (-?\d+)$", out, re.MULTILINE)]


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        (RARE, [7, 6007, 12007, 18007]),
        ("total == 19990 || (total == 12 && *buffer == 1)", [12, 19990]),
        ("$rip != 0 && buffer[1] == 0 && -total < -19998", [19999]),
    ],
)
def test_those_passes_and_no_others_in_both_directions(condition: str, wanted: list[int], demo: Path) -> None:
    there = *["continue", "print total"] * len(wanted), "continue"
    back = *["reverse-continue", "print total"] * len(wanted), "reverse-continue"
    out = played(f"rr-replay --start {demo}", f"break touch if {condition}", *there, *back, "rr-when")
    assert numbers(out) == [*wanted, *reversed(wanted)], out
    assert NO_MORE.search(out) and re.search(r"^tick 0 of", out, re.MULTILINE), out


def test_back_to_a_place_with_a_condition(demo: Path) -> None:
    """A breakpoint of the user's there, whose condition is another one, plays no part; nothing stays behind."""
    out = played(
        *(f"rr-replay {demo}", "break touch if total == 19999", f"rr-back -b touch if {RARE}", "print total"),
        *(f"rr-back 2 -b touch if {RARE}", "print total", f"rr-back 2 -b touch if {RARE}", "print total"),
        *("python print('KEPT', [(each.number, each.enabled, each.hit_count) for each in gdb.breakpoints()])",),
    )
    assert numbers(out) == [18007, 6007, 6007], out
    assert "is not executed that often before here" in out and "KEPT [(1, True, 0)]" in out, out


def test_conditions_change_and_are_taken_away(demo: Path) -> None:
    out = played(
        *(f"rr-replay --start {demo}", "break touch if total == 500", "continue", "print total"),
        *("condition 1 total == 300", "reverse-continue", "print total", "condition 1", "continue", "print total"),
        *("break touch if total == 310", "condition 1 total == 305", "continue", "print total", "continue"),
        *("print total", "reverse-continue", "print total", 'condition 1 $_streq("a", "a")', "continue", "print total"),
    )
    assert numbers(out) == [500, 300, 301, 305, 310, 305, 306], out


def test_while_recording() -> None:
    out = played(
        *(f"break touch if {RARE}", "rr-start 20000", "print total", "continue", "print total", "reverse-continue"),
        *("print total", "rr-live", "continue", "print total"),
    )
    assert numbers(out) == [7, 6007, 7, 12007], out


def test_the_end_of_an_operation_is_none_of_a_breakpoints_passes(demo: Path) -> None:
    """A step over an operation ends where it ends, though a breakpoint is there whose condition is not met."""
    events = gdbrr("events", demo).out
    ticks = [int(tick) for tick in re.findall(r"^ *(\d+) .*\bwrite\b", events, re.MULTILINE)]
    assert ticks, events
    begin = f"rr-goto {ticks[0]}"
    step = ("stepi", "print/d $pc")
    (behind,) = numbers(played(f"rr-replay --start {demo}", begin, *step))
    out = played(f"rr-replay --start {demo}", f"break *{behind} if total == 12345", begin, *step)
    assert numbers(out) == [behind], out


def test_back_to_an_inlined_function(tmp_path: Path) -> None:
    """What its condition names is known there alone, and GDB sees no stop there; who cannot test it is told."""
    program, demo = programs.build("inlined", ["-O2"]), tmp_path / "x.demo"
    gdbrr("record", "-o", demo, "--", program).expect(0)
    out = whole(
        program,
        *(f"rr-replay {demo}", "rr-back -b add if n == 500", "print total", "rr-back 2 -b add if (double) total > 2.5"),
        *("print total", "rr-back -b add if (float) n == 3.0", "print total"),
        *("rr-back -b add", "print total"),
    )
    assert numbers(out) == [124750, 123753, 123256, 122760], out
    assert out.count("Note: the condition cannot be tested here") == 1, out
