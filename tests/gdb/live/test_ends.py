"""Where a process under rr-start ends, or its recording does: what GDB had in it is gone, and the way is back."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from harness import ROOT, programs
from harness.said import NO_MORE
from harness.terminal import Terminal

from ..session import recorded, whole

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")


def test_breakpoints_of_a_process_that_ended_are_not_met_again() -> None:
    """GDB takes them for gone with it; told of one, which it does not know, it goes on, and so for ever."""
    out = whole(
        programs.build("rounds"),
        *("break round_done if 0", "catch syscall getegid", "rr-start", "delete", "reverse-continue", "rr-when"),
        *("run", "rr-when"),
    )
    assert "The program has ended; this is the end of its recording. The way is back." in out, out
    ticks = re.findall(r"^tick (\d+)\S* of (\d+)", out, re.MULTILINE)
    assert [tick == last for tick, last in ticks] == [False, True] and ticks[0][0] == "0", out
    assert "SIGTRAP" not in out and "hit Catchpoint" not in out, out


def test_a_call_in_the_process_leaves_no_signal() -> None:
    """It returns to where nothing can be executed, which is how GDB knows that it did."""
    there = ("rr-live -e", "print fibonacci(6)", "set var sum = 12", "rr-goto start", "rr-live", "print sum")
    out = whole(programs.build("past_values"), "break fibonacci", "rr-start", "delete", *there, "continue")
    assert "$1 = 8\n" in out and "$2 = 12\n" in out and "exited normally" in out, out
    assert re.search(r"^12 [12]2$", out, re.MULTILINE), out  # whichever thread was the last
    assert "SIGSEGV" not in out, out


def test_a_signal_that_is_not_delivered_yet_is_still_told() -> None:
    """Where it stopped, where one comes back to it, and not once more when the program ends of it."""
    there = ("rr-live -e", "print (int)abs(-3)", "rr-goto start", "rr-live", "continue")
    out = whole(programs.build("scenes", ["-O0"]), "rr-start crash", *there)
    assert "$1 = 3\n" in out and out.count("received signal SIGSEGV") == 2, out
    assert "received signal SIGSEGV" in out.partition("tick 0")[2], out
    assert "terminated with signal SIGSEGV" in out, out


def test_each_signal_that_is_handled_is_told_behind_the_end_of_a_recording() -> None:
    """The same instruction faults again and again, and no operation is in between that could tell."""
    program = programs.build("signal_segv_longjmp")
    out = whole(program, "break main", "rr-start", "rr-live -e", *["continue"] * 5)
    assert out.count("received signal SIGSEGV") == 5 and "terminated" not in out, out


def test_the_way_back_begins_where_the_recording_was_ended() -> None:
    """Also where the process has gone on since, and behind its end."""
    out = whole(
        programs.build("past_values"),
        *("break fibonacci", "rr-start", "rr-live -e", "next", "next", "reverse-stepi", "rr-when", "stepi", "rr-when"),
        *("rr-live", "delete", "continue", "rr-goto end"),
    )
    before, end, *behind = re.findall(r"^tick (\d+:\S+) of \d+ \(100%\)", out, re.MULTILINE)
    assert before != end and set(behind) == {end}, out
    assert out.count("Breakpoint 1, fibonacci (n=5)") == 2, out


def test_a_breakpoint_where_the_recording_was_ended_is_met() -> None:
    """By who comes from behind it, once; who stands there has met it."""
    program = programs.build("past_values")
    back = *["reverse-continue", "rr-when"] * 2, "rr-live", "delete", "reverse-continue"
    out = whole(program, "break fibonacci if n == 4", "rr-start", "rr-live -e", "next", *back)
    again, start = re.findall(r"^tick (\S+) of \S+", out, re.MULTILINE)
    assert out.count("Breakpoint 1, fibonacci (n=4)") == 2 and ":" in again and start == "0", out
    assert len(NO_MORE.findall(out)) == 2, out
    here = whole(program, "break fibonacci if n == 4", "rr-start", "rr-live -e", "reverse-continue")
    assert here.count("Breakpoint 1, fibonacci (n=4)") == 1 and NO_MORE.search(here), here


def test_nobody_is_at_the_other_end_behind_a_detach(tmp_path: Path) -> None:
    program = programs.build("past_values")
    demo = recorded(program, tmp_path)
    out = whole(program, f"rr-replay {demo}", "detach", "rr-when", f"rr-replay {demo}", "detach", "rr-back", "rr-when")
    assert out.count(": no demo is open. Try: rr-replay FILE\n") == 3 and "Remote" not in out, out


def test_one_stands_at_the_end_behind_an_exit() -> None:
    """At a terminal; a script says itself where it goes. What was killed is gone."""
    words = ["gdb", "-nx", "-q"]
    for command in (
        *("set pagination off", "set confirm off", "set width 0", "set debuginfod enabled off"),
        *("set style enabled off", f"source {ROOT / 'gdbinit.py'}", f"file {programs.build('past_values')}"),
        *("break fibonacci", "rr-start"),
    ):
        words += ["-ex", command]
    with Terminal(*words, size=(40, 120), limit=60) as screen:
        screen.wait_for("Breakpoint 1, fibonacci")
        screen.type("delete\ncontinue\n")
        screen.wait_for("exited normally")
        screen.wait_for("The way is back.")
        screen.type("reverse-stepi\nrr-back -w sum\n")
        screen.wait_for("sum: ")
        screen.type("kill\nreverse-stepi\n")
        screen.wait_for("The program is not being run.")
        screen.type("rr-goto start\n")
        screen.wait_for("tick 0 of")
        screen.type("quit\n")
        assert screen.wait() == 0


def test_a_breakpoint_at_the_end_is_met_once() -> None:
    """The end of a recording that was stopped at one: to go on is no other hit, but the end."""
    on = ("continue", "stepi", "continue")
    out = whole(programs.build("spine"), "break puts_total", "rr-start", "rr-goto end", *on, "info breakpoints")
    assert out.count("gdbrr: nothing is recorded behind here. Try: rr-live\n") == len(on), out
    assert "breakpoint already hit 1 time\n" in out, out


def test_at_the_end_of_the_past_the_way_to_the_process_is_told() -> None:
    told = "gdbrr: nothing is recorded behind here. Try: rr-live\n"
    begin = ("tbreak puts_total", "rr-start", "rr-back")
    out = whole(programs.build("spine"), *begin, "continue", "stepi", "rr-live", "continue", "rr-back", "continue")
    assert out.count(told) == 2 and out.rindex(told) < out.index("exited normally"), out


@pytest.mark.parametrize("stop", ["break behind", "tbreak nowhere"])
def test_time_ends_where_the_replay_is_desynchronised(stop: str) -> None:
    """INVARIANT(end-is-reachable): what is in front can be gone to, from a stop and from the program's end."""
    moves = ("rr-back -w known", "rr-goto start", "break before", "continue", "rr-goto end", "rr-live", "rr-when")
    out = whole(programs.build("engines_memory"), "set breakpoint pending on", stop, "rr-start", *moves)
    assert re.search(r"^known: 9 -> 10 at engines_memory\.c:\d+ by thread 1", out, re.MULTILINE), out
    note = r"desynchronised behind tick (\d+) of (\d+)"
    start, end = (re.search(rf"^tick {tick} of (\d+) .*, {note}$", out, re.MULTILINE) for tick in ("0", r"\d+"))
    assert start and end and start.groups() == end.groups() and start[1] == start[2] != start[3], out
    assert "Breakpoint 2, before () at" in out, out
    if stop == "break behind":
        assert re.search(rf"^recording: {start[3]} ticks so far.*, {note}$", out, re.MULTILINE), out
    else:
        assert re.search(rf"^The program has ended; .*\nNote: {note}$", out, re.MULTILINE), out


def test_a_program_that_is_built_anew_in_the_middle_is_named(tmp_path: Path) -> None:
    """What goes back is a replay of the new one then, if none has begun."""
    program = tmp_path / "program"
    shutil.copy(programs.build("engines_memory", ["-O0"]), program)
    anew = f"shell rm {program}; cp {programs.build('rounds')} {program}"
    out = whole(program, "break behind", "rr-start --set follow=off", anew, "rr-goto end", "rr-live", "rr-when")
    assert len(re.findall(rf"^.*, .*'{program}': not as recorded\)?$", out, re.MULTILINE)) == 2, out
