"""Which passes run beside each other: no core is idle while there is something to be run, and answers stay the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gdbrr.timeline.hits import Pass
from gdbrr.timeline.model import Hit, Point, PointKind
from gdbrr.timeline.step.row import Row
from gdbrr.timeline.timeline import DemoTimeline, open_demo
from gdbrr.timeline.worker import Worker

from ..conftest import BOTH_WAYS, Program, children, recorded

BESIDE = 3
"""Passes at a time, however many cores there are."""


@dataclass
class Part:
    name: str


class Fake:
    """A pass that ends when it is told to."""

    def __init__(self, begun: list[str], name: str) -> None:
        begun.append(name)
        self.over = self.dropped = False
        self.worker: Any = self
        self.slot: Any = self
        self.raw: Any = self
        self.met = 0

    def ended(self) -> bool:
        return self.over

    def close(self) -> None:
        assert self.over

    def drop(self) -> None:
        self.dropped = True


def row_of(names: str, at_once: int) -> tuple[Row[Any], list[str], dict[str, Fake]]:
    begun: list[str] = []
    passes: dict[str, Fake] = {}

    def begin(part: Any) -> Any:
        def one() -> Fake:
            passes[part.name] = Fake(begun, part.name)
            return passes[part.name]

        return [one]

    return Row([Part(name) for name in names], begin, at_once, lambda source, tick: None, True), begun, passes


def test_one_that_ends_makes_room_though_the_first_still_runs() -> None:
    row, begun, passes = row_of("abcdef", 2)
    assert row.fill() and begun == ["a", "b"]
    assert row.fill() and begun == ["a", "b"]
    passes["b"].over = True
    assert row.fill() and begun == ["a", "b", "c"]
    passes["c"].over = passes["a"].over = True
    assert row.fill() and begun == ["a", "b", "c", "d", "e"]
    row.pop()
    assert passes["a"].dropped and not passes["b"].dropped
    row.drop()
    assert all(one.dropped for one in passes.values())


def test_what_stands_behind_one_that_still_runs_is_bounded() -> None:
    row, begun, passes = row_of("abcdefghijklmnopqrstuvwxyz", 2)
    for _ in range(26):
        row.fill()
        for name in begun[1:]:
            passes[name].over = True
    assert begun == [*"abcdefghi"]
    alone, begun, passes = row_of("ab", 1)
    alone.fill()
    passes["a"].over = True
    assert alone.fill() and begun == ["a"]  # where there may be one process only, it goes first


def test_others_give_way_to_the_parts_of_the_first() -> None:
    row, begun, passes = row_of("abcd", 2)
    row.fill()
    passes["b"].over = True
    row.fill()
    row.instead([Part("x"), Part("y")])
    assert passes["a"].dropped and passes["c"].dropped and not passes["b"].dropped
    row.fill()
    assert begun == ["a", "b", "c", "x", "y"]


# ---------------------------------------------------------------- real ones
@pytest.fixture(scope="module")
def hits_program() -> Program:
    return Program("hits")


@pytest.fixture(scope="module", params=BOTH_WAYS)
def demo(request: pytest.FixtureRequest, hits_program: Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("row")
    return recorded(hits_program.path, directory, "--set", f"points={request.param}")


@pytest.fixture(scope="module")
def value(hits_program: Program) -> Point:
    return Point(PointKind.CHANGE, hits_program.symbols["value"], 4)


@pytest.fixture
def halves(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Ticks from which on another pass took over."""
    found: list[int] = []
    end_at = Pass.end_at

    def counted(self: Pass, tick: int) -> None:
        found.append(tick)
        end_at(self, tick)

    monkeypatch.setattr(Pass, "end_at", counted)
    monkeypatch.setattr("gdbrr.timeline.step.row.MANY", 8)
    return found


def is_less_than(point: Point, number: int) -> bytes:
    """Agent bytecode of `*(int *) ADDR < NUMBER`."""
    return b"\x25" + point.addr.to_bytes(8, "big") + b"\x19\x16\x20\x23" + number.to_bytes(2, "big") + b"\x14\x27"


