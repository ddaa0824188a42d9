"""Signals: delivered at operations or in the middle of a computation, replayed exactly there.

Runs in: pytest. May call: gdbrr record, gdbrr replay.
Owns: the rows of docs/determinism.md that name it.
"""

from __future__ import annotations

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
SYSTEM_PYTHON = Path("/usr/bin/python3")
BEHIND, WITHIN, LOOP, ON_TOP = 1, 2, 3, 4
USR1 = 10
CLONE3 = 435

AT_OPERATIONS = [
    "signal_alarm_pause",
    "signal_itimer_reads",
    "signal_chld",
    "signal_nested",
    "signal_longjmp",
    "signal_altstack",
    "signal_restart",
    "signal_suspend",
    "signal_wait_thread",
    "signal_timer_create",
    "signal_pthread_kill",
    "signal_within",
    "signal_fourth",
    "signal_segv_longjmp",
    "signal_fpe_edit",
]
LOOPS = ["alarm", "memory", "register", "spin", "work", "nested", "float", "down"]
patched_and_trapped = pytest.mark.parametrize("patch", ["on", "off"], ids=["patched", "trapped"])
DEATHS = {"abort": 6, "term": 15, "segv": 11, "reset": 10, "child": 9, "trap": 5}


def recorded(
    program: Path, demo: Path, arguments: Sequence[str | Path] = (), status: int = 0, patch: str = "on"
) -> Result:
    return run(*GDBRR, "record", "--set", f"engine.patch={patch}", "-o", demo, "--", program, *arguments).expect(status)


def replayed(demo: Path) -> Result:
    return run(*GDBRR, "replay", demo)


def signals_of(demo: Path) -> list[Op]:
    """The signals that the demo holds."""
    from gdbrr.demo.reader import Demo

    with Demo.open(demo) as source:
        return [
            Op(e.thread, e.kind, e.nr, e.object, e.result, e.check, e.flags, e.data)
            for e in source.events()
            if e.kind == lib.GR_OP_SIGNAL
        ]


@patched_and_trapped
@pytest.mark.parametrize("name", AT_OPERATIONS)
def test_a_replay_prints_what_the_recording_did(name: str, patch: str, tmp_path: Path) -> None:
    demo = tmp_path / "a.demo"
    first = recorded(programs.build(name), demo, patch=patch)
    for _ in range(3):
        assert replayed(demo).expect(0).out == first.out


@patched_and_trapped
@pytest.mark.parametrize("name", ["signal_fork_within", "signal_stashed", "signal_queue"])
def test_program_sees_what_it_sees_without_the_engine(name: str, patch: str, tmp_path: Path) -> None:
    """A child of a handler in the middle of a wait waits on; signals that the kernel never blocks are pending; all that
    waited are handled as soon as they are let in.
    """
    demo = tmp_path / "a.demo"
    first = recorded(programs.build(name), demo, patch=patch)
    assert first.out == run(programs.build(name)).expect(0).out
    for _ in range(3):
        assert replayed(demo).expect(0).out == first.out


@patched_and_trapped
def test_small_transfers_are_what_they_are_without_the_engine(patch: str, tmp_path: Path) -> None:
    """INVARIANT(begun-is-ended): lengths, errors, and signals around reads and writes that take the short way."""
    program, demo = programs.build("calls_quick"), tmp_path / "a.demo"
    first = recorded(program, demo, ["fixed"], patch=patch)
    assert first.out == run(program, "fixed").expect(0).out
    assert first.out.count("signals 0") > 15 and "interrupted: -1, Interrupted system call, signals 14" in first.out
    assert replayed(demo).expect(0).out == first.out


@patched_and_trapped
def test_handlers_of_one_moment_begin_as_without_the_engine(patch: str, tmp_path: Path) -> None:
    """INVARIANT(all-before-the-next): in front of the first instruction of the one before, which has clean vectors."""
    program, demo = programs.build("signal_many"), tmp_path / "a.demo"
    first = recorded(program, demo, patch=patch)
    assert first.out == run(program).expect(0).out and ": 34m()34m()28m()12m()10mR()" in first.out
    # A second one of its kind waits, without SA_NODEFER.
    assert [op.flags for op in signals_of(demo)].count(ON_TOP) == 4 * 3 + 4 * 4
    for _ in range(3):
        assert replayed(demo).expect(0).out == first.out


