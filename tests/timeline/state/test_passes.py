"""Where a debugger stopped in a loop that repeats its registers, the pass is told by memory."""

from __future__ import annotations

import os

import pytest

from gdbrr.abi import lib
from gdbrr.timeline.model import Moment, Point, PointKind
from gdbrr.timeline.state import passes
from gdbrr.timeline.timeline import DemoTimeline

from ..conftest import standing

WHICH = (1, 2, 10, 266, 500)


@pytest.fixture
def calls(timeline: DemoTimeline, symbols: dict[str, int]) -> list[Moment]:
    """Five hundred calls of one function, all with the same registers; their count is in memory."""
    hits = timeline.all_hits([Point(PointKind.EXEC, symbols["touch"])])
    assert len(hits) == 500
    return [hit.moment for hit in hits]


def test_each_pass_is_told(timeline: DemoTimeline, calls: list[Moment]) -> None:
    registers = {}
    for nth in WHICH:
        leaf = timeline.seek(calls[nth - 1])
        regs = standing(leaf)
        registers[nth] = {**regs, "eflags": 0}
        assert timeline.locate(leaf.moment.tick, leaf.thread, regs, like=leaf.pid) == calls[nth - 1]
        assert not timeline.doubtful
        leaf.drop()
    assert registers[10] == registers[266] == registers[500]


def test_control_by_registers_alone_it_is_the_first(timeline: DemoTimeline, calls: list[Moment]) -> None:
    leaf = timeline.seek(calls[265])
    regs = standing(leaf)
    assert timeline.locate(leaf.moment.tick, leaf.thread, regs) == calls[0]
    assert not timeline.doubtful


def test_control_memory_that_no_pass_has_is_doubtful(timeline: DemoTimeline, calls: list[Moment]) -> None:
    leaf = timeline.seek(calls[265])
    one, other = (passes.Memory(each.pid, each.born) for each in (leaf, timeline.seek(calls[300])))
    moving = passes.differing(one, other)
    assert 0 < len(moving) < 20
    with open(f"/proc/{leaf.pid}/mem", "r+b", buffering=0) as memory:
        for address in moving:
            os.pwrite(memory.fileno(), b"\x99" * 8, address)
    regs = standing(leaf)
    assert timeline.locate(leaf.moment.tick, leaf.thread, regs, like=leaf.pid) == calls[0]
    assert timeline.doubtful
    one.close()
    other.close()


def test_a_condition_asks_for_few_words() -> None:
    for count in (1, 5, 24, 100, 5000):
        chosen = passes.some(range(count))
        assert len(chosen) == count if count <= 24 else 16 < len(chosen) <= 24
        assert {0, count - 1} <= set(chosen)
    assert len(passes.condition(dict.fromkeys(range(8 * 24), bytes(8)))) <= lib.GR_CONDITION_ROOM
