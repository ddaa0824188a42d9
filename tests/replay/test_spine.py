"""The spine without a debugger: recorded, replayed on its total order; each mechanism switched off once.

Runs in: pytest. May call: gdbrr record, gdbrr replay.
Owns: the rows of docs/determinism.md that name it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fuzz.recordings import Op
from gdbrr.abi import lib
from gdbrr.errors import EXIT_DESYNC
from harness import programs
from harness.run import Result, run
from replay.alter import alter

GDBRR = (sys.executable, "-m", "gdbrr")
CLOCK_GETTIME, GETRANDOM = 228, 318


def record(program: Path, demo: Path, *options: str, arguments: Sequence[str] = ()) -> Result:
    return run(*GDBRR, "record", "-o", demo, *options, "--", program, *arguments)


def replay(demo: Path, *options: str) -> Result:
    return run(*GDBRR, "replay", *options, demo)


def recorded(name: str, tmp_path: Path, *options: str) -> tuple[Path, Result]:
    demo = tmp_path / f"{name}.demo"
    return demo, record(programs.build(name), demo, *options).expect(0)


def test_the_program_differs_from_run_to_run(tmp_path: Path) -> None:
    program = programs.build("spine")
    assert len({run(program).expect(0).out for _ in range(5)}) > 1


def test_a_replay_prints_what_the_recording_did(tmp_path: Path) -> None:
    demo, first = recorded("spine", tmp_path)
    for _ in range(5):
        assert replay(demo).expect(0).out == first.out


def test_a_recorded_run_prints_only_what_the_program_does(tmp_path: Path) -> None:
    _, result = recorded("spine", tmp_path)
    assert result.out.count("\n") == 1
    assert result.err.startswith("gdbrr: recorded ") and result.err.count("\n") == 1


def test_replay_says_in_json_that_it_was_synchronised(tmp_path: Path) -> None:
    demo, first = recorded("spine", tmp_path)
    result = replay(demo, "--json").expect(0)
    line = result.out.removeprefix(first.out) if result.out.startswith(first.out) else result.out
    assert json.loads(line[line.index("{") :])["synchronised"] is True


# ---------------------------------------------------------------- negative controls
EACH = ("--order-log", "clock")
"""Each operation on a mutex is an event that can be altered. What is only counted: tests/sync/test_runs.py."""


def clock_data(ops: list[Op]) -> list[Op]:
    """Other times: what the clock said goes into the total."""
    seen = 0
    for op in ops:
        if op.kind == lib.GR_OP_SYS_END and op.nr == CLOCK_GETTIME + 1:
            seen += 1
            op.data = op.data[:12] + (seen * 7).to_bytes(8, "little")
    return ops


def turns_swapped(ops: list[Op]) -> list[Op]:
    """Another order: one thread's lock section moves in front of the other's."""
    locks = [i for i, op in enumerate(ops) if op.kind == lib.GR_OP_MUTEX_LOCK]
    late = next(i for i in locks if ops[i].thread != ops[locks[0]].thread)
    thread = ops[late].thread
    moved = [op for op in ops[locks[0] : late + 2] if op.thread == thread]
    rest = [op for op in ops[locks[0] : late + 2] if op.thread != thread]
    return ops[: locks[0]] + moved + rest + ops[late + 2 :]


def unlock_dropped(ops: list[Op]) -> list[Op]:
    del ops[next(i for i, op in enumerate(ops) if op.kind == lib.GR_OP_MUTEX_UNLOCK)]
    return ops


def arguments_changed(ops: list[Op]) -> list[Op]:
    next(op for op in ops if op.kind == lib.GR_OP_SYS_START and op.check).check ^= 1
    return ops


def buffer_overrun(ops: list[Op]) -> list[Op]:
    """More bytes than the call may write: a demo does not get to write where it likes."""
    op = next(op for op in ops if op.kind == lib.GR_OP_SYS_END and op.nr == CLOCK_GETTIME + 1)
    op.data = (4096).to_bytes(4, "little") + bytes(4096)
    return ops


@pytest.mark.parametrize("change", [clock_data, turns_swapped])
def test_control_other_data_or_order_show(change: Callable[[list[Op]], list[Op]], tmp_path: Path) -> None:
    demo, first = recorded("spine", tmp_path, *EACH)
    result = replay(alter(demo, tmp_path / "altered.demo", change))
    assert result.out != first.out


@pytest.mark.parametrize("change", [unlock_dropped, arguments_changed, buffer_overrun])
def test_control_what_cannot_be_kept_is_reported(change: Callable[[list[Op]], list[Op]], tmp_path: Path) -> None:
    demo, _ = recorded("spine", tmp_path, *EACH)
    result = replay(alter(demo, tmp_path / "altered.demo", change)).expect(EXIT_DESYNC)
    assert "desynchronised at tick" in result.err


def test_an_unaltered_copy_replays(tmp_path: Path) -> None:
    """The controls' own control: rewriting a demo is not what makes them fail."""
    demo, first = recorded("spine", tmp_path)
    assert replay(alter(demo, tmp_path / "copy.demo", lambda ops: ops)).expect(0).out == first.out


def test_control_a_native_clock_differs(tmp_path: Path) -> None:
    demo, first = recorded("spine", tmp_path, "--set", "time=native")
    # A total of nanoseconds is the same by chance once in some ten thousand replays.
    assert {replay(demo).out for _ in range(3)} != {first.out}
