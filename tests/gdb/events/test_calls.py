"""`catch syscall`: in a replay, in both directions, and in the process that is being recorded."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gdbrr.config import tables
from harness import programs
from harness.run import gdbrr
from harness.said import NO_MORE

from ..session import recorded, whole

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")

CATCHING = Path(__file__).with_name("catching.py")
BEGUN_ANEW = -512


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(programs.build("calls_caught"), tmp_path_factory.mktemp("caught"))


def played(demo: Path, *commands: str) -> str:
    first = (f"rr-replay {demo}", f"source {CATCHING}", "handle SIGUSR1 nostop noprint")
    return whole(programs.build("calls_caught"), *first, *commands)


def caught(out: str, command: str) -> list[tuple[int, str, str, int]]:
    """Tick, call, result (of a start none) and thread of every stop at a call."""
    pattern = rf"\((call to|returned from) syscall (\w+)\)(?:(?!Catchpoint)[^\0])*?^AT {command} (\d+)\S* (\d+) (\S+)$"
    numbers = {str(call.nr): call.name for call in tables.syscalls()}  # a GDB older than a call has no name for it
    return [
        (int(tick), numbers.get(name, name), "" if kind == "call to" else result, int(thread))
        for kind, name, tick, thread, result in re.findall(pattern, out, re.MULTILINE)
    ]


def in_demo(demo: Path) -> list[tuple[int, str, str]]:
    """Tick, call and result as the demo has them. What is in front of a handler comes back there; what was begun anew
    comes back once."""
    rows = [json.loads(line) for line in gdbrr("events", "--json", demo).expect(0).out.splitlines()]
    found = []
    for at, row in enumerate(rows):
        if row["operation"] == "sys_start":
            found.append((row["tick"], row["call"], ""))
        elif row["operation"] == "sys_end" and row["result"] != BEGUN_ANEW:
            behind = next((later for later in rows[at + 1 :] if later["thread"] == row["thread"]), row)
            tick = behind["tick"] if behind["operation"] == "signal" else row["tick"]
            found.append((tick, row["call"], str(row["result"])))
    return sorted(found)


def test_every_call_forwards_and_back(demo: Path) -> None:
    out = played(
        demo,
        *("catch syscall", "rr-goto start", "python caught('continue')"),
        *("rr-goto end", "python caught('reverse-continue')"),
    )
    forwards, backwards = caught(out, "continue"), caught(out, "reverse-continue")
    assert len(forwards) > 40 and forwards == backwards[::-1], out
    assert [row[:3] for row in forwards] == in_demo(demo), out
    assert {"pause", "rt_sigreturn", "exit_group"} <= {row[1] for row in forwards}


def test_by_name_beside_breakpoints(demo: Path) -> None:
    """In the order of time, whatever stops it; a call stepped into is none to stop at."""
    out = played(
        demo,
        *("catch syscall write", "break handler", "rr-goto start", *["continue"] * 6, *["reverse-continue"] * 5),
        *("delete", "tcatch syscall pipe2", "reverse-continue", "rr-goto start", "catch syscall read"),
        *("continue", "stepi", "rr-when", "condition 4 $_thread == 1", *["continue"] * 2),
    )
    stops = re.findall(r"hit (?:Temporary catchpoint|Catchpoint|Breakpoint) \d+(?: \((\w+) .*? (\w+)\)|, (\w+))", out)
    names = [" ".join(filter(None, words)) for words in stops]
    there = ["call write", "returned write", "handler", "call write", "returned write", "handler"]
    assert names[:11] == [*there, *there[4::-1]], out
    # Begun anew behind the handler, if the signal found it waiting.
    assert names[11:14] == ["returned pipe2", "call read", "call read"] and names[14].endswith(" read"), out
    assert re.search(r"^tick \d+:0x[0-9a-f]+#1 .*thread [2-9]", out, re.MULTILINE), "the step is over the call"


def test_where_nothing_is_called(demo: Path) -> None:
    out = played(
        demo, "catch syscall fork", "reverse-continue", "rr-when", "continue", "rr-when", "catch syscall nothing"
    )
    assert len(NO_MORE.findall(out)) == 2, out
    ticks = [int(tick) for tick in re.findall(r"^tick (\d+)", out, re.MULTILINE)]
    assert ticks[1] == 0 and ticks[2] == ticks[0], out
    assert "Unknown syscall name 'nothing'" in out, out


def test_a_breakpoint_in_data_leaves_it_as_it_is(demo: Path) -> None:
    """As GDB sets one where it takes a word for a return address."""
    out = played(demo, "rr-goto start", "break *(char *) &handled", "continue", "print handled", "rr-when")
    assert "$1 = 14\n" in out, out


def test_in_the_process_that_is_recorded() -> None:
    """It stops where its replay does, also on the way through its past."""
    out = whole(
        programs.build("calls_caught"),
        *("handle SIGUSR1 nostop noprint", "handle SIGALRM nostop noprint", "catch syscall write", "rr-start"),
        *("print $rax", "continue", "print $rax", "stepi", "reverse-continue", "print $rax", "reverse-continue"),
        *("print $rax", "rr-live", "continue", "continue", "rr-live -e", "continue", "delete", "break handler"),
        *("continue", "print number", "delete", "continue"),
    )
    write = [("call", "write"), ("returned", "write")]
    assert re.findall(r"Catchpoint \d+ \((\w+) .*? (\w+)\)", out) == [*write, *write[::-1], *write], out
    assert re.findall(r"^\$\d+ = (\d+)$", out, re.MULTILINE) == ["1", "3", "3", "1", "10"], out
    assert "are not caught behind the end of a recording. Delete the catchpoint" in out, out
    assert "handled 14, pid 1" in out and "exited normally" in out, out
