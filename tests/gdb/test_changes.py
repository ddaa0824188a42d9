"""Functions called and variables written in the past: they reach nothing outside, and the next move undoes them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from harness import programs
from harness.run import gdbrr
from harness.said import NO_MORE

from .session import whole

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")

UNDONE = "gdbrr: what was changed here is undone"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("changes") / "x.demo"
    gdbrr("record", "-o", path, "--", programs.build("past_calls")).expect(0)
    return path


def past(demo: Path, *commands: str) -> str:
    return whole(programs.build("past_calls"), f"rr-replay {demo}", *commands)


# In the program's code; at an operation, where the thread really waits in the engine; at the end.
PLACES = {
    "code": ("break holding", "reverse-continue", "delete"),
    "operation": ("rr-goto 50%",),
    "end": (),
}


@pytest.mark.parametrize("place", PLACES)
def test_functions_can_be_called(demo: Path, place: str) -> None:
    out = past(
        demo,
        *PLACES[place],
        *("print $before = total", "print add(1, 2) - $before", 'print twice("ab")', 'print say("it")'),
        *("print (int)getpid()", "rr-when", "print total - $before", "info registers rip"),
        # A system call is two operations and one step: back, it leads to the second, and others may have run between.
        *("print $here = $rip", "stepi", "reverse-stepi", "set $before = total"),
        *("print add(3, 4) - $before", "print total - $before"),
    )
    values = re.findall(r"^\$\d+ = (.*)$", out, re.MULTILINE)
    assert values[1] == "3", out
    assert '"abab"' in values[2]
    assert "said it" in out and "plainly" in out
    assert values[3] == "8"
    assert values[4] in re.findall(r"Thread (\d+)\.", out + f"Thread {values[4]}.")
    assert re.search(r"^tick .*changed by hand", out, re.MULTILINE), out
    assert values[5] == "0"
    assert values[-2:] == ["7", "0"], out
    assert UNDONE in out


def test_what_was_written_is_undone_by_a_move(demo: Path) -> None:
    out = past(
        demo,
        *("break holding", "reverse-continue", "delete", "print $before = total"),
        *("set var total = 4711", "print total", "set var $rax = 5", "print $rax", "next", "print total-$before-round"),
        *("set var total = 4712", "reverse-stepi", "print total < 100", "set var total = 4713", "rr-goto start"),
        *("print total", "rr-goto end", "print total"),
    )
    values = re.findall(r"^\$\d+ = (.*)$", out, re.MULTILINE)
    assert values[1:] == ["4711", "5", "0", "1", "0", "20"], out
    assert out.count(UNDONE) == 3


def test_a_search_is_for_what_was_recorded(demo: Path) -> None:
    """The value behind the last change is what it made, not what was written by hand."""
    way = ("rr-goto end", "print total", "set var total = 4711")
    out = past(demo, *way, "rr-back -w total", *way, "rr-back 2 -w total", *way, "rr-history -n 1 --csv total")
    behind = re.findall(r"^\$\d+ = (\d+)$", out, re.MULTILINE)[0]
    changes = re.findall(r"^total: (\d+) -> (\d+) ", out, re.MULTILINE)
    assert changes[0][1] == behind and changes[1][1] == changes[0][0], out
    assert re.search(rf"^{behind},{changes[0][0]},", out, re.MULTILINE), out
    assert out.count(UNDONE) == 3, out


def test_nothing_outside_is_changed(demo: Path, tmp_path: Path) -> None:
    made = tmp_path / "made"
    out = past(
        demo,
        *("rr-goto 50%", f'print make_file("{made}")', 'print (int)system("true")', "call (void)exit(3)", "rr-when"),
        *("rr-goto end", "print total"),
    )
    assert not made.exists() and "= -1" in out and "gdbserver ended" not in out, out
    assert "gdbrr: openat was refused" in out and "gdbrr: clone3 was refused" in out
    assert "gdbrr: the called function would end the process here. Any move undoes the call" in out
    assert out.rstrip().endswith("= 20")


def test_a_refused_call_fails_where_one_stands(demo: Path) -> None:
    """Behind a way forwards, too, which began elsewhere; -EPERM is a result as any other."""
    way = ("rr-goto start", "break main", "continue", "print $here = $rip", 'print (int)unlink("/nothing")')
    out = past(demo, *way, "print $rip == $here", "rr-when")
    assert "gdbrr: unlink was refused" in out and "unexpectedly" not in out, out
    assert re.findall(r"^\$[23] = (.*)$", out, re.MULTILINE) == ["-1", "1"], out
    assert re.search(r"^tick .*changed by hand", out, re.MULTILINE), out


KILLER = """
import pathlib, signal, os, sys, time

def children(name):
    for tasks in pathlib.Path("/proc", sys.argv[1], "task").glob("*/children"):
        for pid in tasks.read_text().split():
            try:
                yield pid, pathlib.Path("/proc", pid, name).read_text()
            except OSError:
                pass

while os.path.exists("/proc/" + sys.argv[1]) and not any(text.startswith("230 ") for pid, text in children("syscall")):
    time.sleep(0.01)
for pid, text in children("comm"):
    if text == "gdbserver\\n":
        os.kill(int(pid), signal.SIGKILL)
