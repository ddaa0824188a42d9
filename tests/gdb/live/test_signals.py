"""Signals that stop a recorded process: which ones, and where it is shown then, as under `run`."""

from __future__ import annotations

import re

import pytest

from harness import programs
from harness.run import run

from ..session import session, whole

pytestmark = pytest.mark.needs("gdb", "gdbserver")

SEEN = ("python print('AT', gdb.selected_frame().name(), hex(gdb.selected_frame().pc())[-3:])", "info symbol $pc")
SEEN += ("output $rax & 0xffffffff", "echo \\n", "print $_siginfo.si_signo", "print $_siginfo.si_code")


def facts(out: str) -> list[str]:
    """Of the library only the distance from a function's beginning is the same in two processes."""
    lines = [line for line in out.splitlines() if re.match(r"AT |\w+ \+ \d+ in|Program received|-?\d+$|\$\d+ = ", line)]
    return [
        re.sub(r" in section .*| 0?x?\w+$", "", line) if line.startswith(("AT", "__", "pause")) else line
        for line in lines
    ]


def under_run(*commands: str) -> str:
    words = ["gdb", "-nx", "-batch"]
    first = ("set pagination off", "set confirm off", "set width 0", "set startup-with-shell off")
    for command in (*first, f"file {programs.build('signals_own')}", *commands):
        words += ["-ex", command]
    return run(*words, limit=60).out


def test_each_stop_is_that_of_run() -> None:
    """A sent SIGSYS among them; behind the call that the kernel has done, with its result, or with why it ended."""
    stops = ("handle SIGUSR1 SIGSYS SIGALRM stop print pass", "BEGIN", *([*SEEN, "continue"] * 3), *SEEN)
    native = under_run(*("run" if command == "BEGIN" else command for command in stops))
    recorded = session(
        programs.build("signals_own"), *("rr-start" if command == "BEGIN" else command for command in stops)
    )
    assert native.count("received signal SIGSYS") >= 2, native
    assert facts(recorded) == facts(native), recorded + native


def test_a_signal_that_is_kept_back_is_forgotten() -> None:
    signals = ("handle SIGUSR1 SIGALRM nostop noprint pass", "handle SIGSYS stop print nopass")
    out = whole(
        programs.build("signals_own"), *signals, "rr-start", "tbreak behind", "continue", "print number", "continue"
    )
    assert "$1 = 10" in out, out
    signals = (
        "handle SIGUSR1 SIGALRM SIGSYS nostop noprint pass",
        "break behind",
        "rr-start",
        "continue",
        "print number",
    )
    assert "$1 = 31" in whole(programs.build("signals_own"), *signals), "nobody is told, and it is delivered"


def test_a_step_from_a_signal_leads_to_its_handler_and_back_to_the_call() -> None:
    moves = ("stepi", "bt 1", "print signal")
    back = ("reverse-stepi", "x/i $pc", "reverse-stepi", "x/i $pc", "rr-live", "x/i $pc - 2")
    stop = ("handle SIGUSR1 SIGSYS stop print pass", "rr-start", "continue")
    assert "#0  handler (" in whole(programs.build("signals_own"), *stop, *moves)
    out = whole(programs.build("signals_own"), *stop, *back)
    assert [bool("syscall" in line) for line in re.findall(r"^(?:=>)? +0x.*$", out, re.MULTILINE)] == [
        True,
        False,
        True,
    ], out
