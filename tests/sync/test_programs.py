"""Every program about threads replays as it was recorded: output and exit status.

Runs in: pytest. May call: gdbrr record, gdbrr replay.
Owns: which programs need arguments, which do not end by themselves.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gdbrr.abi import lib
from gdbrr.demo.reader import Demo
from harness import programs
from harness.run import run

from .conftest import build, names, record, replay

# They have tests of their own.
APART = {"sync_deadlock", "sync_deadlock_library", "sync_cancel_compute", "sync_ends"}
ATOMIC = {"sync_cxx_future"}
"""The state of a std::future is an atomic in the program's own code, whose order is in no parallel recording."""
SHARED = re.compile(r"atomic|volatile")
"""Variables whose order is in no recording of order `parallel`: where the output does not show it, a digest does."""
MANY = {
    "sync_crossing": "--digest=500",
    "sync_crowd": "--digest=20",
    "sync_edges": "--digest=8",
    "sync_cells": "--digest=8",
}
"""Of hundreds of thousands of operations, or of hundreds of threads, not behind each."""
TOLD = {"sync_identity", "sync_own_ids"}
"""pthread_setname_np leaves the name of a file below the stack pointer, with the thread's number in this process, and a
handler in front of pthread_kill has that among its saved registers: a digest sees it."""
ENDS = {"exit": 5, "_exit": 6, "quick_exit": 7, "abort": 134, "crash": 139}
RECORDINGS, REPLAYS = 2, 2

pytestmark = pytest.mark.limit(300)


@pytest.mark.needs("g++")
@pytest.mark.parametrize("name", [name for name in names() if name not in APART])
def test_replays_as_recorded(name: str, tmp_path: Path) -> None:
    """The second time with digests of the state, wherever they can be taken."""
    program, source = build(name), next(programs.SOURCES.glob(f"{name}.c*")).read_text()
    for digest in ((), (MANY.get(name, "--digest=1"),)):
        order = ("--order", "serial") if name in ATOMIC or (digest and SHARED.search(source)) else ()
        demo = tmp_path / f"{len(digest)}.demo"
        options = (*order, *(() if name in TOLD else digest))
        first = record(program, demo, options=options).expect(0)
        for _ in range(REPLAYS):
            assert replay(demo).expect(0).out == first.out


def test_who_comes_first_to_the_unwinder_is_known(tmp_path: Path) -> None:
    """The C library looks whether it is loaded without a lock, so there is an operation in front of that."""
    demo = tmp_path / "x.demo"
    record(build("sync_unwinder"), demo).expect(0)
    with Demo.open(demo) as source:
        asked = [event for event in source.events() if event.kind == lib.GR_OP_ONCE]
        first = next(event for event in asked if event.result == 1)
    assert len({event.thread for event in asked if event.object == first.object}) == 6


@pytest.mark.parametrize("how", ENDS)
def test_end_while_others_run(how: str, tmp_path: Path) -> None:
    for number in range(RECORDINGS):
        demo = tmp_path / f"{number}.demo"
        first = record(build("sync_ends"), demo, how).expect(ENDS[how])
        for _ in range(REPLAYS):
            assert replay(demo).expect(ENDS[how]).out == first.out


@pytest.mark.needs("g++")
def test_programs_differ_from_run_to_run() -> None:
    """Or their replays would prove nothing. What is the same every time may be so by chance, most are not."""
    several = [name for name in names() if name not in APART]
    first = {name: run(build(name)).expect(0).out for name in several}
    same = [name for name in several if all(run(build(name)).expect(0).out == first[name] for _ in range(20))]
    assert len(several) >= 40
    assert len(same) <= len(several) // 8, same


@pytest.mark.parametrize(("order", "threads"), [("parallel", 3), ("serial", 1)])
def test_a_computation_is_cancelled_where_it_was(order: str, threads: int, tmp_path: Path) -> None:
    """Asynchronous cancellation without an operation: cleanup handlers find the same on replay."""
    demo = tmp_path / "x.demo"
    first = record(build("sync_cancel_compute"), demo, str(threads), options=("--order", order)).expect(0)
    lines = [re.fullmatch(r"1 at (\d+), cleaned up at (\d+)", line) for line in first.out.splitlines()]
    assert len(lines) == threads
    assert all(line and line[1] == line[2] and int(line[1]) > 0 for line in lines)
    for _ in range(2):
        assert replay(demo).expect(0).out == first.out
