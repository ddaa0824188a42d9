"""How sessions begin: behind another one in the same GDB, at an end that is near or far, and at the start at once."""

from __future__ import annotations

import re
import shutil
import signal
from pathlib import Path

import pytest

from fuzz.recordings import Op
from gdbrr.abi import lib
from harness import programs
from harness.run import gdbrr
from replay.alter import alter

from .session import recorded, session, whole

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")

AT_ONCE = "set gdbrr patience 0"
"""The server does not wait for the end of any demo, however near."""

MEANWHILE = "python import gdbrr.ingdb.session; gdbrr.ingdb.session._AT_ONCE = 0"
"""GDB connects at the start, and is at the end when that is reached soon."""

CRASHED = 128 + signal.SIGSEGV


def places(text: str) -> list[str]:
    return re.findall(r"^tick .*", text, re.MULTILINE)


def unnumbered(place: str) -> str:
    """GDB numbers threads in the order in which it meets them."""
    return re.sub(r"thread \d+", "thread", place)


def test_a_session_behind_a_move_begins_without_a_signal(tmp_path: Path) -> None:
    """GDB 13.1 announces the first stop of a connection when the last one before was a random signal to it."""
    program = programs.build("spine")
    demo = tmp_path / "x.demo"
    gdbrr("record", "-o", demo, "--", program).expect(0)
    out = session(
        program,
        *("break puts_total", "rr-start", "rr-back", f"rr-replay {demo}", "rr-goto 20", f"rr-replay {demo}"),
        *("rr-goto start", "rr-start", "rr-when", "rr-live"),
    )
    assert "received signal" not in out
    assert out.count("\ntick ") == 5
    assert out.count("recording: ") == 1


@pytest.mark.parametrize(("name", "status"), [("past_crash", CRASHED), ("moments", 0)])
def test_the_end_is_the_same_by_either_way(name: str, status: int, tmp_path: Path) -> None:
    program = programs.build(name)
    demo = recorded(program, tmp_path, status=status)
    near = session(program, f"rr-replay {demo}", "bt", "info registers rip rsp")
    far = session(program, AT_ONCE, f"rr-replay {demo}", "bt", "info registers rip rsp")
    assert places(near) == places(far) and len(places(far)) == 1 and "(100%)" in places(far)[0]
    assert near[near.index("\ntick") :] == far[far.index("\ntick") :]
    more = ("info threads", "print $_siginfo.si_signo")
    assert whole(program, f"rr-replay {demo}", *more) == whole(program, MEANWHILE, f"rr-replay {demo}", *more)


def test_at_the_start_at_once_and_at_the_end_later(tmp_path: Path) -> None:
    program = programs.build("past_crash")
    demo = recorded(program, tmp_path, status=CRASHED)
    out = session(program, f"rr-replay --start {demo}", "rr-goto 3", "rr-goto end", "print $_siginfo.si_signo")
    start, third, end = places(out)
    assert start.startswith("tick 0 of ") and third.startswith("tick 3 of ") and "(100%)" in end
    assert "SIGSEGV" in out[out.index(third) :] and "$1 = 11" in out


def test_forward_from_the_start_to_a_crash(tmp_path: Path) -> None:
    program = programs.build("past_crash")
    demo = recorded(program, tmp_path, status=CRASHED)
    out = session(program, f"rr-replay --start {demo}", "continue", "print $_siginfo.si_signo")
    assert "SIGSEGV" in out and "$1 = 11" in out


def test_what_cannot_be_reached_is_said_when_it_is_known(tmp_path: Path) -> None:
    """INVARIANT(end-is-reachable)."""

    def last_unlock_dropped(ops: list[Op]) -> list[Op]:
        del ops[max(i for i, op in enumerate(ops) if op.kind == lib.GR_OP_MUTEX_UNLOCK)]
        return ops

    program = programs.build("moments")
    demo = alter(recorded(program, tmp_path, "--order-log", "clock"), tmp_path / "altered.demo", last_unlock_dropped)
    near = whole(program, f"rr-replay {demo}")
    for commands in ([AT_ONCE, f"rr-replay {demo}"], [f"rr-replay --start {demo}", "rr-goto end", "rr-when"]):
        far = whole(program, *commands)
        assert unnumbered(places(far)[-1]) == unnumbered(places(near)[-1])
        assert re.search(r"desynchronised behind tick \d+ of \d+", far)
    forward = whole(program, f"rr-replay --start {demo}", "continue", "rr-when")
    assert "desynchronised" in forward, forward


def test_a_program_that_was_built_anew_is_named(tmp_path: Path) -> None:
    program = tmp_path / "program"
    shutil.copy(programs.build("spine"), program)
    demo = recorded(program, tmp_path)
    shutil.copy(programs.build("moments"), program)
    out = whole(program, f"rr-replay {demo}")
    note = rf"^Note: desynchronised behind tick \d+ of \d+ \('{program}': not as recorded\)$"
    assert re.search(note, out, re.MULTILINE), out


def test_options_that_are_wrong_end_no_recording() -> None:
    program = programs.build("spine")
    wrong = ("rr-start --order foo", "rr-start -p nosuch", "rr-start --set time=foo", "rr-start --seed 1x")
    out = whole(program, "break puts_total", "rr-start", *wrong, "rr-when", "rr-start --order serial", "rr-when")
    refused = re.findall(r"^rr-start: (?!.*internal)(.*)\. \S", out, re.MULTILINE)
    assert len(refused) == len(wrong) and "killed" not in out[: out.index("recording: ")], out
    assert len(re.findall(r"^recording: \d+ ticks so far", out, re.MULTILINE)) == 2, out
