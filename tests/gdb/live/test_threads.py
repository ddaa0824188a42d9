"""Where the threads of a process under rr-start are shown: in the program and its libraries, whatever they do. Steps
through what the engine does for them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import programs

from ..session import whole

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")

STOPS = 12
THREADS = 17
"""And those that `bears` makes."""
LOOK = ("continue", "info threads")
LOCKS = 9, 10, 12, 13
"""Threads of `stands` that are hardly ever in the program's own code: asks, shares, allocates, writes."""
BUSY = *LOCKS, 14, 15


def stands() -> Path:
    return programs.build("stands", ["-pthread"])


NAMELESS = r"\?\? \(\) from \S+/libc\.so"
"""In the C library, where its symbols are not installed."""


def frames(out: str) -> list[str]:
    """The first frame of every thread at every stop."""
    return re.findall(r'^[* ] +\d+ +Thread \S+ "stands" (.*)$', out, re.MULTILINE)


def places(out: str) -> list[str]:
    """The functions of newest frames, as `bt 1` and `frame` show them."""
    return re.findall(r"^#0 +(?:0x[0-9a-f]+ in )?(\S+)", out, re.MULTILINE)


def test_no_thread_is_shown_in_the_engine() -> None:
    """Those that wait stand at their calls, those on their way into the engine or out of it where they came from, those
    that have not begun where their lives start."""
    out = whole(stands(), "break here", "rr-start", *LOOK * STOPS, "delete", "continue")
    shown = frames(out)
    assert len(shown) >= THREADS * STOPS, out
    known = [re.sub(NAMELESS, "libc", frame) for frame in shown]
    strange = [frame for frame in known if "libgdbrr" in frame or "??" in frame or re.search(r"\bgr_", frame)]
    assert not strange, strange
    calls = [f"{name}|__syscall_cancel_arch" for name in ("read", "clock_nanosleep")]  # there in glibc 2.41
    for function in ("locks", "waits", "sems", "syscall", "computes", *calls):
        name = rf"\b(?:__GI_|__libc_|___libc_)*(?:{function})\b"
        assert any(re.search(f"{name}|{NAMELESS}", frame) for frame in shown), (function, out)
    assert "wrong 0\n" in out and "exited normally" in out, out


def test_with_engine_frames_they_are_shown_there() -> None:
    """So the threads of the test above did stand in the engine."""
    out = whole(stands(), *("set gdbrr engine-frames on", "break here", "rr-start", *LOOK * STOPS, "kill"))
    assert sum("libgdbrr" in frame for frame in frames(out)) > STOPS, out


def test_a_thread_behind_its_last_operation_is_shown_at_the_call_that_ends_it() -> None:
    """But for a breakpoint at which it is in the engine; and it does end."""
    look = ("frame 0", "set scheduler-locking on", "stepi", "frame 0", "print $rax", "backtrace")
    out = whole(
        programs.build("scenes", ["-O0"]),
        *("break here", "rr-start threads", "delete", "break gr_thread_ended", "continue"),
        *(*look, "set scheduler-locking off", "delete", "continue"),
    )
    inside, shown = (place.removeprefix("__GI_") for place in places(out)[:2])
    assert inside == "gr_thread_ended" and shown in ("start_thread", "advise_stack_range", "??"), out
    assert "$1 = 60\n" in out and "exited normally" in out, out


def test_at_a_system_call_its_number_is_shown() -> None:
    """On the way in and on the way out, where the frame has the result already, and while the call's signal is due."""
    look = ("continue", "thread 14", "x/i $pc", "print $rax")
    out = whole(stands(), "break here", "rr-start", *look * STOPS, "kill")
    numbers = re.findall(r"=> \S+ <syscall\+\d+>:\tsyscall.*\n\$\d+ = (\d+)$", out, re.MULTILINE)
    assert numbers and set(numbers) == {"39"}, out


