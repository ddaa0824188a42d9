"""One instruction back without stepping through a segment: never another answer than the trace's, and mostly one."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from gdbrr.abi import lib
from gdbrr.timeline.model import Moment, Point, PointKind
from gdbrr.timeline.step.code import decoded, follows, holds
from gdbrr.timeline.timeline import DemoTimeline, open_demo
from harness import programs
from harness.run import gdbrr, run

from .conftest import BOTH_WAYS, children, standing

SHORT = 4000


Before = Callable[[Moment, None], Moment | None]


def answers(timeline: DemoTimeline, ticks: int, before: Before) -> tuple[int, int]:
    """How many instructions were asked about, and for how many there was an answer, which is the trace's."""
    segments, chance = timeline._segments, random.Random(7)
    asked = told = 0
    for _ in range(ticks):
        trace = segments.short_trace(chance.randrange(timeline.end.tick), SHORT, None)
        if trace is None or len(trace.pcs) < 2:
            continue
        for place in {chance.randrange(1, len(trace.pcs)), 1, len(trace.pcs) - 1}:
            found = before(trace.moment(place), None)
            assert found in (None, trace.moment(place - 1)), trace.moment(place)
            asked, told = asked + 1, told + (found is not None)
    return asked, told


@pytest.mark.parametrize("points", BOTH_WAYS)
@pytest.mark.parametrize("scene", ["threads", "signals", "deadlock"])
def test_it_tells_what_a_trace_tells(scene: str, points: str, tmp_path: Path) -> None:
    path, way = tmp_path / "x.demo", f"points={points}"
    gdbrr("record", "--set", "epoch_ticks=16", "--set", way, "-o", path, "--", programs.build("scenes"), scene)
    with open_demo(path) as timeline:
        asked, told = answers(timeline, 25, timeline._segments._steps.before)
        assert asked > 20 and told > 0.8 * asked, (asked, told)
        asked, told = answers(timeline, 25, timeline._segments.inside.previous)
        assert asked > 20  # it tells nothing of what is executed the first time


