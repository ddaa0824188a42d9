"""One thread at a time: races replay exactly, the seed decides the order, and nothing that waits holds others up.

Runs in: pytest. May call: gdbrr record, gdbrr replay, gdbrr info.
Owns: the rows of docs/determinism.md that name it.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from gdbrr.abi import lib
from gdbrr.demo.reader import Demo
from gdbrr.errors import EXIT_DESYNC
from harness import ROOT, programs
from harness.run import Result, gdbrr, run
from replay.alter import alter

ORDERS = ("serial", "random", "pct")
RECORDINGS, REPLAYS = 20, 3
SIGNALS = (
    "signal_within",
    "signal_pthread_kill",
    "signal_wait_thread",
    "signal_restart",
    "signal_suspend",
    "signal_timer_create",
    "signal_chld",
    "signal_longjmp",
    "signal_lost",
)
WAITERS = (
    "sync_queue",
    "sync_cond_limit",
    "sync_cancel_wait",
    "sync_robust",
    "sync_churn",
    "sync_crowd",
    "sync_cxx_atomic",
)
NOTE = "went on beside the next"
MOST_IN_A_ROW = 1024

pytestmark = pytest.mark.limit(600)


def record(name: str, demo: Path, order: str, *words: str, options: tuple[str, ...] = ()) -> Result:
    return gdbrr("record", "--order", order, *options, "-o", demo, "--", programs.build(name), *words)


def events(demo: Path) -> list[tuple[object, ...]]:
    """What happened, to which object, by which thread; without results, which may be times and kernel ids."""
    with Demo.open(demo) as source:
        return [(event.thread, event.kind, event.nr, event.object) for event in source.events()]


# ---------------------------------------------------------------- races
def test_the_program_differs_from_run_to_run() -> None:
    program = programs.build("turn_race")
    first = run(program).expect(0).out
    assert any(run(program).expect(0).out != first for _ in range(100))


@pytest.mark.parametrize("order", ORDERS)
def test_races_replay_exactly(order: str, tmp_path: Path) -> None:
    for number in range(RECORDINGS):
        demo = tmp_path / f"{number}.demo"
        first = record("turn_race", demo, order).expect(0)
        assert NOTE not in first.err
        for _ in range(REPLAYS):
            assert gdbrr("replay", demo).expect(0).out == first.out


@pytest.mark.parametrize("order", ORDERS)
def test_what_follows_a_gift_stands_where_it_stood(order: str, tmp_path: Path) -> None:
    """INVARIANT(turn-at-operations): where giving something up costs the turn, it comes back with an event."""
    demo = tmp_path / "x.demo"
    for _ in range(3):
        first = record("turn_behind", demo, order).expect(0)
        assert gdbrr("replay", demo).expect(0).out == first.out


def threads_that_arrived(demo: Path) -> int:
    """Threads whose newest event is that it is another one's turn."""
    with Demo.open(demo) as source:
        last = {event.thread: event.kind for event in source.events()}
    return sum(kind == lib.GR_OP_TURN for kind in last.values())


@pytest.mark.parametrize("order", ["random", "pct"])
def test_what_is_done_in_front_of_an_operation_that_never_comes(order: str, tmp_path: Path) -> None:
    """INVARIANT(arrival-is-known): of a thread that never has the turn again."""
    arrived = 0
    for seed in range(1, RECORDINGS + 1):
        demo = tmp_path / f"{seed}.demo"
        first = record("turn_arrived", demo, order, options=("--seed", str(seed))).expect(0)
        arrived += threads_that_arrived(demo)
        assert gdbrr("replay", demo).expect(0).out == first.out
    assert arrived > RECORDINGS


def test_control_without_its_arrival_it_is_not_done(tmp_path: Path) -> None:
    for seed in range(1, RECORDINGS + 1):
        demo = tmp_path / f"{seed}.demo"
        first = record("turn_arrived", demo, "pct", options=("--seed", str(seed))).expect(0)
        changed = alter(demo, tmp_path / "altered.demo", lambda ops: [op for op in ops if op.kind != lib.GR_OP_TURN])
        if gdbrr("replay", changed).out != first.out:
            return
        changed.unlink()
    pytest.fail("every replay printed what the recording did")


@pytest.mark.parametrize("order", ORDERS)
def test_a_runtime_with_atomics_of_its_own(order: str, tmp_path: Path) -> None:
    program = programs.build("tasks", ("-O2", "-fopenmp"), ROOT / "tests" / "apps" / "programs")
    for seed in range(1, RECORDINGS + 1):
        demo = tmp_path / f"{seed}.demo"
        first = gdbrr("record", "--order", order, "--seed", str(seed), "-o", demo, "--", program).expect(0)
        assert gdbrr("replay", demo).expect(0).out == first.out


def test_races_between_operations_that_are_only_counted(tmp_path: Path) -> None:
    """INVARIANT(runs-in-turns): a run begins behind all that others did before its thread was given the turn."""
    for number in range(3):
        demo = tmp_path / f"{number}.demo"
        first = record("turn_counted", demo, "serial").expect(0)
        with Demo.open(demo) as source:
            counted = [event.thread for event in source.events() if event.kind == lib.GR_OP_RUN]
        assert len(counted) > 200_000
        assert sum(one != other for one, other in itertools.pairwise(counted)) > 100
        for _ in range(2):
            assert gdbrr("replay", demo).expect(0).out == first.out


