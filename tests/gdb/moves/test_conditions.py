"""Breakpoints with conditions: the engine and gdbserver look at every pass, GDB only at those that they let through.

A pass that GDB has to look at costs a round, backwards a search: 20,000 of them would not end within a test's time.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from harness import ROOT, programs
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


STEPS_OVER = "steps_over.c"
STEPS = [
    # (where the breakpoint is whose condition never holds, where one begins, the step, where it leads)
    ("22", "21", "next", "22"),
    ("22", "21", "nexti 3", "22"),
    ("22", "21", "next 2", "23"),
    ("22", "21", "until", "22"),
    ("22", "21", "until 22", "22"),
    ("add", "21", "step", "8"),
    ("22", "8 if number == 20", "finish", "22"),
    ("*add", "22", "reverse-next", "21"),
    ("*add", "22", "reverse-nexti", "21"),
    ("21", "22", "reverse-next", "21"),
    ("*add", "9 if number == 20", "reverse-finish", "21"),
    ("8", "22", "reverse-step 2", "8"),
]


@pytest.fixture(scope="module")
def steps_over(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("steps") / "x.demo"
    gdbrr("record", "-o", path, "--", programs.build("steps_over"), "20000").expect(0)
    return path


def line_of(out: str) -> str:
    return re.findall(r"^Line (\d+) of", out, re.MULTILINE)[-1]


@pytest.mark.parametrize(("there", "begin", "step", "wanted"), STEPS)
def test_a_step_ends_where_a_condition_does_not_hold(
    there: str, begin: str, step: str, wanted: str, steps_over: Path
) -> None:
    """GDB (13.1) tells the server of that condition, and of no breakpoint of its own at the same place."""
    begun = f"rr-replay --start {steps_over}", f"tbreak {STEPS_OVER}:{begin}", "continue"
    out = whole(programs.build("steps_over"), *begun, f"break {there} if total == 77777", step, "info line *$pc")
    assert line_of(out) == wanted, out
    assert "77777 (host" not in out, out


def test_a_step_ends_there_while_recording_and_behind_front_ends(steps_over: Path) -> None:
    program = programs.build("steps_over")
    begun = "tbreak 21", "break 22 if total == 77777"
    out = whole(program, *begun, "rr-start", "next", "info line *$pc")
    assert line_of(out) == "22", out
    script = f'-interpreter-exec console "rr-replay --start {steps_over}"\n-exec-continue\n-exec-next\n-gdb-exit\n'
    words = ["gdb", "-nx", "-q", "-i", "mi", "-iex", "set debuginfod enabled off"]
    words += [word for command in (f"source {ROOT / 'gdbinit.py'}", *begun) for word in ("-ex", command)]
    mi = subprocess.run([*words, program], input=script, capture_output=True, text=True, timeout=100, check=True)
    out = mi.stdout
    assert re.search(r'reason="end-stepping-range".*line="22"', out), out


@pytest.mark.parametrize(("begin", "step", "wanted"), [("25", "next", "26"), ("26", "reverse-next", "25")])
def test_what_a_step_passes_is_looked_at_in_the_process(begin: str, step: str, wanted: str, steps_over: Path) -> None:
    begun = f"rr-replay --start {steps_over}", f"tbreak {STEPS_OVER}:{begin}", "continue"
    out = whole(programs.build("steps_over"), *begun, "break add if total == 77777", step, "info line *$pc")
    assert line_of(out) == wanted, out
