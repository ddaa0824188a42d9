"""One execution of an instruction, or one operation, is one hit of a place, whatever debug registers that takes."""

from __future__ import annotations

import bisect
import itertools
import os
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from gdbrr.demo.reader import Demo
from gdbrr.timeline.model import Hit, Moment, Point, PointKind
from gdbrr.timeline.timeline import DemoTimeline

from ..conftest import BOTH_WAYS, Program, in_epochs, whole
from ..stepping import Oracle

SIZE = 192
WIDEST = 64
PLACES = int(os.environ.get("GDBRR_PLACES", "2"))
"""Of each kind. 0: at every offset, of every length."""
SEED = int(os.environ.get("GDBRR_MODEL_SEED", "1"))
TOUCH = re.compile(r"(load|same)_(\d+)_(\d+)$")


@dataclass
class Expected:
    """One hit, as the run step by step has it."""

    moment: Moment
    old: int
    new: int
    touches: bool = False
    """It leaves the place as it is."""


@dataclass
class Places:
    timeline: DemoTimeline
    oracle: Oracle
    window: int
    touches: list[tuple[str, int, int, int]]
    """Whether it stores, where in the window and how much, and its pc."""
    copies: set[int]
    """Ticks in whose segments the C library stores some bytes twice."""

    def all(self, kind: PointKind, offset: int, length: int) -> list[Expected]:
        def part(value: int) -> int:
            return value >> 8 * offset & (1 << 8 * length) - 1

        found = []
        for moment, old, new in self.oracle.changes(0):
            if part(old) != part(new):
                found.append(Expected(moment, part(old), part(new)))
        for what, at, size, pc in self.touches if kind is not PointKind.CHANGE else ():
            if at < offset + length and offset < at + size and (kind is PointKind.ACCESS or what == "same"):
                (moment,) = self.oracle.executions(pc)
                value = part(self.oracle.value(moment, 0))
                found.append(Expected(moment, value, value, True))
        return sorted(found, key=lambda one: self.oracle.place[one.moment])

    def check(self, kind: PointKind, offset: int, length: int, chance: random.Random) -> None:
        point, told = Point(kind, self.window + offset, length), f"{kind.name} {offset} {length}"
        expected = self.all(kind, offset, length)
        found = self.timeline.all_hits([point])
        plain = self.timeline.all_hits([point], exact=False)
        assert [Moment(hit.moment.tick) for hit in found] == [hit.moment for hit in plain], told
        assert [(hit.old, hit.new) for hit in found] == [(hit.old, hit.new) for hit in plain], told
        assert all(hit.point == point and hit.thread == self.oracle.thread(hit.moment) for hit in found), told
        again = [hit for hit in found if hit.moment.tick in self.copies and hit.old == hit.new]
        assert kind is not PointKind.CHANGE or not again
        told_once = [hit for hit in found if hit not in again]
        assert [seen(hit) for hit in told_once] == [(one.moment, one.old, one.new) for one in expected], told
        self.check_last(point, found, chance)

    def check_last(self, point: Point, hits: list[Hit], chance: random.Random) -> None:
        """Hits are those of single searches."""
        counts = chance.sample(range(1, len(hits) + 1), min(3, len(hits)))
        for count in counts:
            assert self.timeline.last_hit([point], count=count) == hits[-count], count
        assert self.timeline.last_hit([point], count=len(hits) + 1) is None
        places = [self.oracle.place[hit.moment] for hit in hits]
        moment = chance.choice(self.oracle.moments)
        before = hits[: bisect.bisect_left(places, self.oracle.place[moment])]
        assert self.timeline.all_hits([point], before=moment) == before
        assert self.timeline.last_hit([point], moment) == (before[-1] if before else None)
        if len(before) > 1:
            assert self.timeline.last_hit([point], moment, count=2) == before[-2]


def seen(hit: Hit) -> tuple[Moment, int, int]:
    return hit.moment, hit.old, hit.new