"""
"""Waits for a copy that sleeps in clock_nanosleep."""


def test_a_gdbserver_that_dies_in_a_called_function(demo: Path, tmp_path: Path) -> None:
    """One stands where it was called, which is not where the last landing was."""
    script = tmp_path / "killer.py"
    script.write_text(KILLER)
    killer = "; ".join(
        (
            "import re, subprocess",
            "said = gdb.execute('info gdbrr', to_string=True)",
            "server = re.search(r'server: +([0-9]+)', said)[1]",
            f"killer = subprocess.Popen(['{sys.executable}', '{script}', server], stdout=subprocess.DEVNULL)",
        )
    )
    way = ("rr-goto start", "break main", "continue", "print $here = $rip", f"python {killer}")
    out = past(demo, *way, "print (unsigned)sleep(30)", "print $rip == $here", "rr-when", "python killer.wait(60)")
    assert "gdbserver ended unexpectedly" in out and UNDONE in out, out
    assert re.findall(r"^\$2 = (.*)$", out, re.MULTILINE) == ["1"], out
    assert re.search(r"^tick (?!0 )", out.rpartition("$2")[2], re.MULTILINE), out


def test_a_lock_that_is_held_is_named(demo: Path) -> None:
    out = past(
        demo,
        *("break holding", "reverse-continue", "delete", "print locked_total()", "backtrace 3", "rr-back"),
        "print total",
        *("rr-goto end", "print locked_total()"),
    )
    assert re.search(r"function would wait for ever for the lock at 0x\w+, which thread \d+ holds", out)
    assert re.search(r"^#\d+ .*pthread_mutex_lock", out, re.MULTILINE), out
    assert UNDONE in out
    assert out.rstrip().endswith("= 20")


def test_a_crash_and_a_breakpoint_in_a_called_function(demo: Path) -> None:
    out = past(
        demo,
        *("rr-goto 50%", "print crash()", "backtrace 1", "reverse-stepi", "set unwindonsignal on", "print crash()"),
        *("break add if a == 7", "print add(6, 1)", "print add(7, 1)", "backtrace 2", "finish", "rr-when", "continue"),
    )
    assert out.count("received signal SIGSEGV") == 2
    assert re.search(r"^#0 .* crash \(\)", out, re.MULTILINE)
    assert "add (a=7, b=1)" in out and "<function called from gdb>" in out
    assert "Value returned is" in out
    assert NO_MORE.search(out)


def test_a_called_function_that_crashed_does_not_go_on(demo: Path) -> None:
    """As where it would end the process: the engine's handler takes no part in a call."""
    ways = ("continue", "continue", "stepi")  # the second without a signal, which comes again
    out = past(demo, "rr-goto 50%", "print crash()", *ways, "backtrace 1", "reverse-stepi", "rr-goto end", "p total")
    assert out.count("gdbrr: a called function gets no signals") == out.count("received signal SIGSEGV") == 2, out
    assert re.search(r"^#0 .* crash \(\)", out, re.MULTILINE), out
    assert "desynchronised" not in out and out.count(UNDONE) == 1 and out.rstrip().endswith("= 20"), out


def test_calls_that_did_not_return_are_in_nobodys_way(demo: Path) -> None:
    """What GDB keeps of each is of a thread that is gone, and stands where the next one returns to; at the start, where
    there is nothing at all."""
    stopped = ("rr-goto here", "print add(6, 1)", "rr-goto start", "stepi", "rr-when")
    out = past(
        demo,
        *("break holding", "reverse-continue", "delete", "rr-mark here", "break add", *stopped * 8),
        *("delete", "rr-goto here", "print $before = total", "print add(1, 2) - $before"),
    )
    assert out.count("add (a=6, b=1)") == 8 and "another thread" not in out, out
    assert "cannot be inserted" not in out and len(re.findall(r"^tick 0:", out, re.MULTILINE)) == 8, out
    assert re.findall(r"^\$\d+ = (.*)$", out, re.MULTILINE)[1:] == ["3"], out


def test_a_change_needs_a_moment_to_come_back_to(demo: Path) -> None:
    """The crash of a program lies behind its last operation, in no segment: it is run to again."""
    program = programs.build("past_crash")
    path = demo.with_name("crash.demo")
    gdbrr("record", "-o", path, "--", program).expect(139)
    out = whole(
        program,
        *(f"rr-replay {path}", "print twice(21)", "set var count = 9", "print count", "stepi", "print count"),
        *("backtrace 1", "reverse-step"),
    )
    values = re.findall(r"^\$\d+ = (.*)$", out, re.MULTILINE)
    assert values == ["42", "9", "3"], out
    assert out.count(UNDONE) == 1


def test_the_recorded_process_is_changed_only_when_its_recording_has_ended() -> None:
    program = programs.build("past_calls")
    out = whole(
        program,
        *("break holding", "rr-start", "print $before = total", "set var total = 100", "print total - $before"),
        *(
            "set var $rax = 3",
            "rr-live -e",
            "rr-when",
            "print add(1, 2) - $before",
            "set var total = 100",
            "next",
            "next",
        ),
        *("print total - round", "rr-goto start", "rr-when", "rr-goto end", "rr-live", "delete", "continue", "rr-when"),
    )
    values = re.findall(r"^\$\d+ = (.*)$", out, re.MULTILINE)
    assert values[1:3] == ["0", "3"], out
    assert out.count("would make the recording false. Try: rr-live -e") == 2
    assert "the recording has ended, this process goes on without it" in out
    assert re.search(r"^total 1[12]\d$", out, re.MULTILINE), "it went on with what was written"
    assert re.search(r"^tick \S+ of \d+ \(100%\)", out[out.rindex("exited normally") :], re.MULTILINE), out


def test_a_script_that_a_refused_write_ends_says_why(tmp_path: Path) -> None:
    script = tmp_path / "write.gdb"
    script.write_text("break holding\nrr-start\nset var total = 100\necho not reached\n")
    out = whole(programs.build("past_calls"), f"source {script}")
    assert "would make the recording false. Try: rr-live -e" in out and "not reached" not in out, out