def asked(demo: Path, value: Point, at_once: int) -> Iterator[list[Hit]]:
    """What is found, each time from the one checkpoint that there is at first."""
    first, last, never = (is_less_than(value, number) for number in (5, 5000, 0))
    questions: list[Callable[[DemoTimeline], list[Hit] | Hit | None]] = [
        lambda timeline: timeline.last_hit([value], condition=first),
        lambda timeline: timeline.last_hit([value], condition=first, count=3),
        lambda timeline: timeline.last_hit([value], condition=last, count=100),
        lambda timeline: timeline.last_hit([value], condition=never),
        lambda timeline: timeline.all_hits([value]),
        lambda timeline: timeline.all_hits([value], condition=first),
    ]
    for question in questions:
        with open_demo(demo) as timeline:
            timeline.seek(timeline.end).drop()
            timeline._search.at_once = at_once
            assert timeline.checkpoints == [0]
            found = question(timeline)
            yield found if isinstance(found, list) else [found] if found else []
    assert not children()


@pytest.fixture(scope="module")
def expected(demo: Path, value: Point) -> list[list[Hit]]:
    found = list(asked(demo, value, 1))
    assert [[hit.new for hit in hits] for hits in found] == [[4], [2], [2942], [], [*range(1, 3042)], [1, 2, 3, 4]]
    return found


@pytest.mark.limit(60)
def test_a_long_one_is_shared_out(demo: Path, value: Point, expected: list[list[Hit]], halves: list[int]) -> None:
    for found, wanted in zip(asked(demo, value, BESIDE), expected, strict=True):
        assert found == wanted and halves
        halves.clear()


@pytest.mark.limit(60)
def test_one_that_was_past_its_new_end_runs_again(
    demo: Path, value: Point, expected: list[list[Hit]], halves: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """INVARIANT(cut-in-time). Without it hits behind that end are told twice."""
    end_at = Pass.end_at

    def too_late(self: Pass, tick: int) -> None:
        while not self.worker.done():
            self.worker.slot.nap(0.001)
            if self._every:
                self.worker.slot.take_hits(self._log)
        end_at(self, tick)

    monkeypatch.setattr(Pass, "end_at", too_late)
    for found, wanted in zip(asked(demo, value, BESIDE), expected, strict=True):
        assert found == wanted and halves
        halves.clear()


@pytest.mark.limit(60)
def test_one_that_passes_its_new_end_between_two_looks_runs_again(
    demo: Path, value: Point, expected: list[list[Hit]], halves: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """INVARIANT(cut-in-time). It had looked at its old end just before the new one was told, and goes on to that."""
    end_at, done = Pass.end_at, Worker.done
    unheard: dict[Worker, Pass] = {}

    def not_heard(self: Pass, tick: int) -> None:
        raw = self.worker.slot._raw
        old = raw.stop_tick
        end_at(self, tick)
        raw.stop_tick = old
        unheard[self.worker] = self

    def at_last(self: Worker) -> bool:
        one = unheard.pop(self, None)
        while one and not done(self):
            self.slot.nap(0.001)
            if one._every:
                self.slot.take_hits(one._log)
        return done(self)

    monkeypatch.setattr(Pass, "end_at", not_heard)
    monkeypatch.setattr(Worker, "done", at_last)
    for found, wanted in zip(asked(demo, value, BESIDE), expected, strict=True):
        assert found == wanted and halves
        halves.clear()


@pytest.mark.limit(120)
def test_points_that_need_more_runs_than_there_may_be_processes(demo: Path, hits_program: Program) -> None:
    """Four debug registers in each run. The last of all hits is the last one of its own point."""
    start = hits_program.symbols["leaf"]
    points = [Point(PointKind.EXEC, start + at) for at in range(0, -600, -1)]
    with open_demo(demo) as timeline:
        found = timeline.last_hit([*points], before=timeline.end)
        assert found is not None and len(children()) < 40
        assert found == timeline.last_hit([found.point]) and found != timeline.last_hit([points[0]])
