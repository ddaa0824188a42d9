"""The last of many stores that one segment makes: how often it traps, and that it is found whoever made the stores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gdbrr.abi import lib
from gdbrr.timeline.hits import Pass
from gdbrr.timeline.model import Hit, Moment, Point, PointKind
from gdbrr.timeline.timeline import DemoTimeline
from gdbrr.timeline.worker import Worker
from harness.run import gdbrr

from ..conftest import BOTH_WAYS, Program, whole

NUMBER = 30_000
CUT = 512
"""Hits of a run, from which on it is cut in two, or begun again."""
SOME = 10 * 2 * lib.GR_HITS
"""Traps of runs that are given up early: none of them meets more than so many before it is looked at."""


@pytest.fixture(scope="module")
def program() -> Program:
    return Program("many_stores")


@pytest.fixture(params=BOTH_WAYS)
def ways(request: pytest.FixtureRequest) -> str:
    return f"points={request.param}"


def recorded(program: Program, directory: Path, number: int, *words: str) -> Path:
    *options, way = words
    demo = directory / "x.demo"
    gdbrr("record", "-o", demo, *options, "--", program.path, str(number), way).expect(0)
    return demo


def value_of(program: Program) -> Point:
    return Point(PointKind.CHANGE, program.symbols["value"], 4)


@pytest.fixture
def traps(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many points each run met. Runs wait for who looks at them, so that none of them goes far ahead of that."""
    met: list[int] = []
    begin, drop, made = Worker.begin, Worker.drop, Pass.__init__

    def noted(worker: Worker) -> None:
        if worker.alive and worker.slot._raw.points:
            met.append(worker.slot.met)

    def begun(self: Worker, *arguments: Any, **more: Any) -> None:
        noted(self)
        begin(self, *arguments, **more)

    def dropped(self: Worker) -> None:
        noted(self)
        drop(self)

    def waiting(self: Pass, *arguments: Any, **more: Any) -> None:
        made(self, *arguments, **(more | {"every": True}))

    monkeypatch.setattr(Worker, "begin", begun)
    monkeypatch.setattr(Worker, "drop", dropped)
    monkeypatch.setattr(Pass, "__init__", waiting)
    monkeypatch.setattr("gdbrr.timeline.search.MANY", CUT)
    yield met


def check(timeline: DemoTimeline, hit: Hit | None, value: int) -> None:
    """The one that stored VALUE, and no other execution of the same instruction."""
    assert hit is not None and (hit.old, hit.new) == (value - 1, value)
    before = timeline.seek(hit.moment)
    assert int.from_bytes(before.read(hit.addr, 4), "little") == value - 1
    assert hit.moment.pc is not None
    behind = timeline.seek(Moment(hit.moment.tick, hit.moment.pc, hit.moment.nth - 1))
    assert int.from_bytes(behind.read(hit.addr, 4), "little") == (value - 2 if hit.moment.nth == value else value - 1)


@pytest.mark.limit(120)
@pytest.mark.parametrize(("way", "times"), [("direct", 1), ("pointer", 2), ("both", 3)])
def test_a_store_traps_once_and_its_instruction_once(
    program: Program, ways: str, way: str, times: int, tmp_path: Path, traps: list[int]
) -> None:
    """Where the instruction says to which address it stores, the number of its stores is that of its executions."""
    demo = recorded(program, tmp_path, NUMBER, "--set", ways, way)
    with whole(demo) as timeline:
        timeline.seek(timeline.end).drop()
        traps.clear()
        hit = timeline.last_hit([value_of(program)])
        assert times * NUMBER <= sum(traps) < times * NUMBER + SOME, traps
        check(timeline, hit, NUMBER)


@pytest.mark.limit(120)
def test_executions_behind_the_last_store_hide_nothing(program: Program, ways: str, tmp_path: Path) -> None:
    """More than the log of a run holds."""
    number = 4 * lib.GR_HITS
    demo = recorded(program, tmp_path, number, "--set", ways, "behind")
    with whole(demo) as timeline:
        point = value_of(program)
        for count in (1, 3):
            check(timeline, timeline.last_hit([point], count=count), number + 1 - count)
        other = timeline.last_hit([Point(PointKind.CHANGE, program.symbols["other"], 4)])
        assert other is not None and other.moment.nth == 2 * number
        check(timeline, timeline.last_hit([point], other.moment), number)
