"""Files that are read natively: each copy of a replay has places of its own in them.

Runs in: pytest. May call: gdbrr record, the timeline.
Owns: nothing.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from gdbrr.timeline.model import Moment, Point, PointKind
from harness.run import gdbrr

from ..conftest import BOTH_WAYS, Program, whole, word

READS = 400


def records() -> list[int]:
    numbers = random.Random(7)
    return [numbers.getrandbits(64) for _ in range(READS)]


def values() -> list[int]:
    """What the program reads, one after the other; it goes back by 40 records at every hundredth."""
    content, place, found = records(), 0, []
    for i in range(READS):
        found.append(content[place])
        place = i - 40 if i % 100 == 99 else place + 1
    return found


@pytest.fixture(scope="module")
def program() -> Program:
    return Program("native_offsets")


@pytest.fixture(scope="module", params=BOTH_WAYS)
def demo(request: pytest.FixtureRequest, program: Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("native")
    (place / "records").write_bytes(b"".join(number.to_bytes(8, "little") for number in records()))
    options = ("-p", "sparse", "--set", "epochs.ticks=64", "--set", f"points={request.param}")
    gdbrr("record", *options, "-o", place / "x.demo", "--", program.path, place / "records").expect(0)
    return place / "x.demo"


def test_every_copy_reads_on_from_its_own_place(demo: Path, program: Program) -> None:
    newest, count = program.symbols["newest"], program.symbols["count"]
    expected, numbers = values(), random.Random(11)
    with whole(demo) as timeline:
        leaves = []
        for _ in range(60):
            tick = numbers.randrange(timeline.end.tick)
            leaf = timeline.seek(Moment(tick))
            done = word(leaf, count)
            assert word(leaf, newest, 8) in ([0, *expected][done], expected[min(done, READS - 1)]), tick
            leaves.append(leaf)
            if len(leaves) > 5:
                leaves.pop(numbers.randrange(len(leaves))).drop()
        for leaf in leaves:
            leaf.drop()


def test_what_the_kernel_stores_in_a_native_call_is_a_hit(demo: Path, program: Program) -> None:
    """Found by workers that run beside each other, and named by the moment in front of it."""
    newest = Point(PointKind.WRITE, program.symbols["newest"], 8)
    expected = values()
    with whole(demo) as timeline:
        hits = sorted(timeline.all_hits([newest]), key=lambda hit: hit.moment.tick)
        assert [hit.new for hit in hits] == expected
        assert [hit.old for hit in hits] == [0, *expected[:-1]]
        for hit in (hits[0], hits[150], hits[-1]):
            leaf = timeline.seek(hit.moment)
            assert word(leaf, newest.addr, 8) == hit.old
            leaf.drop()
        last = timeline.last_hit([newest], hits[200].moment)
        assert last == hits[199]