@patched_and_trapped
def test_signals_among_small_transfers_come_where_they_came(patch: str, tmp_path: Path) -> None:
    program, demo = programs.build("calls_quick"), tmp_path / "a.demo"
    first = recorded(program, demo, ["random"], patch=patch)
    assert len(signals_of(demo)) >= 200
    for _ in range(2):
        assert replayed(demo).expect(0).out == first.out
    # The control: it does differ from run to run.
    assert len({run(program, "random").expect(0).out for _ in range(3)}) > 1


def test_no_handler_runs_where_a_condition_is_signalled(tmp_path: Path) -> None:
    """INVARIANT(within-has-more): pthread_cond_signal may wait behind its only event."""
    demo = tmp_path / "a.demo"
    first = recorded(programs.build("signal_cond_signal"), demo, ["20000"])
    points = {op.flags for op in signals_of(demo)}
    assert BEHIND in points and WITHIN not in points
    assert replayed(demo).expect(0).out == first.out


@pytest.mark.parametrize("how", LOOPS)
@pytest.mark.needs("perf_breakpoints")
def test_a_loop_without_operations_is_left_at_the_same_pass(how: str, tmp_path: Path) -> None:
    demo = tmp_path / "a.demo"
    first = recorded(programs.build("signal_loop"), demo, [how])
    assert [op.flags for op in signals_of(demo)] == [LOOP]
    for _ in range(2):
        assert replayed(demo).expect(0).out == first.out


@pytest.mark.parametrize("how", ["counter", "reused"])
@pytest.mark.needs("perf_breakpoints")
def test_a_loop_behind_the_use_of_locks_is_left_at_the_same_pass(how: str, tmp_path: Path) -> None:
    """A replay leaves their bytes otherwise; but where a loop computes, there are no locks any more."""
    demo = tmp_path / "a.demo"
    first = recorded(programs.build("signal_loop_locks"), demo, [how])
    assert [op.flags for op in signals_of(demo)] == [LOOP]
    for _ in range(3):
        assert replayed(demo).expect(0).out == first.out


def test_vector_registers_hold_nothing_behind_a_library_function(tmp_path: Path) -> None:
    """What the library left there in the recording would be missing on replay, and by it a loop is known again."""
    demo = tmp_path / "a.demo"
    program = programs.build("vectors")
    assert recorded(program, demo).out == "0 0 1234 1234\n"
    assert replayed(demo).expect(0).out == "0 0 1234 1234\n"
    assert run(program).expect(0).out != "0 0 1234 1234\n"


@pytest.mark.needs("perf_breakpoints")
def test_a_loop_beside_a_waiting_thread_is_left_at_the_same_pass(tmp_path: Path) -> None:
    demo = tmp_path / "a.demo"
    first = recorded(programs.build("signal_loop_threads"), demo)
    assert LOOP in [op.flags for op in signals_of(demo)]
    for _ in range(2):
        assert replayed(demo).expect(0).out == first.out


@pytest.mark.needs("perf_breakpoints")
@patched_and_trapped
def test_an_interpreter_is_interrupted_at_the_same_place(patch: str, tmp_path: Path) -> None:
    demo = tmp_path / "a.demo"
    script = Path(__file__).with_name("interrupted.py")
    first = recorded(SYSTEM_PYTHON, demo, [script], patch=patch)
    assert first.out.count("\n") == 2
    assert replayed(demo).expect(0).out == first.out


@pytest.mark.needs("perf_breakpoints")
def test_a_child_between_two_loops(tmp_path: Path) -> None:
    """What a child reports its stores in and what a loop is looked at with are two areas of the engine's zone."""
    demo = tmp_path / "a.demo"
    first = recorded(SYSTEM_PYTHON, demo, [Path(__file__).with_name("twice.py")])
    assert [op.flags for op in signals_of(demo)].count(LOOP) == 2
    assert replayed(demo).expect(0).out == first.out


@pytest.mark.needs("perf_breakpoints")
def test_a_loop_between_two_digests(tmp_path: Path) -> None:
    """So are the list of mappings for a digest and that."""
    demo = tmp_path / "a.demo"
    first = run(*GDBRR, "record", "--digest=1", "-o", demo, "--", programs.build("signal_loop"), "memory").expect(0)
    assert [op.flags for op in signals_of(demo)] == [LOOP]
    assert replayed(demo).expect(0).out == first.out


@pytest.mark.parametrize(("how", "number"), DEATHS.items())
def test_a_death_by_a_signal_is_died_again(how: str, number: int, tmp_path: Path) -> None:
    demo = tmp_path / "a.demo"
    first = recorded(programs.build("signal_death"), demo, [how], status=128 + number)
    again = replayed(demo).expect(128 + number)
    assert again.out == first.out