@pytest.fixture(scope="module", params=BOTH_WAYS)
def places(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    program = Program("places")
    window = program.symbols["window"]
    assert window % 4096 == 4096 - SIZE // 2
    touches = [
        (found[1], int(found[2]), int(found[3]), pc)
        for name, pc in program.symbols.items()
        if (found := TOUCH.fullmatch(name))
    ]
    assert len(touches) == 10
    demo = in_epochs(program.path, tmp_path_factory.mktemp("places"), request.param)
    with Demo.open(demo) as opened:
        oracle = Oracle(opened, [(window, SIZE)])
    copies = {moment.tick for moment in oracle.executions(program.symbols["copied"])}
    assert len(copies) == 1
    with whole(demo) as timeline:
        timeline.settle()
        yield Places(timeline, oracle, window, touches, copies)


def chosen(chance: random.Random) -> Iterator[tuple[int, int]]:
    """Places that end at the page's end, begin there, lie across it: as many as are wanted."""
    if not PLACES:
        yield from ((at, length) for length in range(1, WIDEST + 1) for at in range(20, SIZE - length))
    for _ in range(PLACES):
        length = chance.choice([*range(1, 18), *range(30, 35), *range(60, WIDEST + 1)])
        yield chance.randrange(SIZE // 2 - length, SIZE // 2 + 1), length


@pytest.mark.limit(300)
@pytest.mark.parametrize("kind", [PointKind.CHANGE, PointKind.WRITE, PointKind.ACCESS])
def test_one_instruction_is_one_hit(places: Places, kind: PointKind) -> None:
    """INVARIANT(one-execution-one-hit), INVARIANT(one-trap-one-number)."""
    chance = random.Random(f"{SEED} {kind}")
    assert len(places.all(kind, 64, 64)) > 40
    for offset, length in chosen(chance):
        places.check(kind, offset, length, chance)


@pytest.mark.limit(120)
def test_of_a_large_place_the_first_word_that_changed_is_told(places: Places) -> None:
    """However many one store changes, and in whatever order their debug registers tell of it."""
    point = Point(PointKind.CHANGE, places.window, SIZE)
    changes = [(moment, old ^ new) for moment, old, new in places.oracle.changes(0) if old != new]
    expected = {}
    for (moment, differs), (behind, _) in itertools.pairwise(changes):
        words = [at for at in range(0, SIZE, 8) if differs >> 8 * at & (1 << 64) - 1]
        if len(words) > 4 and moment.tick < min(places.copies):
            expected[moment] = places.window + words[0]
            hit = places.timeline.last_hit([point], behind)
            assert hit and (hit.moment, hit.addr) == (moment, expected[moment])
    assert expected
    hits = places.timeline.all_hits([point])
    assert expected == {hit.moment: hit.addr for hit in hits if hit.moment in expected}


@pytest.mark.limit(120)
def test_a_condition_is_judged_in_each_round(places: Places) -> None:
    """Of a repeated instruction some rounds meet it: the hit's old value is that in front of all of them."""
    first, second = places.window + 80, places.window + 79
    condition = b"\x25" + first.to_bytes(8, "big") + b"\x17\x25" + second.to_bytes(8, "big") + b"\x17\x13\x27"
    for offset, length in ((77, 8), (70, 20)):
        point = Point(PointKind.CHANGE, places.window + offset, length)
        every = {hit.moment: hit for hit in places.timeline.all_hits([point])}
        found = places.timeline.all_hits([point], condition=condition)
        assert 0 < len(found) < len(every)
        assert all(hit.old == every[hit.moment].old for hit in found)
        repeated = [hit for hit in found if hit.new != every[hit.moment].new]
        assert repeated or length < 20, "the last round that meets it is not the last one"
        for count in (1, len(found) // 2, len(found)):
            assert places.timeline.last_hit([point], condition=condition, count=count) == found[-count]
