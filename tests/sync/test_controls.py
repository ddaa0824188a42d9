"""What the demo says about threads decides: other results, orders or addresses give another replay, or none.

Runs in: pytest. May call: gdbrr record, gdbrr replay.
Owns: the negative controls of synchronisation in docs/determinism.md.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fuzz.recordings import Op
from gdbrr.abi import lib
from gdbrr.errors import EXIT_DESYNC
from replay.alter import alter

from .conftest import build, record, replay

Change = Callable[[list[Op]], list[Op]]


def flipped(kind: int, results: dict[int, int]) -> Change:
    """Every operation of this kind has another result."""

    def change(ops: list[Op]) -> list[Op]:
        for op in ops:
            if op.kind == kind and op.result in results:
                op.result = results[op.result]
        return ops

    return change


def dropped(*kinds: int) -> Change:
    return lambda ops: [op for op in ops if op.kind not in kinds]


def freed_by_nobody(ops: list[Op]) -> list[Op]:
    """Threads that were detached before their end do not know of it."""
    newest: dict[int, Op] = {}
    gone = []
    for op in ops:
        before = newest.get(op.thread)
        if op.kind == lib.GR_OP_EXIT and before and before.kind == lib.GR_OP_DETACH:
            gone.append(id(before))
        newest[op.thread] = op
    assert gone
    return [op for op in ops if id(op) not in gone]


def moved_stack(ops: list[Op]) -> list[Op]:
    """The newest stack lies elsewhere."""
    op = [op for op in ops if op.kind == lib.GR_OP_CREATE and op.object][-1]
    op.object += 1 << 30
    return ops


def recorded(name: str, tmp_path: Path) -> tuple[Path, str]:
    """With an event for each operation."""
    demo = tmp_path / f"{name}.demo"
    return demo, record(build(name), demo, options=("--order-log", "clock")).expect(0).out


EBUSY, ETIMEDOUT, EAGAIN = 16, 110, 11


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("sync_barrier", flipped(lib.GR_OP_BARRIER_LEAVE, {0: -1, -1: 0})),
        ("sync_cond_limit", flipped(lib.GR_OP_COND_WOKEN, {ETIMEDOUT: 0, 0: ETIMEDOUT})),
        ("sync_sem_limit", flipped(lib.GR_OP_SEM_WAIT, {ETIMEDOUT: 0})),
        ("sync_attributes", moved_stack),
        ("sync_detach_ends", freed_by_nobody),
    ],
)
def test_control_other_results_give_another_output(name: str, change: Change, tmp_path: Path) -> None:
    demo, out = recorded(name, tmp_path)
    result = replay(alter(demo, tmp_path / "altered.demo", change))
    assert result.out != out


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("sync_queue", dropped(lib.GR_OP_COND_SIGNAL)),
        ("sync_rwlock", dropped(lib.GR_OP_RWLOCK_UNLOCK)),
        ("sync_spin", dropped(lib.GR_OP_SPIN_UNLOCK)),
        ("sync_sem", dropped(lib.GR_OP_SEM_POST)),
        ("sync_once", dropped(lib.GR_OP_ONCE_DONE)),
        ("sync_once", flipped(lib.GR_OP_ONCE, {0: 1, 1: 0})),
        ("sync_unwinder", flipped(lib.GR_OP_ONCE, {0: 1, 1: 0})),
        ("sync_detach", dropped(lib.GR_OP_DETACH)),
        ("sync_robust", flipped(lib.GR_OP_MUTEX_LOCK, {130: 0})),
        ("sync_cancel_wait", dropped(lib.GR_OP_CANCELED)),
        ("sync_cancel_compute", dropped(lib.GR_OP_CANCELED)),
        ("sync_cancel_test", dropped(lib.GR_OP_CANCEL)),
        ("sync_main_leaves", dropped(lib.GR_OP_LAST)),
    ],
)
def test_control_what_cannot_be_kept_is_reported(name: str, change: Change, tmp_path: Path) -> None:
    demo, _ = recorded(name, tmp_path)
    result = replay(alter(demo, tmp_path / "altered.demo", change)).expect(EXIT_DESYNC)
    assert "desynchronised" in result.err


@pytest.mark.parametrize("name", ["sync_futex", "sync_yield"])
def test_waits_of_the_program_itself_may_be_missing(name: str, tmp_path: Path) -> None:
    """The order of its atomics is not in the demo, so neither can the number of its waits be relied upon."""
    demo, out = recorded(name, tmp_path)
    change = dropped(lib.GR_OP_BLOCK, lib.GR_OP_YIELD)
    assert replay(alter(demo, tmp_path / "altered.demo", change)).expect(0).out == out


def test_race_of_the_programs_own_atomics_is_reported_or_harmless(tmp_path: Path) -> None:
    """Who took a lock of the program's own first is in no operation: a replay says so, and never hangs."""
    for number in range(4):
        demo = tmp_path / f"{number}.demo"
        first = record(build("race_futex"), demo).expect(0)
        result = replay(demo)
        if result.status == EXIT_DESYNC:
            assert "desynchronised at tick" in result.err
        else:
            assert (result.status, result.out) == (0, first.out)