def test_a_handler_runs_while_its_thread_waits_in_a_library_function(tmp_path: Path) -> None:
    demo = tmp_path / "a.demo"
    recorded(programs.build("signal_within"), demo)
    assert sum(op.flags == WITHIN for op in signals_of(demo)) >= 10


@patched_and_trapped
def test_a_handler_that_is_taken_away_under_way(patch: str, tmp_path: Path) -> None:
    """A delivery and a change of its action are in the order in which they happened; seen in one recording of ten."""
    program = programs.build("signal_lost")
    for i in range(10):
        first = recorded(program, tmp_path / f"{i}.demo", patch=patch)
        assert first.out.startswith("100 good, end 0, ")
        assert replayed(tmp_path / f"{i}.demo").expect(0).out == first.out


def ends_before_the_new_thread(ops: list[Op]) -> list[Op]:
    """The recording ended when a thread was made and had come to no operation yet."""
    made = next(i for i, op in enumerate(ops) if op.kind == lib.GR_OP_SYS_END and op.nr == CLONE3 + 1)
    return [op for op in ops[: made + 1] if op.thread == 0]


def test_a_thread_without_operations_does_not_matter(tmp_path: Path) -> None:
    demo = tmp_path / "a.demo"
    recorded(programs.build("signal_within"), demo)
    replayed(alter(demo, tmp_path / "altered.demo", ends_before_the_new_thread)).expect(0)


# ---------------------------------------------------------------- negative controls
def signals_dropped(ops: list[Op]) -> list[Op]:
    return [op for op in ops if op.kind != lib.GR_OP_SIGNAL]


def one_signal_dropped(ops: list[Op]) -> list[Op]:
    del ops[next(i for i, op in enumerate(ops) if op.kind == lib.GR_OP_SIGNAL)]
    return ops


def signal_later(ops: list[Op]) -> list[Op]:
    """The same thread takes it an operation later."""
    at = next(i for i, op in enumerate(ops) if op.kind == lib.GR_OP_SIGNAL and op.flags == BEHIND)
    behind = [i for i, op in enumerate(ops) if i > at and op.thread == ops[at].thread]
    return [*ops[:at], *ops[at + 1 : behind[1] + 1], ops[at], *ops[behind[1] + 1 :]]


def other_signal(ops: list[Op]) -> list[Op]:
    next(op for op in ops if op.kind == lib.GR_OP_SIGNAL).nr = USR1
    return ops


def other_state(ops: list[Op]) -> list[Op]:
    """The memory of the recorded moment is another one: it must not be taken for found."""
    op = next(op for op in ops if op.kind == lib.GR_OP_SIGNAL)
    memory = 128 + 8 * 19
    op.data = op.data[:memory] + bytes(8) + op.data[memory + 8 :]
    return ops


def other_pass(ops: list[Op]) -> list[Op]:
    """The pass of the loop is one that never comes: the pilot stands between two of its values."""
    op = next(op for op in ops if op.kind == lib.GR_OP_SIGNAL)
    registers = bytearray(op.data)
    registers[128 + 8 * 11] ^= 0x55  # rbx
    op.data = bytes(registers)
    return ops


@pytest.mark.parametrize("change", [signals_dropped, one_signal_dropped, signal_later, other_signal])
@pytest.mark.parametrize("name", ["signal_itimer_reads", "signal_restart"])
def test_control_without_its_signals_a_replay_is_desynchronised(
    name: str, change: Callable[[list[Op]], list[Op]], tmp_path: Path
) -> None:
    demo = tmp_path / "a.demo"
    recorded(programs.build(name), demo)
    result = replayed(alter(demo, tmp_path / "altered.demo", change)).expect(EXIT_DESYNC)
    assert "desynchronised at tick" in result.err


@pytest.mark.needs("perf_breakpoints")
@pytest.mark.parametrize("change", [other_state, other_pass])
@pytest.mark.parametrize("words", [("signal_loop", "nested"), ("signal_loop_locks", "reused")], ids=lambda w: w[0])
def test_control_another_state_is_never_taken_for_the_moment(
    words: tuple[str, str], change: Callable[[list[Op]], list[Op]], tmp_path: Path
) -> None:
    demo = tmp_path / "a.demo"
    recorded(programs.build(words[0]), demo, [words[1]])
    result = replayed(alter(demo, tmp_path / "altered.demo", change)).expect(EXIT_DESYNC)
    assert "in the middle of a computation" in result.err
