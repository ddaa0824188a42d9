"""Threads that wait in loops without an operation, recorded in turns below a debugger: they give way, and replay."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gdbrr.abi import lib
from gdbrr.demo.reader import Demo
from harness import programs
from harness.run import gdbrr, run

from ..session import whole

pytestmark = [pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints"), pytest.mark.limit(300)]

ORDERS = ("serial", "random", "pct")
DRAWN = re.compile(r"^[abc]{24}$", re.MULTILINE)


def flags() -> Path:
    return programs.build("turn_flags")


def spins(demo: Path) -> int:
    """How many of the stops are of spins that were proved; all of them are."""
    with Demo.open(demo) as source:
        stops = [event.flags for event in source.events() if event.kind == lib.GR_OP_PREEMPT]
    assert not any(stops), stops
    return len(stops)


def test_the_program_differs_from_run_to_run() -> None:
    assert len({run(flags()).expect(0).out for _ in range(4)}) > 1


@pytest.mark.parametrize("order", ORDERS)
def test_it_replays_as_it_was_recorded(tmp_path: Path, order: str) -> None:
    demo = tmp_path / "x.demo"
    out = whole(flags(), f"rr-start --order {order}", f"rr-save {demo}")
    printed = DRAWN.search(out)
    assert printed and spins(demo) > 10, out
    for _ in range(2):
        assert gdbrr("replay", demo).expect(0).out == f"{printed[0]}\n"


def test_from_a_stop_back_and_on_again(tmp_path: Path) -> None:
    """Behind the stop its thread waits for ever, where a replay goes on alone: no second pass is waited for."""
    demo = tmp_path / "x.demo"
    last = ("rr-back -w turn", "print round_", "print turn == me")
    out = whole(
        flags(),
        *("break passed if round_ == 12", "rr-start --order serial", *last, *last, "rr-goto 0", "print round_"),
        *("rr-live", "print round_", "delete", "continue", f"rr-save {demo}"),
    )
    printed = DRAWN.search(out)
    assert re.findall(r"^\$\d+ = (\d+)$", out, re.MULTILINE) == ["11", "1", "10", "1", "0", "12"], out
    assert printed and gdbrr("replay", demo).expect(0).out == f"{printed[0]}\n"


def test_saved_at_a_stop_it_replays_to_there(tmp_path: Path) -> None:
    """With what its thread did behind its last operation."""
    demo = tmp_path / "x.demo"
    out = whole(
        flags(), "break passed if round_ == 12", "rr-start --order serial", "print drawn", f"rr-save {demo}", "kill"
    )
    drawn = re.search(r'^\$1 = "([abc]{12})"', out, re.MULTILINE)
    gdbrr("replay", demo).expect(0)
    again = whole(flags(), f"rr-replay {demo}", "rr-goto 100%", "print drawn")
    assert drawn and f'$1 = "{drawn[1]}"' in again, (out, again)
