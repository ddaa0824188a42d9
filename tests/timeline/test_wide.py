"""Changes of 64 MiB: what they cost is a matter of the pages that were changed, and of their stores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from gdbrr.errors import GdbrrError
from gdbrr.timeline.model import Hit, Moment, Point, PointKind
from gdbrr.timeline.step.protected import Segment
from gdbrr.timeline.timeline import DemoTimeline

from .conftest import BOTH_WAYS, Program, in_epochs, whole

MIB = 1 << 20
SIZE = 64 * MIB


class Change(NamedTuple):
    word: int
    old: int
    new: int


def scattered() -> list[list[Change]]:
    """What the program's `scatter` changes, call by call."""
    words: dict[int, int] = {}
    calls, chance = [], 1
    for _ in range(3):
        calls.append([])
        for _ in range(8):
            chance = (chance * 6364136223846793005 + 1442695040888963407) % (1 << 64)
            word, new = chance >> 41, chance >> 33 & 1
            if words.get(word, 0) != new:
                calls[-1].append(Change(word, words.get(word, 0), new))
            words[word] = new
    return calls


SCATTERED = scattered()


class Big(NamedTuple):
    timeline: DemoTimeline
    area: int
    put: range

    @property
    def point(self) -> Point:
        return Point(PointKind.CHANGE, self.area, SIZE)

    def change(self, hit: Hit) -> Change:
        return Change((hit.addr - self.area) // 8, hit.old, hit.new)

    def back(self, hit: Hit | None = None) -> Hit:
        found = self.timeline.last_hit([self.point], hit.moment if hit else None)
        assert found is not None
        return found


@pytest.fixture(scope="module", params=BOTH_WAYS)
def big(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Big]:
    program = Program("watched_big")
    put = program.symbols["put"]
    with whole(in_epochs(program.path, tmp_path_factory.mktemp("big"), request.param)) as timeline:
        timeline.settle()
        yield Big(timeline, program.symbols["area"], range(put, put + 64))


def test_the_formula_has_what_is_to_be_found() -> None:
    stores = 8 * len(SCATTERED)
    assert 6 < sum(map(len, SCATTERED)) < stores, "some stores change nothing"


def test_every_change_backwards(big: Big) -> None:
    repeated = big.back()
    assert 60 * MIB <= repeated.addr - big.area < 61 * MIB + 8 and repeated.moment.nth == 1
    operation = big.back(repeated)  # a repeated string instruction is one change
    assert operation.moment.pc is None and 50 * MIB <= operation.addr - big.area < 51 * MIB
    copied = big.back(operation)
    assert 20 * MIB <= copied.addr - big.area < 21 * MIB
    cleared = big.timeline.last_hit([big.point], Moment(copied.moment.tick))
    assert cleared is not None and 50 * MIB <= cleared.addr - big.area <= 51 * MIB
    hit = big.timeline.last_hit([big.point], Moment(cleared.moment.tick))
    for expected in [*(each for call in SCATTERED for each in call)][::-1]:
        assert hit is not None and big.change(hit) == expected and hit.moment.pc in big.put
        hit = big.timeline.last_hit([big.point], hit.moment)
    assert hit is not None and big.change(hit) == (100, 1, 0)
    hit = big.back(hit)
    assert big.change(hit) == (100, 0, 1)
    # In front of these are 12 MiB and 8 MiB of stores that change nothing.
    assert big.timeline.last_hit([big.point], hit.moment) is None


def test_every_first_change_forwards(big: Big) -> None:
    """From the operation behind the one before, and from the middle of a segment."""
    first = [call[0] for call in SCATTERED]
    found, moment = [], Moment(0)
    while (hit := big.timeline.first_hit([big.point], moment)) is not None:
        found.append(hit)
        moment = Moment(hit.moment.tick + 1)
    assert [big.change(hit) for hit in found[:4]] == [(100, 0, 1), *first]
    assert [(hit.addr - big.area) // MIB for hit in found[4:]] == [50, 20, 50, 60]
    last = big.timeline.last_hit([big.point], Moment(found[2].moment.tick))
    inside = [last]
    while (before := big.timeline.last_hit([big.point], inside[-1].moment)) and before.moment.tick == last.moment.tick:
        inside.append(before)
    inside.reverse()
    assert [big.change(hit) for hit in inside] == SCATTERED[0]
    for hit in inside:
        here = big.timeline.first_hit([big.point], hit.moment)
        assert here is not None and big.change(here) == big.change(hit)


def test_all_of_them_at_once(big: Big) -> None:
    calls = [big.timeline.first_hit([big.point], Moment(0))]
    while len(calls) < 5:
        calls.append(big.timeline.first_hit([big.point], Moment(calls[-1].moment.tick + 1)))
    after, before = calls[1].moment, calls[4].moment
    hits = big.timeline.all_hits([big.point], after=after, before=before)
    assert [big.change(hit) for hit in hits] == [each for call in SCATTERED for each in call]
    word = Point(PointKind.EXEC, big.put[0])
    both = big.timeline.all_hits([big.point, word], after=after, before=before, exact=True)
    assert [hit for hit in both if hit.point != word] == hits and len(both) == len(hits) + 24
    assert both == sorted(both, key=lambda hit: hit.moment.tick)


def test_a_part_beside_what_changes_all_the_time(big: Big) -> None:
    """Its pages are written to, and it is not."""
    part = Point(PointKind.CHANGE, big.area + 50 * MIB + 4, MIB)
    hit = big.timeline.last_hit([part], None)
    assert hit is not None and hit.moment.pc is None
    before = big.timeline.last_hit([part], hit.moment)
    assert before is not None and big.timeline.last_hit([part], Moment(before.moment.tick)) is None


def test_a_segment_that_ends_in_a_computation(big: Big, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its memory is looked at to find where: it is not protected, but its words are counted, if they are few."""
    part = Point(PointKind.CHANGE, big.area + 60 * MIB + 8000, 10000)
    hit = big.timeline.last_hit([part], None)
    monkeypatch.setattr(Segment, "is_searched", True)
    again = big.timeline.last_hit([part], None)
    assert hit is not None and again is not None and again.moment == hit.moment
    with pytest.raises(GdbrrError, match=r"ends in the middle of a computation\. Watch a part"):
        big.back()


def test_what_has_no_changes_to_be_found_by_is_refused(big: Big) -> None:
    with pytest.raises(GdbrrError, match="too many to be watched for") as refused:
        big.timeline.last_hit([Point(PointKind.WRITE, big.area, SIZE)], None)
    assert "watch a part of it" in str(refused.value)
