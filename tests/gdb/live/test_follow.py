"""Going back from a recording: the replay that followed it is there, and stays the same one."""

from __future__ import annotations

import re

import pytest

from harness import programs

from ..session import session

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")

REPLAYS = """python
import os
def fields(pid):
    with open(f"/proc/{pid}/stat") as stat: return stat.read().rpartition(")")[2].split()
def ours(pid):
    while pid > 1:
        pid = int(fields(pid)[1])
        if pid == os.getpid(): return True
def replays():
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try: name, group = open(f"/proc/{pid}/comm").read().strip(), int(fields(pid)[2])
        except OSError: continue
        if name == "rounds" and group == int(pid) and ours(int(pid)): found.append(pid)
    print("REPLAYS", *sorted(found))
"""


def pids(out: str) -> list[list[str]]:
    return [line.split() for line in re.findall(r"^REPLAYS(.*)$", out, re.MULTILINE)]


def stops(options: str, arguments: str, last: str) -> str:
    """Three times a round, then to the end of the program."""
    code = REPLAYS.removeprefix("python\n").replace("'", '"')
    look = ("rr-back -w total", "print total", "rr-when", "python replays()")
    return session(
        programs.build("rounds"),
        *("set gdbrr epoch-ticks 512", f"set args {arguments}", "break round_done"),
        *(f"python exec({code!r})", f"rr-start {options}", *look),
        *("rr-live", "print $live = total", "continue", *look, "reverse-stepi", "rr-goto start", "rr-goto end"),
        *("print total", "rr-live", "print total", "continue", *look),
        *("rr-live", "delete", last, "rr-back -b round_done", "print round", "python replays()"),
    )


def test_every_stop_goes_back_in_the_same_replay() -> None:
    out = stops("", "6", "continue")
    seen = pids(out)
    assert len(seen) == 4 and all(len(row) == 1 for row in seen), out
    assert len({row[0] for row in seen}) == 1, out
    assert re.findall(r"^total: (\d+) -> (\d+)", out, re.MULTILINE) == [
        ("799", "800"),
        ("1599", "1600"),
        ("2399", "2400"),
    ], out
    assert re.findall(r"^\$\d+ = (\d+)$", out, re.MULTILINE) == [
        *("799", "800", "1599", "1600", "1600", "2399", "5"),
    ], out
    assert "approximate" not in out


def test_also_when_it_crashes_and_a_timer_interrupts_it() -> None:
    out = stops("", "6 crash alarms", "continue")
    assert "SIGSEGV" in out
    assert len({pid for row in pids(out) for pid in row}) == 1, out
    assert re.findall(r"^\$\d+ = (\d+)$", out, re.MULTILINE)[-1] == "5", out


@pytest.mark.parametrize("order", ["serial", "random --seed 7"])
def test_in_every_order(order: str) -> None:
    out = stops(f"--order {order}", "6", "continue")
    assert len({pid for row in pids(out) for pid in row}) == 1, out
    assert re.findall(r"^\$\d+ = (\d+)$", out, re.MULTILINE)[-1] == "5", out


def test_without_it_each_stop_has_its_own() -> None:
    seen = pids(stops("--set follow=off", "6", "continue"))
    assert len({pid for row in seen for pid in row}) == 4, seen


@pytest.mark.parametrize(
    ("command", "said"),
    [("rr-back -w total", "total: 2399 -> 2400 at"), ("rr-history -n 1 total", "2400 (was 2399)  ")],
)
def test_behind_its_exit_values_are_those_of_the_end(command: str, said: str) -> None:
    out = session(
        programs.build("rounds"),
        *("set args 3", "break round_done", "rr-start", "rr-back -w total", "rr-live", "delete", "continue", command),
    )
    assert f"\n{said}" in out.partition("exited normally")[2], out
