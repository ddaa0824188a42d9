"""Copies of a replay, woken where locks of every kind are held: owners are right, whatever ids their threads have.

Runs in: pytest. May call: gdbrr record; the timeline.
Owns: nothing.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gdbrr.timeline.model import Leaf, Moment, Point, PointKind
from gdbrr.timeline.timeline import open_demo

from .conftest import build, record

pytestmark = [pytest.mark.needs("perf_breakpoints"), pytest.mark.limit(300)]

MUTEX, KINDS, OWNER = 40, 6, 8


def symbols(program: Path) -> dict[str, int]:
    done = subprocess.run(["nm", program], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
    rows = [line.split() for line in done.stdout.splitlines()]
    return {row[2]: int(row[0], 16) for row in rows if len(row) == 3}


def word(leaf: Leaf, address: int) -> int:
    with open(f"/proc/{leaf.pid}/mem", "rb", buffering=0) as memory:
        return int.from_bytes(os.pread(memory.fileno(), 4, address), "little")


@pytest.fixture(scope="module")
def program() -> Path:
    return build("sync_sections", "-no-pie")


@pytest.mark.parametrize("checkpoints", [2, 32])
def test_it_goes_on_from_inside_sections(program: Path, checkpoints: int, tmp_path: Path) -> None:
    """With few checkpoints, every seek goes a long way from one; with many, each wakes inside some section."""
    where = symbols(program)
    demo = tmp_path / "x.demo"
    record(program, demo, options=("--set", "epochs.ticks=16", "--set", f"limits.checkpoints={checkpoints}")).expect(0)
    with open_demo(demo) as timeline:
        end = timeline.seek(timeline.end)
        assert (word(end, where["counter"]), word(end, where["errors"]), word(end, where["inside"])) == (36, 0, 0)
        held = 0
        for tick in range(timeline.end.tick - 11, 0, -timeline.end.tick // 25):
            leaf = timeline.seek(Moment(tick))
            ids = {view.recorded_tid for view in leaf.threads()}
            owners = {word(leaf, where["mutex"] + MUTEX * kind + OWNER) for kind in range(KINDS)} - {0}
            assert owners <= ids
            assert len(owners) <= 1  # they are taken inside of one another
            assert word(leaf, where["errors"]) == 0
            held += len(owners)
            leaf.drop()
        assert held >= 5


@pytest.mark.parametrize("points", ["perf", "ptrace"])
def test_search_runs_through_sections(program: Path, points: str, tmp_path: Path) -> None:
    where = symbols(program)
    demo = tmp_path / "x.demo"
    record(program, demo, options=("--set", "epochs.ticks=16", "--set", f"points={points}")).expect(0)
    with open_demo(demo) as timeline:
        before, values = timeline.end, []
        while hit := timeline.last_hit([Point(PointKind.CHANGE, where["counter"], 4)], before):
            values.append(hit.new)
            before = hit.moment
            assert timeline.last_hit([Point(PointKind.CHANGE, where["errors"], 4)], before) is None or hit.new
            if len(values) == 6:
                break
    assert values == [36, 35, 34, 33, 32, 31]


def test_it_goes_on_inside_of_the_loader(tmp_path: Path) -> None:
    """The loader's own locks are taken by the library and hold kernel ids, which differ from copy to copy."""
    program = build("sync_dlopen", "-no-pie", "-ldl")
    where = symbols(program)
    demo = tmp_path / "x.demo"
    record(program, demo, options=("--set", "epochs.ticks=16", "--set", "limits.checkpoints=6")).expect(0)
    with open_demo(demo) as timeline:
        seen = [word(timeline.seek(Moment(tick)), where["loaded"]) for tick in range(40, timeline.end.tick, 37)]
        assert seen == sorted(seen)
        assert word(timeline.seek(timeline.end), where["loaded"]) == 16


@pytest.mark.parametrize("order", ["parallel", "serial"])
def test_it_goes_on_while_the_library_looks_for_locales(order: str, tmp_path: Path) -> None:
    """INVARIANT(collect-then-write): a read-write lock of the library knows who writes."""
    program = build("libc_locale", "-no-pie")
    asked, demo = symbols(program)["asked"], tmp_path / "x.demo"
    record(program, demo, options=("--order", order, "--set", "epochs.ticks=16")).expect(0)
    with open_demo(demo, check=True) as timeline:
        checkpoints = timeline._checkpoints
        checkpoints.reach(timeline.end.tick)
        for tick in range(1, timeline.end.tick, 3):
            original = checkpoints.worker_at(tick)
            copy = original.freeze()
            woken = checkpoints.wake(copy)
            woken.run(timeline.end.tick)
            assert int.from_bytes(woken.read(asked, 4), "little") == 6, tick
            for one in (original, copy, woken):
                one.drop()
        assert timeline.verify() > 3
