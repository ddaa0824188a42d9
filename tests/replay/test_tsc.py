"""The time stamp counter, recorded where the profile asks for it: the same numbers in every replay.

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
from gdbrr.demo.reader import Demo
from gdbrr.errors import EXIT_DESYNC
from harness import programs
from harness.run import Result, run
from replay.alter import alter

GDBRR = (sys.executable, "-m", "gdbrr")
BEFORE = 0
patched_and_trapped = pytest.mark.parametrize("patch", ["on", "off"], ids=["patched", "trapped"])


def recorded(name: str, demo: Path, arguments: Sequence[str] = (), tsc: str = "record", patch: str = "on") -> Result:
    sets = ("--set", f"tsc={tsc}", "--set", f"engine.patch={patch}")
    return run(*GDBRR, "record", *sets, "-o", demo, "--", programs.build(name), *arguments).expect(0)


def replayed(demo: Path) -> Result:
    return run(*GDBRR, "replay", demo)


def events_of(demo: Path, kind: int) -> list[Op]:
    with Demo.open(demo) as source:
        return [Op(e.thread, *e[2:8], e.data) for e in source.events() if e.kind == kind]


@patched_and_trapped
@pytest.mark.parametrize("threads", ["0", "2", "4"])
def test_every_replay_reads_the_recorded_counter(threads: str, patch: str, tmp_path: Path) -> None:
    demo = tmp_path / "a.demo"
    first = recorded("tsc_spin", demo, [threads], patch=patch)
    assert len(events_of(demo, lib.GR_OP_TSC)) > 8 * max(1, int(threads))
    for _ in range(20):
        assert replayed(demo).expect(0).out == first.out


@patched_and_trapped
def test_signals_between_two_readings(patch: str, tmp_path: Path) -> None:
    demo = tmp_path / "a.demo"
    first = recorded("tsc_signal", demo, patch=patch)
    assert [op.flags for op in events_of(demo, lib.GR_OP_SIGNAL)].count(BEFORE) >= 4
    for _ in range(5):
        assert replayed(demo).expect(0).out == first.out


@pytest.mark.parametrize("tsc", ["record", "native"])
def test_a_program_finds_its_own_setting(tsc: str, tmp_path: Path) -> None:
    # GIVEN a program that allows, forbids and asks, and what it prints by itself
    natively = run(programs.build("tsc_own")).expect(0).out.splitlines()
    # WHEN it is recorded, THEN it finds the same, in threads and children too, but for the counter at its end
    demo = tmp_path / "a.demo"
    first = recorded("tsc_own", demo, tsc=tsc)
    assert first.out.splitlines()[:-1] == natively[:-1]
    assert first.out.splitlines()[-1].startswith("2 faults, ")
    again = replayed(demo)
    assert again.out.splitlines()[:-1] == natively[:-1]
    if tsc == "record":
        assert again.expect(0).out == first.out


def test_it_rises_as_fast_as_by_itself(tmp_path: Path) -> None:
    # GIVEN its rate by itself, in thousands a second; there a processor may be behind another one, and it may go back
    rate, _ = run(programs.build("tsc_rate")).expect(0).out.split()
    # WHEN most readings are computed and not made, THEN that does not show, and it never goes back
    first = recorded("tsc_rate", tmp_path / "a.demo")
    found, back = first.out.split()
    assert back == "0"
    assert abs(int(found) / int(rate) - 1) < 0.01
    assert replayed(tmp_path / "a.demo").expect(0).out == first.out


def test_the_profile_full_records_it(tmp_path: Path) -> None:
    demo = tmp_path / "a.demo"
    first = run(*GDBRR, "record", "-p", "full", "-o", demo, "--", programs.build("tsc_spin")).expect(0)
    assert replayed(demo).expect(0).out == first.out


# ---------------------------------------------------------------- negative controls
def test_control_without_the_class_a_replay_differs(tmp_path: Path) -> None:
    demo = tmp_path / "a.demo"
    first = recorded("tsc_spin", demo, tsc="native")
    assert not events_of(demo, lib.GR_OP_TSC)
    again = replayed(demo).expect(EXIT_DESYNC)
    assert again.out != first.out
    assert "--set tsc=record" in again.err


def other_counters(ops: list[Op]) -> list[Op]:
    for op in ops:
        op.result += 64 * (op.kind == lib.GR_OP_TSC)
    return ops


def one_dropped(ops: list[Op]) -> list[Op]:
    del ops[next(i for i, op in enumerate(ops) if op.kind == lib.GR_OP_TSC)]
    return ops


def two_swapped(ops: list[Op]) -> list[Op]:
    """Readings by two different instructions, each with the other's place."""
    places = [i for i, op in enumerate(ops) if op.kind == lib.GR_OP_TSC]
    a = places[0]
    b = next(i for i in places if ops[i].check != ops[a].check)
    ops[a].check, ops[b].check = ops[b].check, ops[a].check
    return ops


def test_control_other_counters_show(tmp_path: Path) -> None:
    demo = tmp_path / "a.demo"
    first = recorded("tsc_spin", demo)
    again = replayed(alter(demo, tmp_path / "altered.demo", other_counters)).expect(EXIT_DESYNC)
    assert again.out != first.out


@pytest.mark.parametrize("change", [one_dropped, two_swapped])
def test_control_another_reading_is_no_replay(change: Callable[[list[Op]], list[Op]], tmp_path: Path) -> None:
    demo = tmp_path / "a.demo"
    recorded("tsc_spin", demo)
    result = replayed(alter(demo, tmp_path / "altered.demo", change)).expect(EXIT_DESYNC)
    assert "desynchronised at tick" in result.err
