"""Places of a mebibyte watched for reads: each access is found, whoever makes it, and what only lies beside is none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from gdbrr.errors import GdbrrError
from gdbrr.timeline.model import Hit, Moment, Point, PointKind
from gdbrr.timeline.timeline import DemoTimeline, open_demo
from harness.run import gdbrr

from ..conftest import BOTH_WAYS, Program, in_epochs, whole

MIB = 1 << 20
LOCK = MIB
BEHIND = MIB + 40
BY_CODE = [  # function, offset
    *(("put", 0), ("get", 0), ("across", 0), ("across", 28672 - 43)),
    *(("repeated", 5000), ("repeated", 900001), ("swapped", 5555), ("put", 777777)),
]
BY_MAIN = [("put", 0), ("put", 1000), ("put", 2000)]
BY_THREAD = [("get", 300000), ("get", 400000), ("get", 500000)]
LAST = [("get", MIB - 1), ("across", MIB - 3)]


class Reads(NamedTuple):
    timeline: DemoTimeline
    program: Program

    @property
    def start(self) -> int:
        return self.program.symbols["area"] + 40

    @property
    def point(self) -> Point:
        return Point(PointKind.ACCESS, self.start, BEHIND)

    def place(self, hit: Hit) -> tuple[str, int]:
        names = [name for name in ("put", "get", "across", "repeated", "swapped") if self._has(name, hit.moment.pc)]
        return (*names, "")[0], hit.addr - self.start

    def _has(self, name: str, pc: int | None) -> bool:
        return pc is not None and 0 <= pc - self.program.symbols[name] < 40

    def all(self, point: Point | None = None, exact: bool = True) -> list[Hit]:
        return self.timeline.all_hits([point or self.point], exact=exact)


@pytest.fixture(scope="module", params=BOTH_WAYS)
def reads(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reads]:
    program = Program("watched_reads")
    with whole(in_epochs(program.path, tmp_path_factory.mktemp("reads"), request.param)) as timeline:
        timeline.settle()
        yield Reads(timeline, program)


def test_who_touched_it(reads: Reads) -> None:
    found = reads.all()
    named = [reads.place(hit) for hit in found if hit.addr < reads.start + LOCK]
    code = [each for each in named if each[0]]
    assert code[: len(BY_CODE)] == BY_CODE and code[-2:] == LAST
    between = code[len(BY_CODE) : -2]
    assert [each for each in between if each[0] == "put"] == BY_MAIN
    assert [each for each in between if each[0] == "get"] == BY_THREAD and len(between) == 6
    assert [hit.thread for hit in found if reads.place(hit) in BY_THREAD] == [1, 1, 1]
    # memcpy's own loads, and nothing of what the kernel took from there
    others = {offset for name, offset in named if not name}
    assert others and all(60000 <= offset < 60064 for offset in others - {50000})
    kernel = [hit for hit in found if reads.place(hit) == ("", 50000)]
    assert [hit.moment.pc for hit in kernel] == [None], "what a call stores is its operation's"
    locks = {hit.moment.tick for hit in found if hit.addr >= reads.start + LOCK and hit.thread == 1}
    assert len(locks) == 6, "three times locked and unlocked"


def test_registers_say_the_same_of_each_word(reads: Reads) -> None:
    """The processor is the oracle: which words are touched when."""
    found = reads.all()
    moments = {hit.moment for hit in found}
    words = {(hit.addr + beside) & -8 for hit in found for beside in (-8, 0, 8)}
    told: set[Moment] = set()
    for word in sorted(words):
        first, end = max(word, reads.start), min(word + 8, reads.start + BEHIND)
        if first < end:
            told |= {hit.moment for hit in reads.all(Point(PointKind.ACCESS, first, end - first))}
    assert told == moments


def test_back_and_forth(reads: Reads) -> None:
    every = list(dict.fromkeys(hit.moment for hit in reads.all()))
    back: list[Moment] = []
    while hit := reads.timeline.last_hit([reads.point], back[-1] if back else None):
        back.append(hit.moment)
    assert back[::-1] == every
    third = reads.timeline.last_hit([reads.point], None, count=3)
    assert third is not None and third.moment == every[-3]
    ticks, moment = [], Moment(0)
    while hit := reads.timeline.first_hit([reads.point], moment):
        ticks.append(hit.moment.tick)
        moment = Moment(hit.moment.tick + 1)
    assert ticks == sorted({moment.tick for moment in every})
    for at in (moment for moment in every if moment.pc is not None and moment.tick == ticks[1]):
        here = reads.timeline.first_hit([reads.point], at)
        assert here is not None and here.moment.tick == at.tick


def test_beside_changes_of_another_place(reads: Reads) -> None:
    """The first of both, whichever that is."""
    beside = Point(PointKind.CHANGE, reads.start - 40, 40)
    ours = [hit.moment.tick for hit in reads.all() if hit.moment.tick > 0]
    others = [hit.moment.tick for hit in reads.all(beside)]
    moment = Moment(0)
    for tick in sorted({*ours, *others}):
        hit = reads.timeline.first_hit([reads.point, beside], moment)
        assert hit is not None and hit.moment.tick == tick
        moment = Moment(tick + 1)


def test_a_thread_and_a_condition(reads: Reads) -> None:
    every = reads.all()
    mine = reads.timeline.all_hits([reads.point], thread=1)
    assert mine and [hit.moment for hit in mine] == [hit.moment for hit in every if hit.thread == 1]
    never = bytes([0x22, 0, 0x27])  # const8 0; end
    assert reads.timeline.all_hits([reads.point], condition=never) == []


def test_memory_that_comes_and_goes(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A mapping that is made, forbidden, given back and made again, at one address."""
    program = Program("watched_mapped")
    with open_demo(in_epochs(program.path, tmp_path_factory.mktemp("mapped"), "auto")) as timeline:
        timeline.settle()
        touch = program.symbols["touch"]
        found = timeline.all_hits([Point(PointKind.ACCESS, 0x30000000 + 8, 40000)])
        code = [hit.addr - 0x30000000 for hit in found if hit.moment.pc is not None]
        assert code == [5000, 9000, 5000, 12000], found
        assert all(touch <= hit.moment.pc < touch + 32 for hit in found if hit.moment.pc is not None)


def test_where_the_place_of_a_signal_is_searched_it_is_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    program = Program("signal_loop")
    demo = tmp_path_factory.mktemp("signals") / "x.demo"
    gdbrr("record", "-o", demo, "--", program.path).expect(0)
    with open_demo(demo) as timeline:
        timeline.settle()
        with pytest.raises(GdbrrError, match="which ends in the middle of a computation"):
            timeline.all_hits([Point(PointKind.ACCESS, program.symbols["_end"] & -4096, 128)])