def test_a_thread_in_a_call_is_stepped_out_of_it() -> None:
    """It comes to the program's code again, at once, and what it and the others do stays right."""
    steps = [command for thread in BUSY for command in (f"thread {thread}", *["stepi", "bt 1"] * 4)]
    out = whole(
        stands(), *("set args 1000000", "break here", "rr-start", "continue 3", "delete", *steps, "print wrong", "kill")
    )
    assert len(places(out)) == len(BUSY) * 5 and not any(place.startswith("gr_") for place in places(out)), out
    assert "libgdbrr" not in out and "SIG" not in out and "$1 = 0\n" in out, out


def test_registers_of_a_thread_in_a_call_are_not_written() -> None:
    """Nor is a function called there: both would change those of the engine. Memory is the program's."""
    change = ("set $rax = 1", "print (int)getpid()", "set var wrong = 7", "print wrong")
    out = whole(
        stands(),
        *("set args 1000000", "break here", "rr-start", "continue 3", "delete", "rr-live -e"),
        *(command for thread in (4, 14) for command in (f"thread {thread}", *change)),
        *("thread 1", "print (int)getpid() != 0", "kill"),
    )
    refused = "this thread is in the middle of an operation. Step to its end first'"
    assert out.count(refused) == 4, out
    assert "$1 = 7\n" in out and "$2 = 7\n" in out and "$3 = 1\n" in out, out


CALLED = "malloc@plt", "pthread_mutex_lock@plt", "pthread_mutex_unlock@plt"


def opaque() -> Path:
    return programs.build("opaque", ["-pthread"])


def test_a_call_into_the_engine_is_one_step() -> None:
    """Others go on meanwhile, and come to breakpoints that are not for them."""
    out = whole(
        opaque(),
        *("break get", "rr-start", "delete", "break free if $_thread > 100", "stepi"),
        *("x/i $pc", *["stepi", "x/i $pc"] * 16, "delete", "continue"),
    )
    code = re.findall(r"^=> 0x(\w+) <([\w@]+)[^>]*>:\s+(\w+)", out, re.MULTILINE)
    assert len(code) == 17 and {place for _, place, _ in code} >= {"get", "malloc@plt", "pthread_mutex_lock@plt"}, out
    assert not {place for _, place, _ in code} - {"get", *CALLED}, out
    own = [int(addr, 16) for addr, place, _ in code if place == "get"]
    assert own == sorted(set(own)), out
    assert "wrong 0\n" in out and "exited normally" in out, out


def test_steps_from_a_breakpoint_in_the_engine() -> None:
    """Where it shall be seen it is: a step there leads out of it, with all others coming to the same breakpoint."""
    out = whole(
        opaque(),
        *("break get", "rr-start", "delete", "break malloc if $_thread == 1", "continue", "bt 2", "next", "frame"),
        *("continue", "bt 2", "stepi", "bt 2", "stepi", "bt 1", "continue", "finish", "frame"),
        *("delete", "break pthread_mutex_lock if $_thread == 1", "continue", "next", "frame", "delete", "continue"),
    )
    shown = re.findall(r"^#\d +(?:0x[0-9a-f]+ in )?(\S+) .*?(?:opaque.c:(\d+))?$", out, re.MULTILINE)
    inside, around, behind = ("malloc", ""), ("get", "26"), ("get", "27")
    assert shown == [inside, around, behind, inside, around, inside, around, around, around, ("get", "28")], out
    assert "wrong 0\n" in out and "exited normally" in out, out


def test_what_the_engine_calls_for_an_operation_is_no_stop() -> None:
    """The C library's lock behind the engine's has the breakpoint as well: in the middle of an operation, which is
    shown at its call, where GDB has none. A thread that stopped there stopped again whenever it was resumed."""
    begin = ("break get", "rr-start", "delete", "break pthread_mutex_lock if $_thread == 1")
    out = whole(opaque(), *begin, *["continue", "next", "frame"] * 5, "delete", "continue")
    assert re.findall(r"^#0 +(\S+) .*opaque.c:(\d+)$", out, re.MULTILINE) == [("get", "28")] * 5, out
    assert "wrong 0\n" in out and "exited normally" in out, out
