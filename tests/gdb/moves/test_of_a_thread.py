"""Breakpoints and watchpoints of one thread, where time passes its birth and its end."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import programs
from harness.said import NO_POINTS

from ..session import recorded, whole

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")

PROGRAM = "watched_local"
TO_THE_THREAD = "rr-goto start", "tbreak sum_to", "continue"
BREAK = "break pause_here thread 2 if i == 7", "python gdb.breakpoints()[-1].commands = 'printf \"with %d\\\\n\", i'"
WAYS = {"a command": ["rr-goto start"], "GDB's own": ["disable", "reverse-continue", "enable"]}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(programs.build(PROGRAM), tmp_path_factory.mktemp("thread"))


def played(demo: Path, *commands: str) -> str:
    return whole(programs.build(PROGRAM), f"rr-replay {demo}", *TO_THE_THREAD, *commands, "echo the end\\n")


def hits(out: str, number: int) -> int:
    return len(re.findall(rf'^Thread \d+ "\w+" hit Breakpoint {number}, pause_here \(i=7\)', out, re.MULTILINE))


@pytest.mark.parametrize("way", WAYS)
def test_a_breakpoint_is_set_again_and_knows_its_thread(way: str, demo: Path) -> None:
    """The main thread calls the function with this number as well, once; this one does it twice."""
    out = played(demo, *BREAK, *WAYS[way], "info breakpoints", *["continue"] * 3, *WAYS[way], *["continue"] * 3)
    assert out.count("Thread-specific breakpoint 2 deleted") == 1, out
    assert out.count("Breakpoint 2 is set again, as 3: ids of threads stay.") == 1, out
    assert re.search(r"stop only if \$_rr_thread\(\d+\) && \(i == 7\)", out), out
    assert hits(out, 3) == 4 and out.count("with 7\n") == 4, out
    assert "the end\n" in out, out


def test_one_that_is_off_stays_off(demo: Path) -> None:
    out = played(demo, *BREAK, "disable 2", "rr-goto start", "info breakpoints", "continue")
    assert re.search(r"^3 +breakpoint +keep n ", out, re.MULTILINE) and hits(out, 3) == 0, out


def test_what_the_user_deletes_does_not_come_back(demo: Path) -> None:
    out = played(demo, *BREAK, "delete 2", "rr-goto start", "info breakpoints", "rr-goto end")
    assert "again" not in out and NO_POINTS.search(out), out


def test_a_watchpoint_of_a_thread_that_goes_is_deleted(demo: Path) -> None:
    """GDB (13.1) leaves its Python a pointer to nothing."""
    noise = "python import gc; gc.collect(); filler = [bytearray(300) for i in range(10000)]"
    moves = ["rr-goto start", noise, "rr-goto end", noise, "rr-goto 50%", "rr-goto start"]
    out = played(demo, "next", "watch sum thread 2", "continue", *moves, "info breakpoints")
    assert "Thread-specific breakpoint 2 deleted" in out and "Hardware watchpoint 2: sum\n\nOld value" in out, out
    assert not re.search("Error|warning", out) and NO_POINTS.search(out) and out.endswith("the end\n"), out


def test_behind_the_end_of_a_recording() -> None:
    out = whole(
        programs.build(PROGRAM),
        *("set confirm off", "break sum_to if n == 5", "rr-start", *BREAK, "delete 1", "continue", "continue"),
        *("continue", "rr-goto start", "continue", "rr-goto start", "continue", "echo the end\\n"),
    )
    assert hits(out, 2) == 2 and hits(out, 3) == 2 and out.count("as 3: ids of threads stay.") == 1, out
    assert "the end\n" in out, out


def test_outside_of_a_session_nothing_is_set_again() -> None:
    program = programs.build(PROGRAM)
    out = whole(program, "tbreak sum_to", "run", *BREAK, "continue", "continue", "continue", "info breakpoints")
    assert hits(out, 2) == 2 and "again" not in out, out


def test_the_function_says_whose_turn_it_is(demo: Path) -> None:
    here = "python gdb.set_convenience_variable('here', gdb.selected_thread().ptid[1])"
    out = played(demo, here, "thread apply all print $_rr_thread($here)", "help function _rr_thread")
    assert re.findall(r"^\$\d+ = (\d)$", out, re.MULTILINE) == ["1", "0"], out
