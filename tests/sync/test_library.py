"""Locks inside the C library are operations: what several threads do with one stream or generator replays in order.

Runs in: pytest. May call: gdbrr record, gdbrr replay, gdb.
Owns: the rows of docs/determinism.md that name it.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from fuzz.recordings import Op
from gdb.session import session
from gdbrr.abi import lib
from gdbrr.config.profiles import Profile
from gdbrr.demo.reader import Demo
from gdbrr.errors import EXIT_DESYNC
from gdbrr.timeline.timeline import open_demo
from harness import programs
from harness.run import gdbrr, run
from replay.alter import alter

from .conftest import build, record, replay

PROGRAMS = (
    *("libc_random", "libc_stream", "libc_output", "libc_directory", "libc_lists", "libc_loader", "libc_putc"),
    *("libc_signal", "libc_descriptor"),
)
RECORDINGS, REPLAYS = 3, 2
BEFORE = 0

pytestmark = pytest.mark.limit(300)


def locks(demo: Path) -> int:
    """Those with an event of their own, and what was counted: these programs use nothing else that is."""
    kinds = (lib.GR_OP_LIBRARY_LOCK, lib.GR_OP_RUN)
    with Demo.open(demo) as source:
        return sum(event.kind in kinds for event in source.events())


# ---------------------------------------------------------------- the order
@pytest.mark.parametrize("order", ["parallel", "serial", "random"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_replays_as_recorded(name: str, order: str, tmp_path: Path) -> None:
    for number in range(RECORDINGS if order == "parallel" else 1):
        demo = tmp_path / f"{number}.demo"
        first = record(build(name), demo, options=("--order", order)).expect(0)
        assert locks(demo) > 50
        for _ in range(REPLAYS):
            assert replay(demo).expect(0).out == first.out


def test_where_it_is_no_operation_nobody_waits_inside_the_library(tmp_path: Path) -> None:
    """INVARIANT(never-in-vain): the program looks for that; natively it finds it."""
    result = record(build("libc_stacks"), tmp_path / "x.demo").expect(0)
    assert "yes\n" in result.err
    assert "!is_called" in run(build("libc_stacks")).expect(99).err


def test_single_characters_are_not_lost(tmp_path: Path) -> None:
    """The library locks streams for them only when it knows of a second thread."""
    for number in range(3):
        out = record(build("libc_putc"), tmp_path / f"{number}.demo").expect(0).out
        assert out.startswith("20000 characters\n")


@pytest.mark.parametrize("order", ["serial", "random", "pct"])
def test_states_are_the_same_while_the_library_waits_for_a_condition(order: str, tmp_path: Path) -> None:
    """A mutex of its own then has several users; its owner, a kernel id, is no part of a state all the same."""
    for number in range(RECORDINGS):
        demo = tmp_path / f"{number}.demo"
        first = record(build("libc_aio"), demo, options=("--order", order, "--digest=1")).expect(0)
        for _ in range(REPLAYS):
            assert replay(demo).expect(0).out == first.out


@pytest.mark.parametrize("digest", [(), ("--digest=8",)], ids=["plain", "digest"])
@pytest.mark.parametrize("order", ["parallel", "serial", "random", "pct"])
def test_a_handler_begins_while_its_thread_waits_for_such_a_lock(
    order: str, digest: tuple[str, ...], tmp_path: Path
) -> None:
    """The program comes to its end only so: who holds the lock waits for the handlers."""
    demo = tmp_path / "x.demo"
    first = record(build("libc_signal"), demo, options=("--order", order, *digest)).expect(0)
    found = re.search(r"^(\d+) handlers in a wait", first.out, re.MULTILINE)
    assert found and int(found[1]) > 20
    for _ in range(REPLAYS):
        assert replay(demo).expect(0).out == first.out


def test_control_without_these_handlers_a_replay_is_desynchronised(tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    record(build("libc_signal"), demo).expect(0)
    altered = alter(
        demo,
        tmp_path / "altered.demo",
        lambda ops: [op for op in ops if op.kind != lib.GR_OP_SIGNAL or op.flags != BEFORE],
    )
    assert "desynchronised at tick" in replay(altered).expect(EXIT_DESYNC).err


@pytest.mark.parametrize("order", ["parallel", "serial", "random", "pct"])
def test_a_signal_to_a_thread_that_is_about_to_end(order: str, tmp_path: Path) -> None:
    """The library sends none to a thread that has said so, under a lock in its descriptor."""
    for number in range(RECORDINGS):
        demo = tmp_path / f"{number}.demo"
        first = record(build("libc_ending"), demo, options=("--order", order)).expect(0)
        for _ in range(REPLAYS):
            assert replay(demo).expect(0).out == first.out


def test_control_without_it_such_a_signal_is_missed(tmp_path: Path) -> None:
    for number in range(20):  # of those with 16,000 threads some half
        demo, threads = tmp_path / f"{number}.demo", str(500 << min(number, 5))
        record(build("libc_ending"), demo, threads, options=("--set", "engine.locks=off")).expect(0)
        if replay(demo).status == EXIT_DESYNC:
            return
    pytest.fail("every replay sent what the recording did")


@pytest.mark.parametrize("name", [*PROGRAMS, "libc_ending", "libc_aio"])
def test_the_program_differs_from_run_to_run(name: str) -> None:
    first = run(build(name)).expect(0).out
    assert any(run(build(name)).expect(0).out != first for _ in range(100))


def test_control_without_it_a_replay_differs(tmp_path: Path) -> None:
    """Or the threads came one after the other, each in one slice of its processor: then they draw more."""
    for number in range(5):
        demo, draws = tmp_path / f"{number}.demo", str(500_000 << number)
        first = record(build("libc_random"), demo, draws, options=("--set", "engine.locks=off")).expect(0)
        assert locks(demo) == 0
        if replay(demo).out != first.out:
            return
    pytest.fail("every replay printed what the recording did")


def test_control_another_value_is_reported(tmp_path: Path) -> None:
    def change(ops: list[Op]) -> list[Op]:
        found = [op for op in ops if op.kind == lib.GR_OP_LIBRARY_LOCK]
        found[100].result += 1
        return ops

    demo = tmp_path / "x.demo"
    record(build("libc_random"), demo, options=("--order-log", "clock")).expect(0)
    result = replay(alter(demo, tmp_path / "altered.demo", change))
    assert result.status == EXIT_DESYNC
    assert "a lock of the C library holds" in result.err


@pytest.mark.parametrize("order", ["parallel", "serial"])
def test_a_library_whose_locks_are_not_found_is_refused_by_name(order: str, tmp_path: Path) -> None:
    """One like ours, in which the function that waits for a lock has another name."""
    maps = run(sys.executable, "-c", "print(open('/proc/self/maps').read())").expect(0).out
    ours = next(Path(line.split()[-1]) for line in maps.splitlines() if line.endswith("/libc.so.6"))
    other = ours.read_bytes().replace(b"__lll_lock_wait_private\0", b"__lll_lock_wait_privatX\0")
    (tmp_path / "libc.so.6").write_bytes(other)
    words = ("record", "--order", order, "-o", tmp_path / "x.demo")
    surroundings = {"LD_LIBRARY_PATH": str(tmp_path)}
    first = gdbrr(*words, build("libc_random"), "10", env=surroundings).expect(1)
    assert "the C library waits for its locks in another way" in first.err
    assert "Record with --set engine.locks=off" in first.err
    gdbrr(*words, "--set", "engine.locks=off", build("libc_random"), "10", env=surroundings).expect(0)


# ---------------------------------------------------------------- what it leaves alone
def test_one_thread_has_no_such_operation(tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    record(build("libc_alone"), demo).expect(0)
    assert locks(demo) == 0


def test_a_fault_of_the_instruction_is_the_programs_own(tmp_path: Path) -> None:
    demo, crash = tmp_path / "x.demo", tmp_path / "crash.demo"
    program = build("libc_fault")
    first = record(program, demo).expect(0)
    assert first.out == run(program).expect(0).out == replay(demo).expect(0).out
    record(program, crash, "crash").expect(139)
    replay(crash).expect(139)
    with open_demo(crash) as timeline:
        leaf = timeline.seek(timeline.end)
        pc = next(view.regs["rip"] for view in leaf.threads() if view.index == leaf.thread)
        assert timeline.previous(timeline.end) is not None
        leaf.drop()
    assert pc != 0


def test_a_demo_that_does_not_name_the_setting_is_older() -> None:
    data = json.loads(json.dumps(Profile.from_json({"name": "x", "source": "y", "values": {}}).to_json()))
    assert Profile.from_json(data).knobs()["locks"] == 0


# ---------------------------------------------------------------- under GDB
TO_THE_INSTRUCTION = (
    "python while 'cmpxchg' not in gdb.execute('x/i $pc', to_string=True): gdb.execute('stepi', to_string=True)"
)


@pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")
def test_one_step_over_the_instruction_in_both_directions(tmp_path: Path) -> None:
    program, demo = programs.build("libc_random"), tmp_path / "x.demo"
    record(program, demo, "200").expect(0)
    show = ("x/i $pc", "rr-when")
    out = session(
        program,
        *(f"rr-replay {demo}", "break random", "reverse-continue", "delete", TO_THE_INSTRUCTION),
        *(*show, "stepi", *show, "reverse-stepi", *show, "stepi", *show, "x/3i random", "disassemble random"),
    )
    steps = re.findall(r"^=> 0x\w+ <(?:__)?random(?:\+(\d+))?>:\t(.*)", out, re.MULTILINE)
    assert len(steps) == 4, out
    assert "lock cmpxchg" in steps[0][1] and "jne" in steps[1][1], out
    assert steps[2] == steps[0] and steps[3] == steps[1], out
    ticks = [int(tick) for tick in re.findall(r"^tick (\d+)", out, re.MULTILINE)][1:]
    assert ticks == [ticks[0], *[ticks[0] + 1] * 3], "shown in front of its tick"
    assert "SIGSEGV" not in out and "(bad)" not in out and "hlt" not in out


@pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")
def test_a_function_that_is_called_in_the_past_takes_such_a_lock(tmp_path: Path) -> None:
    program, demo = programs.build("libc_random"), tmp_path / "x.demo"
    record(program, demo, "200").expect(0)
    out = session(
        program,
        *(f"rr-replay {demo}", "break draw", "reverse-continue", "delete"),
        *("print (long)random() >= 0", "print (long)random() >= 0", "reverse-continue"),
    )
    assert re.findall(r"^\$\d+ = (.*)$", out, re.MULTILINE) == ["1", "1"], out
    assert "SIGSEGV" not in out


@pytest.mark.needs("gdb", "gdbserver")
def test_recorded_from_gdb_with_a_breakpoint_in_the_function(tmp_path: Path) -> None:
    program = programs.build("libc_random")
    out = session(
        program,
        *("rr-start 200", "break random", "continue", *["stepi"] * 8, r'printf "LIVE %d\n", $_thread', "x/i $pc"),
        *("delete", "next", "next", "rr-goto start", "continue"),
    )
    assert re.search(r"^LIVE \d+", out, re.MULTILINE), out
    assert "SIGSEGV" not in out and "desynchronised" not in out, out