@pytest.mark.limit(120)
@pytest.mark.parametrize("points", BOTH_WAYS)
def test_from_copies_in_the_middle_of_a_segment(points: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """INVARIANT(steps-are-true), and a moment behind such a copy is near."""
    program, path = programs.build("long_segment"), tmp_path / "x.demo"
    gdbrr("record", "--set", "trace_limit=1000000", "--set", f"points={points}", "-o", path, "--", program).expect(0)
    monkeypatch.setattr("gdbrr.timeline.step.inside._MANY", 50)
    with open_demo(path) as timeline:
        segments, files = timeline._segments, len(os.listdir("/proc/self/fd"))
        long = (tick for tick in range(timeline.end.tick) if not segments.short_trace(tick, 20000, None))
        trace = segments.trace(next(long), None)
        end, told = len(trace.pcs), 0
        for start in (end // 2, end // 3, end // 5, 2 * end // 5):
            for place in range(start, start - 40, -7):
                found = segments.inside.previous(trace.moment(place), None)
                assert found in (None, trace.moment(place - 1)), trace.moment(place)
                told += found is not None
        assert told == 24
        with monkeypatch.context() as patch:
            patch.setattr(timeline._checkpoints, "worker_at", lambda *_: pytest.fail("from the beginning"))
            assert found
            leaf = timeline.seek(found)
            assert standing(leaf)["rip"] == found.pc
            leaf.drop()
        inside = [kept for kept in timeline._checkpoints._near._inside if kept.alive]
        assert len(os.listdir("/proc/self/fd")) <= files and len(inside) < 8
        for kept in inside:
            os.kill(kept.pid, signal.SIGKILL)
        leaf = timeline.seek(found)
        assert standing(leaf)["rip"] == found.pc
        leaf.drop()
    assert not children()


@pytest.mark.parametrize("points", BOTH_WAYS)
@pytest.mark.parametrize("flags", [("-O0",), ("-O2",)])
def test_through_a_segment_that_is_too_long_for_a_trace(flags: tuple[str, ...], points: str, tmp_path: Path) -> None:
    """Back over hundreds of thousands of instructions, and forward again by as many steps."""
    program, path = programs.build("long_segment", flags), tmp_path / "x.demo"
    gdbrr("record", "--set", "trace_limit=20000", "--set", f"points={points}", "-o", path, "--", program).expect(0)
    symbols = {
        line.split()[2]: int(line.split()[0], 16) for line in run("nm", program).out.splitlines() if " t " in line
    }
    depth = 0x555555554000 + next(addr for name, addr in symbols.items() if name.startswith("depth"))
    with open_demo(path) as timeline:
        first = timeline.last_hit([Point(PointKind.EXEC, depth)], count=100 if flags == ("-O0",) else 1)
        assert first is not None
        assert timeline._segments.short_trace(first.moment.tick, None, None) is None, "it is too long indeed"
        moment: Moment | None = first.moment
        seen = []
        for _ in range(6):
            assert moment is not None and moment.pc is not None
            seen.append(moment)
            moment = timeline.previous(moment)
        # Going on from the oldest of them, the same instructions come again, in the same order.
        order = timeline.ordered([seen[at] for at in (5, 2, 0)])
        assert order == [seen[5], seen[2], seen[0]]


def test_the_beginning_of_a_long_segment_is_traced_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in front of its first instruction is the operation, and nothing that proves instructions is asked."""
    path = tmp_path / "x.demo"
    gdbrr("record", "--set", "trace_limit=20000", "-o", path, "--", programs.build("long_segment")).expect(0)
    with open_demo(path) as timeline:
        monkeypatch.setattr("gdbrr.timeline.step.back.StepBack.before", lambda *_: pytest.fail("asked"))
        segments = timeline._segments
        tick = next(tick for tick in range(timeline.end.tick) if not segments.short_trace(tick, None, None))
        beginning = segments._beginnings[tick]
        assert len(beginning.pcs) == 20000
        for place in (0, 1, 2, 500, 1999):
            assert timeline.previous(beginning.moment(place)) == beginning.moment(place - 1)


@pytest.mark.parametrize("points", BOTH_WAYS)
def test_many_executions_of_where_one_stands_hide_nothing(points: str, tmp_path: Path) -> None:
    """INVARIANT(the-end-is-no-hit). And a call that stored its return address is found without a trace."""
    program, path = programs.build("called_often", ["-no-pie"]), tmp_path / "x.demo"
    settings = ("--set", "trace_limit=20000", "--set", f"points={points}")
    gdbrr("record", *settings, "-o", path, "--", program).expect(0)
    rows = (line.split() for line in run("nm", "--defined-only", program).expect(0).out.splitlines())
    places = {row[-1]: int(row[0], 16) for row in rows}
    with open_demo(path) as timeline:
        newest = timeline.last_hit([Point(PointKind.EXEC, places["often"])])
        assert newest is not None and newest.moment.nth == 5000
        assert timeline._segments.short_trace(newest.moment.tick, None, None) is None, "it is too long indeed"
        found = timeline.last_hit([Point(PointKind.WRITE, places["mark"], 8)], newest.moment)
        assert found is not None and (found.moment.tick, found.new) == (newest.moment.tick, 2)
        leaf = timeline.seek(newest.moment)
        back = Point(PointKind.CHANGE, next(view.regs["rsp"] for view in leaf.threads()), 8)
        leaf.drop()
        call = timeline.last_hit([back], newest.moment)
        assert call is not None and call.moment == Moment(newest.moment.tick, call.new - 5, 1)
        again = timeline.last_hit([Point(PointKind.WRITE, back.addr, 8)], newest.moment)
        assert again is not None and again.moment == Moment(newest.moment.tick, call.new - 5, 5000)


def test_what_an_instruction_leads_to() -> None:
    memory = {0x2000: (0x4242).to_bytes(8, "little"), 0x3008: (0x5151).to_bytes(8, "little")}

    def where(code: str, **regs: int) -> int | None:
        raw = bytes.fromhex(code).ljust(16, b"\x90")
        known = {"eflags": 0, "rsp": 0x2000, "rax": 0x3000, "r9": 0x77, **regs}
        return follows(0x1000, lambda addr, size: raw[:size] if addr == 0x1000 else memory.get(addr, b"")[:size], known)

    assert where("c3") == 0x4242 and where("ffd0") == 0x3000 and where("41ffe1") == 0x77
    assert where("ff6008") == 0x5151 and where("ff15fa0f0000") == 0x4242
    assert where("7410") == 0x1002 and where("7410", eflags=1 << 6) == 0x1012
    assert where("0f8500010000") == 0x1106 and where("eb05") == 0x1007 and where("4889c3") == 0x1003
    assert where("e2fe") is None and where("0f05") is None
    assert [holds(cc, 1 << 7) for cc in (8, 9, 12, 13, 14, 15)] == [True, False, True, False, True, False]
    insn = decoded(bytes.fromhex("e8fbffffff"))
    assert insn is not None and (insn.length, insn.kind, insn.rel) == (5, lib.GR_INSN_CALL, -5)


@pytest.mark.parametrize("points", BOTH_WAYS)
def test_the_engine_is_entered_in_its_place_among_others(points: str, tmp_path: Path) -> None:
    """Its function that stands for one of the library's is a place of the program's, which no trace has: the steps back
    from it are those to its call, and among more points than there are debug registers it stands behind them."""
    program, path = programs.build("two_threads"), tmp_path / "x.demo"
    gdbrr("record", "--set", f"points={points}", "-o", path, "--", program).expect(7)
    with open_demo(path) as timeline:
        leaf = timeline.seek(timeline.end)
        maps = Path(f"/proc/{leaf.pid}/maps").read_text().splitlines()
        leaf.drop()
        start, library = next(
            (int(line.split("-")[0], 16), line.split()[-1]) for line in maps if "/libgdbrr.so" in line
        )
        rows = (line.split() for line in run("nm", "-D", library).expect(0).out.splitlines())
        entry = start + next(int(row[0], 16) for row in rows if row[-1] == "pthread_mutex_unlock")
        hit = timeline.last_hit([Point(PointKind.EXEC, entry)])
        assert hit is not None
        steps = [hit.moment]
        while len(steps) < 7 and (before := timeline.previous(steps[0])) is not None:
            steps.insert(0, before)
        assert len(steps) == 7 and {moment.tick for moment in steps} == {hit.moment.tick}
        each = [Point(PointKind.EXEC, moment.pc or 0) for moment in steps]
        found = timeline.all_hits(each, after=steps[0], before=Moment(hit.moment.tick + 1))
        assert [one.moment for one in found if one.moment in steps] == steps


@pytest.mark.parametrize("points", BOTH_WAYS)
def test_in_front_of_an_exchange_between_heaps_is_its_call(points: str, tmp_path: Path) -> None:
    """The allocator does it in the middle of its own code, where there are no moments."""
    program, path = programs.build("heap_passed"), tmp_path / "x.demo"
    gdbrr("record", "--set", f"points={points}", "-o", path, "--", program).expect(0)
    events = gdbrr("events", "--json", path).expect(0).out.splitlines()
    rows = [row for row in map(json.loads, events) if row["operation"] == "heap"]
    with open_demo(path) as timeline:
        segments, told = timeline._segments, 0
        for tick in [row["tick"] for row in rows][1 :: len(rows) // 12]:
            before = segments._order.before(segments._order.thread_of(tick), tick)
            trace = None if before is None else segments.short_trace(before, SHORT, None)
            if before is None or trace is None or not trace.pcs:
                continue
            found = segments._steps.before_operation(before, None)
            assert found in (None, trace.moment(trace.behind())), tick
            told += found is not None
        assert told > 6
    assert not children()