def test_control_recorded_in_parallel_they_do_not(tmp_path: Path) -> None:
    """On one core most recordings replay by chance: the threads come one after the other, but for some slices."""
    for number in range(5 * RECORDINGS):
        demo = tmp_path / f"{number}.demo"
        first = record("turn_race", demo, "parallel").expect(0)
        result = gdbrr("replay", demo)
        assert result.status in (0, EXIT_DESYNC)
        assert result.status or result.out == first.out
        assert not result.status or "record with --order serial" in result.err
        if result.status or result.out != first.out:
            return
        demo.unlink()
    pytest.fail("every replay printed what the recording did")


def test_a_replay_that_waits_for_nobody_is_reported_and_ends(tmp_path: Path) -> None:
    """Recorded in parallel, a flag that others set is in no operation: who looks at it has the turn for good."""
    demo = tmp_path / "x.demo"
    record("turn_loop", demo, "parallel", "flag").expect(0)
    result = gdbrr("replay", demo).expect(EXIT_DESYNC)
    assert "without coming to its next operation" in result.err
    assert "record with --order serial" in result.err


@pytest.mark.needs("perf_breakpoints")
def test_in_turns_the_same_replays(tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    first = record("turn_loop", demo, "serial", "flag").expect(0)
    assert gdbrr("replay", demo).expect(0).out == first.out


def test_nobody_keeps_the_turn_for_long(tmp_path: Path) -> None:
    """Threads of which none ever waits: each has some thousand operations in a row."""
    demo = tmp_path / "x.demo"
    record("turn_counted", demo, "serial").expect(0)
    with Demo.open(demo) as source:
        together = itertools.takewhile(lambda event: event.kind != lib.GR_OP_EXIT, source.events())
        rows = [sum(1 for _ in row) for _, row in itertools.groupby(event.thread for event in together)]
    assert 500 < max(rows) < 2 * MOST_IN_A_ROW
    assert len(rows) > 100


# ---------------------------------------------------------------- the seed
@pytest.mark.parametrize("order", ORDERS)
def test_the_same_seed_gives_the_same_order(order: str, tmp_path: Path) -> None:
    first, second = tmp_path / "1.demo", tmp_path / "2.demo"
    for seed in (1, 4294967295):
        for demo in (first, second):
            record("turn_locks", demo, order, options=("--seed", str(seed))).expect(0)
        assert events(first) == events(second)
        assert gdbrr("replay", first).expect(0).out == gdbrr("replay", second).expect(0).out


@pytest.mark.parametrize("order", ["random", "pct"])
def test_other_seeds_give_other_orders(order: str, tmp_path: Path) -> None:
    seen = set()
    for seed in range(1, 11):
        demo = tmp_path / f"{seed}.demo"
        record("turn_locks", demo, order, options=("--seed", str(seed))).expect(0)
        seen.add(tuple(events(demo)))
    assert len(seen) > 1


def test_a_seed_that_was_drawn_is_shown_and_can_be_used_again(tmp_path: Path) -> None:
    first, second = tmp_path / "1.demo", tmp_path / "2.demo"
    record("turn_locks", first, "random").expect(0)
    shown = json.loads(gdbrr("info", "--json", first).expect(0).out)["profile"]["values"]["seed"]
    assert shown["value"] > 0 and shown["origin"] == "drawn"
    assert f"random, seed {shown['value']}, profile default" in gdbrr("info", first).expect(0).out
    record("turn_locks", second, "random", options=("--seed", str(shown["value"]))).expect(0)
    assert events(first) == events(second)


# ---------------------------------------------------------------- who waits, and who does not give way
@pytest.mark.parametrize("order", ORDERS)
def test_handlers_in_waiting_threads(order: str, tmp_path: Path) -> None:
    first = record("turn_signal", tmp_path / "x.demo", order).expect(0)
    assert first.out == "Interrupted system call after 1, taken after 2\n"


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", SIGNALS)
def test_handlers_replay_where_they_ran(name: str, order: str, tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    first = record(name, demo, order).expect(0)
    assert NOTE not in first.err
    for _ in range(2):
        assert gdbrr("replay", demo).expect(0).out == first.out


@pytest.mark.parametrize("order", ["parallel", *ORDERS])
def test_a_signal_ends_each_wait(order: str, tmp_path: Path) -> None:
    """A semaphore and a futex of the program's own: with and without SA_RESTART, with and without a limit."""
    demo = tmp_path / "x.demo"
    first = record("turn_ended", demo, order).expect(0)
    assert first.out.split() == ["interrupted", "taken", "interrupted"] * 2
    assert gdbrr("replay", demo).expect(0).out == first.out


@pytest.mark.parametrize("order", ORDERS)
def test_a_forked_child_has_no_turns(order: str, tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    first = record("turn_fork", demo, order).expect(0)
    assert first.out == "2 2 2 2 2 and others ran\n"
    assert gdbrr("replay", demo).expect(0).out == first.out


@pytest.mark.parametrize("order", ORDERS)
def test_a_full_log_lets_everybody_go(order: str, tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    options = ("--set", "limits.log=1M", "--set", "limits.when_full=go_on")
    first = record("turn_locks", demo, order, "30000", options=options).expect(0)
    assert "the log was full" in first.err
    assert first.out.count("\n") == 2


@pytest.mark.parametrize("order", ORDERS)
def test_every_library_object(order: str, tmp_path: Path) -> None:
    """Programs of tests/sync, each with another way to wait: for time, for a thread, for one that never comes."""
    for name in WAITERS:
        demo = tmp_path / f"{name}.demo"
        first = record(name, demo, order).expect(0)
        assert NOTE not in first.err
        assert gdbrr("replay", demo).expect(0).out == first.out
