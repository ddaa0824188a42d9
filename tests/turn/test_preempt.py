"""Loops without an operation, where one thread at a time runs: left for others and found again at the same pass.

Runs in: pytest. May call: gdbrr record, gdbrr replay.
Owns: the rows of docs/determinism.md that name it; how often they are repeated (GDBRR_PREEMPT_RUNS).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from fuzz.recordings import Op
from gdbrr.abi import lib
from gdbrr.demo.reader import Demo
from gdbrr.errors import EXIT_DESYNC
from harness import programs
from harness.run import Result, gdbrr, run
from replay.alter import alter

ORDERS = ("serial", "random", "pct")
SPINS = ("spin", "pause", "call", "exchange", "backoff", "store")
"""A cycle that changes nothing: proved, at whatever pass."""
LOOPS = ("memory", "register", "vector", "growing", "work", "nested", "repeat")
"""Each pass is another one: the numbers that are printed tell them apart."""
PAUSING = {"growing"}
"""Those that execute `pause`."""
SPIN, LOOP, WAIT = 0, 1, 2
GIVES = 3  # GR_CANCEL_GIVES of preload/replay/cancel.h
LIMIT = 300.0
"""A second of computing is many where the machine is busy."""
RUNS = int(os.environ.get("GDBRR_PREEMPT_RUNS", "1"))

pytestmark = [pytest.mark.limit(600 * RUNS), pytest.mark.needs("perf_breakpoints")]


def record(
    demo: Path, order: str, *words: str, options: tuple[str, ...] = (), status: int = 0, name: str = "preempt"
) -> Result:
    seed = ("--seed", "7")
    program = programs.build(name)
    words = ("--order", order, *seed, *options, "-o", str(demo), "--", str(program), *words)
    return gdbrr("record", *words, limit=LIMIT).expect(status)


def replay(demo: Path) -> Result:
    return gdbrr("replay", demo, limit=LIMIT)


def stops(demo: Path) -> list[int]:
    """How the threads were stopped: the flags of the stops."""
    with Demo.open(demo) as source:
        events = list(source.events())
    assert sum(e.kind == lib.GR_OP_RESUME for e in events) <= sum(e.kind == lib.GR_OP_PREEMPT for e in events)
    return [e.flags for e in events if e.kind == lib.GR_OP_PREEMPT]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("how", SPINS)
def test_a_spin_is_proved_and_gives_way(how: str, order: str, tmp_path: Path) -> None:
    for number in range(RUNS):
        demo = tmp_path / f"{number}.demo"
        first = record(demo, order, how)
        assert set(stops(demo)) == {SPIN} or (order == "pct" and not stops(demo))
        for _ in range(2):
            assert replay(demo).expect(0).out == first.out


@pytest.mark.parametrize("order", ["random", "pct"])
def test_a_loop_of_tests_for_cancellation_gives_way_at_one(order: str, tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    seed = {"random": "1", "pct": "2"}[order]
    program = programs.build("sync_cancel_test")
    first = gdbrr("record", "--order", order, "--seed", seed, "-o", demo, "--", program, limit=LIMIT).expect(0)
    with Demo.open(demo) as source:
        events = list(source.events())
    assert any(e.kind == lib.GR_OP_CANCELED and e.flags == GIVES for e in events)
    for _ in range(2):
        assert replay(demo).expect(0).out == first.out


def loop(how: str, order: str, demo: Path) -> None:
    first = record(demo, order, how)
    assert set(stops(demo)) == {WAIT if how in PAUSING else LOOP} or (order == "pct" and not stops(demo))
    assert replay(demo).expect(0).out == first.out


@pytest.mark.parametrize("how", LOOPS)
def test_a_loop_is_left_at_the_same_pass(how: str, tmp_path: Path) -> None:
    for number in range(RUNS):
        loop(how, "serial", tmp_path / f"{number}.demo")


@pytest.mark.parametrize("order", ["random", "pct"])
@pytest.mark.parametrize("how", LOOPS if RUNS > 1 else ["memory"])
def test_a_loop_in_the_other_orders(how: str, order: str, tmp_path: Path) -> None:
    for number in range(RUNS):
        loop(how, order, tmp_path / f"{number}.demo")


@pytest.mark.parametrize("order", ORDERS)
def test_a_loop_that_pauses_gives_way_at_once(order: str, tmp_path: Path) -> None:
    """Each of some ten times. A loop of the other kind has a second for itself before it has to."""
    for number in range(RUNS):
        demo = tmp_path / f"{number}.demo"
        first = record(demo, order, name="turn_waits")
        assert set(stops(demo)) == {WAIT}
        assert len(stops(demo)) >= 6
        for _ in range(2):
            assert replay(demo).expect(0).out == first.out


def test_what_was_read_before_a_loop_that_pauses_is_not_held_against_it(tmp_path: Path) -> None:
    """The time stamp counter, by a loop that ends before it has to give way."""
    demo = tmp_path / "x.demo"
    first = record(demo, "serial", "counter", name="turn_waits")
    assert WAIT in stops(demo)
    assert replay(demo).expect(0).out == first.out


@pytest.mark.parametrize("how", ["spin", "call", "memory"])
def test_where_perf_events_are_refused(how: str, tmp_path: Path) -> None:
    """The place is found by an int3 in its stead."""
    demo = tmp_path / "x.demo"
    first = record(demo, "serial", how, options=("--set", "points=ptrace"))
    assert len(stops(demo)) == 1
    assert replay(demo).expect(0).out == first.out


def test_the_program_differs_from_run_to_run() -> None:
    assert len({run(programs.build("preempt"), "memory").expect(0).out for _ in range(4)}) > 1


def test_what_was_done_before_a_stop_is_replayed_where_the_demo_ends(tmp_path: Path) -> None:
    """Another thread ends the process, having seen what the stopped one counted."""
    demo = tmp_path / "x.demo"
    first = record(demo, "serial", "memory", "end", status=3)
    assert int(first.out) > 0
    assert replay(demo).expect(3).out == first.out


def test_a_loop_that_reads_the_time_stamp_counter(tmp_path: Path) -> None:
    """Each reading is an operation, where the turn may be handed over; unrecorded it is refused by name."""
    demo = tmp_path / "x.demo"
    first = record(demo, "serial", "counter", options=("--set", "tsc=record"))
    assert replay(demo).expect(0).out == first.out
    words = ("--order", "serial", "-o", tmp_path / "y.demo", "--", programs.build("preempt"), "counter")
    refused = gdbrr("record", *words)
    assert refused.status != 0 and "--set tsc=record" in refused.err


@pytest.mark.parametrize("order", ORDERS)
def test_the_same_seed_gives_the_same_order_with_spins(order: str, tmp_path: Path) -> None:
    """Where a spin is stopped depends on the time, who comes next does not."""
    found = []
    for number in range(2):
        demo = tmp_path / f"{number}.demo"
        record(demo, order, "spin")
        with Demo.open(demo) as source:
            found.append([(e.thread, e.kind) for e in source.events()])
    assert found[0] == found[1]


# ---------------------------------------------------------------- negative controls
def stops_dropped(ops: list[Op]) -> list[Op]:
    return [op for op in ops if op.kind not in (lib.GR_OP_PREEMPT, lib.GR_OP_RESUME)]


def changed(ops: list[Op], word: int) -> list[Op]:
    op = next(op for op in ops if op.kind == lib.GR_OP_PREEMPT)
    value = struct.unpack_from("<Q", op.data, 8 * word)[0] ^ 0x10
    op.data = op.data[: 8 * word] + struct.pack("<Q", value) + op.data[8 * (word + 1) :]
    return ops


def other_memory(ops: list[Op]) -> list[Op]:
    """What the words of the state hold is another thing: the pass must not be taken for found."""
    return changed(ops, 19)


def other_vectors(ops: list[Op]) -> list[Op]:
    return changed(ops, 18)


@pytest.mark.parametrize(
    ("how", "change"),
    [(how, change) for how in ("spin", "memory", "growing") for change in (other_memory, other_vectors)]
    + [("spin", stops_dropped)],
)
def test_control_without_its_stop_a_replay_is_desynchronised(
    how: str, change: Callable[[list[Op]], list[Op]], tmp_path: Path
) -> None:
    demo = tmp_path / "x.demo"
    record(demo, "serial", how)
    result = replay(alter(demo, tmp_path / "altered.demo", change)).expect(EXIT_DESYNC)
    assert "is desynchronised" in result.err


@pytest.mark.parametrize("order", ORDERS)
def test_signals_that_come_to_others_disturb_no_proof(tmp_path: Path, order: str) -> None:
    """Who steps ends that himself: where another one did, the next step had no meaning, and ended the program."""
    demo = tmp_path / "x.demo"
    recorded = record(demo, order, name="preempt_beside")
    assert recorded.out.endswith(" alarms, 20 turns\n") and not recorded.out.startswith("0 ")
    assert replay(demo).expect(0).out == recorded.out
