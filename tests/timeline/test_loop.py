"""Searching through a loop that a signal interrupted: its place is looked for while points are armed."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdbrr.timeline.model import Moment, Point, PointKind
from gdbrr.timeline.timeline import open_demo
from harness.run import gdbrr

from .conftest import BOTH_WAYS, Program, children, word

pytestmark = pytest.mark.needs("perf_breakpoints")


@pytest.mark.limit(300)
@pytest.mark.parametrize("points", BOTH_WAYS)
def test_hits_in_a_loop_whose_signal_is_looked_for(points: str, tmp_path: Path) -> None:
    """INVARIANT(taken-back): what is hit while the search goes too far never was."""
    program = Program("signal_watched")
    demo = tmp_path / "x.demo"
    out = gdbrr("record", "-o", demo, "--set", f"points={points}", "--", program.path).expect(0).out
    marks = int(out.split()[1])
    assert marks > 20
    watched = Point(PointKind.CHANGE, program.symbols["marks"], 8)
    with open_demo(demo) as timeline:
        for exact in (True, False):
            hits = timeline.all_hits([watched], exact=exact)
            assert [hit.new for hit in hits] == [*range(1, marks + 1)]
        for which in (1, 7, marks):
            hit = timeline.last_hit([watched], count=which)
            assert hit and hit.new == marks + 1 - which
        # Four points leave no debug register for the search of the signal's place.
        four = [watched, *(Point(PointKind.CHANGE, program.symbols["before"] + 8 * i, 8) for i in range(4))]
        assert timeline.last_hit(four) == timeline.last_hit([watched])
        first = timeline.all_hits(four, before=Moment(timeline.all_hits([watched])[0].moment.tick + 1))
        assert len(first) == 4 + marks
        # INVARIANT(a-look-is-no-hit): the program stores to this once and never reads it; the engine compares it.
        accesses = timeline.all_hits([Point(PointKind.ACCESS, program.symbols["before"], 8)], exact=False)
        assert [hit.new for hit in accesses] == [1]
        leaf = timeline.seek(timeline.end)
        assert word(leaf, watched.addr, 8) == marks
    assert not children()
