"""GDB's own features in a replay, which know nothing of time: they have to mean there what they mean anywhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import programs
from harness.run import gdbrr

from .session import whole

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")


def played(scene: str, path: Path, *commands: str) -> str:
    program, demo = programs.build("scenes", ["-O0"]), path / "x.demo"
    gdbrr("record", "--set", "epoch_ticks=16", "-o", demo, "--", program, scene)
    assert demo.exists()
    return whole(program, f"rr-replay {demo}", *commands)


def numbers(out: str) -> list[int]:
    return [int(number) for number in re.findall(r"^\$\d+ = (\d+)$", out, re.MULTILINE)]


def test_the_direction_of_execution(tmp_path: Path) -> None:
    """`continue`, `step`, `next`, `until`, `advance` and `finish`, with the direction set to reverse and back."""
    out = played(
        "plain",
        tmp_path,
        *("break here", "set exec-direction reverse", "continue", "print number", "continue", "print number"),
        *(
            "finish",
            "print i",
            "step",
            "step",
            "print i",
            "until",
            "advance plain",
            "delete",
            'print $_caller_is("main")',
        ),
        *("set exec-direction forward", "tbreak here", "continue", "print number", "up", "print i"),
    )
    assert numbers(out) == [5, 4, 4, 3, 1, 3, 3], out


def test_commands_displays_and_temporary_breakpoints(tmp_path: Path) -> None:
    script = tmp_path / "commands.gdb"
    script.write_text('commands 1\nsilent\nprintf "AT %ld %ld\\n", number, value\nend\n')
    out = played(
        "plain",
        tmp_path,
        *("break here", f"source {script}", "display value", "reverse-continue", "reverse-continue", "delete 1"),
        *(
            "tbreak here if number == 2",
            "reverse-continue",
            "info breakpoints",
            "reverse-finish",
            "stepi",
            "undisplay 1",
        ),
        *("reverse-continue", "rr-when"),
    )
    assert re.findall(r"^AT (\d+) (\d+)$", out, re.MULTILINE) == [("5", "10"), ("4", "6")], out
    assert "Temporary breakpoint 2, here (number=2)" in out and "No breakpoints or watchpoints" in out, out
    assert out.count("1: value = 1\n") == 3 and "in plain () at" in out, out
    assert re.search(r"^tick 0 of", out, re.MULTILINE), out


def test_threads_and_their_own_variables(tmp_path: Path) -> None:
    """What a thread has to itself is that of the moment, for every thread and in every frame."""
    out = played(
        "threads",
        tmp_path,
        *("break here if value >= 12", "rr-goto start", "continue", "print mine", "thread apply all -q print mine"),
        *("thread apply all -q backtrace -3", "print $_thread", "print $_gthread", "info proc", "reverse-finish"),
        *("print mine", "frame function count", "print mine", "delete", "rr-goto 0", "info threads"),
    )
    own = numbers(out)
    assert own[0] in range(4) and own[-2:] == [own[0], own[0]], out
    assert re.search(r"^#\d+ .* in count \(arg=", out, re.MULTILINE), out
    assert re.search(r"^exe = '.*scenes'$", out, re.MULTILINE), out
    assert re.search(r"^\* 1 +Thread .*\n(?!  \d)", out, re.MULTILINE), "at the start there is one thread"


def test_scripts_hear_of_every_stop(tmp_path: Path) -> None:
    script = tmp_path / "heard.py"
    script.write_text(
        "import gdb\n"
        "def stopped(event):\n"
        "    kind = type(event).__name__\n"
        "    print('HEARD', kind, gdb.selected_frame().name(), int(gdb.parse_and_eval('value')))\n"
        "gdb.events.stop.connect(stopped)\n"
        "class Here(gdb.Breakpoint):\n"
        "    def stop(self):\n"
        "        return int(gdb.parse_and_eval('number')) % 2 == 1\n"
        "class Change(gdb.Breakpoint):\n"
        "    def __init__(self):\n"
        "        super().__init__('value', gdb.BP_WATCHPOINT)\n"
        "Here('here')\n"
    )
    out = played(
        "plain",
        tmp_path,
        *(f"source {script}", *["reverse-continue"] * 3, "delete", "python Change()", "continue", "rr-goto start"),
    )
    heard = re.findall(r"^HEARD (\w+) (\w+) (\d+)$", out, re.MULTILINE)
    assert heard[:3] == [
        ("BreakpointEvent", "here", "10"),
        ("BreakpointEvent", "here", "3"),
        ("BreakpointEvent", "here", "0"),
    ]
    assert heard[3] == ("BreakpointEvent", "here", "1") and len(heard) == 5, out


def test_back_over_functions_that_compute_long(tmp_path: Path) -> None:
    """More instructions than can be stepped through: a sort and a loop, each one `reverse-next`."""
    program, demo = programs.build("long_segment", ["-O0"]), tmp_path / "x.demo"
    gdbrr("record", "--set", "trace_limit=20000", "-o", demo, "--", program).expect(0)
    out = whole(
        program,
        *(f"rr-replay {demo}", "break long_segment.c:39", "reverse-continue", "delete", "print $pc"),
        *("reverse-stepi", "stepi", "print $pc", *["reverse-next"] * 3, "next", "next"),
    )
    assert "too many to step through" not in out, out
    pcs = re.findall(r"^\$\d = .* (0x\w+) <main", out, re.MULTILINE)
    assert len(pcs) == 2 and pcs[0] == pcs[1], out
    lines = [int(line) for line in re.findall(r"^(\d+)\t", out[out.index("$2") :], re.MULTILINE)]
    assert lines == [38, 37, 36, 37, 38], out
