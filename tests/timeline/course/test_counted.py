"""Counted runs against single steps, which cannot be wrong, and against searches by debug registers.

Runs in: pytest. May call: timeline, harness.
Owns: nothing.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from gdbrr.abi import lib
from gdbrr.timeline import course
from gdbrr.timeline.model import Moment, Point, PointKind
from gdbrr.timeline.segment import Trace
from gdbrr.timeline.timeline import DemoTimeline, open_demo
from harness.run import gdbrr
from timeline.conftest import Program, children

_ROUNDS = 80
_PLACES = 60


@pytest.fixture(scope="module")
def program() -> Program:
    return Program("long_way")


@pytest.fixture(scope="module")
def timeline(program: Program, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoTimeline]:
    demo = tmp_path_factory.mktemp("course") / "x.demo"
    options = ("--set", "limits.trace=1000000")
    gdbrr("record", "-o", demo, *options, "--", program.path, str(_ROUNDS)).expect(0)
    with open_demo(demo) as opened:
        yield opened
    assert not children()


@pytest.fixture(scope="module")
def trace(timeline: DemoTimeline) -> Trace:
    """Of the longest segment."""
    traces = [timeline._segments.trace(tick, None) for tick in range(timeline.end.tick)]
    return max(traces, key=lambda each: len(each.pcs))


@pytest.fixture(scope="module")
def moments(trace: Trace) -> list[Moment]:
    times: Counter[int] = Counter()
    found = []
    for pc in trace.pcs:
        times[pc] += 1
        found.append(Moment(trace.tick, pc, times[pc]))
    return found


def halted(timeline: DemoTimeline, tick: int) -> course.Course:
    """The segment's course, gone through by a process that was told to stop again and again, wherever it was."""
    found, checkpoints, draw = course.Course(tick), timeline._checkpoints, random.Random(5)
    checkpoints.courses[tick] = found
    worker = checkpoints.worker_at(tick)
    while True:
        worker.begin(tick + 1, counted=True)
        until = time.monotonic() + draw.random() * 0.0005
        while not worker.done():
            if time.monotonic() > until:
                worker.halt()
        if worker.finish() != lib.GR_S_TRAPPED:
            break
        course.leave(worker, found, checkpoints.keep_inside)
    found.length = worker.slot.instructions
    worker.drop()
    return found


@pytest.fixture(params=["whole", "halted", "marked"])
def followed(request: pytest.FixtureRequest, timeline: DemoTimeline, trace: Trace) -> Iterator[course.Course]:
    """The segment's course, gone through at once, in slices that end anywhere, or with copies at certain places."""
    if request.param == "halted":
        found: course.Course | None = halted(timeline, trace.tick)
    else:
        found = timeline._segments.courses.of(trace.tick, None)
    assert found is not None
    if request.param == "marked":
        goals = sorted(random.Random(6).sample(range(len(trace.pcs)), 20))
        timeline._segments.courses.leave_at(found, None, goals, None)
    yield found
    timeline._checkpoints.courses.pop(trace.tick).drop()


def test_copies_that_were_ended_are_done_without(
    timeline: DemoTimeline, followed: course.Course, moments: list[Moment], program: Program
) -> None:
    point = Point(PointKind.CHANGE, program.symbols["seldom"], 8)
    place, courses = len(moments) * 2 // 3, timeline._segments.courses
    known = timeline.last_hit([point], moments[place])
    for mark in followed.alive()[::2]:
        os.kill(mark.copy.pid, signal.SIGKILL)
    followed.places.clear()
    followed.moments.clear()
    assert courses.place(followed, moments[place], None) == place
    assert timeline.previous(moments[place]) == moments[place - 1]
    assert timeline.last_hit([point], moments[place]) == known


def test_as_many_instructions_as_single_steps(followed: course.Course, trace: Trace) -> None:
    assert len(trace.pcs) > 100_000
    assert followed.length == len(trace.pcs)


def test_moments_are_those_of_single_steps(
    timeline: DemoTimeline, followed: course.Course, moments: list[Moment]
) -> None:
    courses, draw = timeline._segments.courses, random.Random(7)
    for place in [0, 1, len(moments) - 1, *(draw.randrange(len(moments)) for _ in range(_PLACES))]:
        assert courses.moment(followed, place, None) == moments[place]
        followed.places.clear()
        followed.moments.clear()
        assert courses.place(followed, moments[place], None) == place


def test_steps_back_lead_to_the_instruction_before(
    timeline: DemoTimeline, followed: course.Course, moments: list[Moment]
) -> None:
    draw = random.Random(8)
    for place in [1, len(moments) - 1, *(draw.randrange(1, len(moments)) for _ in range(10))]:
        now = moments[place]
        for back in range(1, min(place, 30) + 1):
            now = timeline.previous(now)  # type: ignore[assignment]
            assert now == moments[place - back]


def test_a_moment_that_is_not_there(timeline: DemoTimeline, followed: course.Course, moments: list[Moment]) -> None:
    last = moments[-1]
    assert timeline._segments.courses.place(followed, Moment(last.tick, last.pc, last.nth + 10**6), None) is None


@pytest.mark.parametrize("name", ["stored", "seldom", "sum", "many", "add", "compare", "fibonacci"])
def test_last_hits_are_those_of_debug_registers(
    timeline: DemoTimeline, followed: course.Course, moments: list[Moment], program: Program, name: str
) -> None:
    code = name in ("add", "compare", "fibonacci")
    kinds = [PointKind.EXEC] if code else [PointKind.CHANGE, PointKind.WRITE, PointKind.ACCESS]
    search, draw = timeline._search, random.Random(name)
    for kind in kinds:
        point = Point(kind, program.symbols[name], 1 if code else 8)
        for _ in range(6):
            before = moments[draw.randrange(len(moments))]
            known = search.with_registers(lambda room: search._last([point], before, None, 1, room))  # noqa: B023
            assert timeline.last_hit([point], before) == known


def test_several_points_at_once(
    timeline: DemoTimeline, followed: course.Course, moments: list[Moment], program: Program
) -> None:
    names = {"stored": PointKind.CHANGE, "seldom": PointKind.WRITE, "mix": PointKind.EXEC, "fibonacci": PointKind.EXEC}
    points = [Point(kind, program.symbols[name], 1 if kind is PointKind.EXEC else 8) for name, kind in names.items()]
    search, draw = timeline._search, random.Random(9)
    for _ in range(8):
        before = moments[draw.randrange(len(moments))]
        known = search.with_registers(lambda room: search._last(points, before, None, 1, room))  # noqa: B023
        assert timeline.last_hit(points, before) == known
