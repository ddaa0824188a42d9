"""The main thread has left by pthread_exit: everything goes on without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdbrr.abi import lib
from gdbrr.timeline.model import Moment, Point, PointKind
from gdbrr.timeline.timeline import open_demo
from harness.run import gdbrr

from ..conftest import BOTH_WAYS, Program, children, in_epochs, standing, word


@pytest.mark.parametrize("points", BOTH_WAYS)
def test_going_back_behind_the_end_of_the_main_thread(points: str, tmp_path: Path) -> None:
    """INVARIANT(a-leader-stays)."""
    program = Program("leader_leaves")
    demo = in_epochs(program.path, tmp_path, points)
    counter = Point(PointKind.CHANGE, program.symbols["counter"], 4)
    with open_demo(demo) as timeline:
        left = next(event.tick for event in timeline.demo.events(thread=0) if event.kind == lib.GR_OP_EXIT)
        for tick in (left, left + 1, left + 2, timeline.end.tick):
            leaf = timeline.seek(Moment(tick))
            assert (0 in {view.index for view in leaf.threads()}) == (tick == left)
            assert leaf.threads()
            leaf.drop()
        hits = timeline.all_hits([counter])
        assert [hit.new for hit in hits] == [*range(1, 22)]
        assert [hit.thread for hit in hits] == [0] * 6 + [1] * 5 + [2] * 7 + [1] * 3
        for hit in hits[5::3]:
            leaf = timeline.seek(hit.moment)
            assert word(leaf, counter.addr) == hit.old
            moment = timeline.locate(hit.moment.tick, hit.thread, standing(leaf), views=leaf.threads())
            assert moment.pc == hit.moment.pc
            leaf.drop()
            before = timeline.previous(hit.moment)
            assert before and before.tick == hit.moment.tick
        died = timeline.last_hit([Point(PointKind.CHANGE, program.symbols["died"], 4)])
        assert died and died.new and died.thread == 1
    assert not children()
    assert gdbrr("replay", demo).expect(0).out.split()[1:] == ["21", "1", "8"]
