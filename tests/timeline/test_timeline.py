"""Going back and forth in recorded programs: real engine, no debugger."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gdbrr.abi import lib
from gdbrr.errors import GdbrrError
from gdbrr.timeline.model import Hit, Interrupted, Moment, Point, PointKind
from gdbrr.timeline.timeline import DemoTimeline, open_demo
from harness import programs
from harness.run import run

from .conftest import Program, chain, children, recorded, standing, word

SCHED_GETAFFINITY = 204


# ---------------------------------------------------------------- seeking


def test_start_and_end(timeline: DemoTimeline, symbols: dict[str, int]) -> None:
    start, end = timeline.seek(timeline.start), timeline.seek(timeline.end)
    assert (start.tick, start.ended, word(start, symbols["counter"])) == (0, False, 0)
    assert (end.tick, end.ended, word(end, symbols["counter"])) == (timeline.end.tick, True, 340)
    assert len(timeline.epochs) > 4


def test_any_moment_can_be_visited_in_any_order(timeline: DemoTimeline, symbols: dict[str, int]) -> None:
    values = {}
    for tick in [60, 5, 90, 30, 5, 60]:
        leaf = timeline.seek(Moment(tick))
        assert leaf.tick == tick
        values.setdefault(tick, word(leaf, symbols["counter"]))
        assert values[tick] == word(leaf, symbols["counter"])
        leaf.drop()
    assert values[5] <= values[30] <= values[60] <= values[90]


def test_threads_show_the_program_and_not_the_engine(timeline: DemoTimeline) -> None:
    leaf = timeline.seek(Moment(timeline.end.tick - 20))
    views = leaf.threads()
    assert [view.index for view in views] == sorted(view.index for view in views)
    assert len({view.tid for view in views}) == len(views)
    for view in views:
        assert view.in_engine
        assert not view.trapped
        # Nothing of the program lies in the engine's zone, and its own text is not the program's.
        maps = Path(f"/proc/{leaf.pid}/maps").read_text().splitlines()
        inside = [line for line in maps if _holds(line, view.regs["rip"])]
        assert inside
        assert "libgdbrr" not in inside[0]


def _holds(line: str, address: int) -> bool:
    start, end = (int(part, 16) for part in line.split()[0].split("-"))
    return start <= address < end


def test_moment_behind_the_end(timeline: DemoTimeline) -> None:
    with pytest.raises(GdbrrError, match="is behind the end"):
        timeline.seek(Moment(timeline.end.tick + 1))


def test_moment_that_was_never_executed(timeline: DemoTimeline, symbols: dict[str, int]) -> None:
    with pytest.raises(GdbrrError, match="does not exist"):
        timeline.seek(Moment(1, symbols["touch"], 1))


def test_what_no_program_has_is_refused_by_name(timeline: DemoTimeline) -> None:
    """And not as something that this machine lacks, which the processor's refusal looks like."""
    for pc, nth in ((0xFFFFFFFFFF600000, 1), (1 << 47, 1), (0x401136, 0)):
        with pytest.raises(GdbrrError, match="does not exist"):
            timeline.seek(Moment(1, pc, nth))
        with pytest.raises(GdbrrError, match="does not exist"):
            timeline.last_hit([Point(PointKind.EXEC, 0x401136)], Moment(1, pc, nth))
    for kind in PointKind:
        for address in (-8, (1 << 47) - 4, 0xFFFFFFFF81000000):
            with pytest.raises(GdbrrError, match="is not an address of the program"):
                timeline.last_hit([Point(kind, address, 8)])
    assert timeline.last_hit([Point(PointKind.WRITE, 8, 8)]) is None


def test_nth_execution_in_a_segment(timeline: DemoTimeline, symbols: dict[str, int]) -> None:
    hit = timeline.last_hit([Point(PointKind.EXEC, symbols["touch"])], timeline.end)
    assert hit
    assert hit.moment.nth == 500
    leaf = timeline.seek(Moment(hit.moment.tick, symbols["touch"], 123))
    assert standing(leaf)["rip"] == symbols["touch"]
    assert [view.trapped for view in leaf.threads() if view.index == leaf.thread] == [True]
    assert timeline.last_hit([Point(PointKind.EXEC, symbols["touch"])], leaf.moment) == Hit(
        Moment(hit.moment.tick, symbols["touch"], 122), Point(PointKind.EXEC, symbols["touch"]), leaf.thread
    )


# ---------------------------------------------------------------- searching


def test_every_change_is_found_newest_first(timeline: DemoTimeline, counter: Point) -> None:
    hits = chain(timeline, counter, 45)
    assert [(hit.old, hit.new) for hit in hits] == [(value - 1, value) for value in range(340, 295, -1)]
    assert {hit.thread for hit in hits[:40]} == {1, 2}
    assert {hit.thread for hit in hits[40:]} == {0}


def test_landing_is_in_front_of_the_write(timeline: DemoTimeline, counter: Point) -> None:
    for hit in chain(timeline, counter, 3):
        leaf = timeline.seek(hit.moment)
        assert leaf.thread == hit.thread
        assert word(leaf, counter.addr) == hit.old
        leaf.drop()


def test_write_in_a_loop_of_one_segment(timeline: DemoTimeline, counter: Point, symbols: dict[str, int]) -> None:
    inside = timeline.last_hit([Point(PointKind.EXEC, symbols["count"])], timeline.end)
    assert inside
    hits = chain(timeline, counter, 45)
    assert hits[-1].moment.tick == inside.moment.tick
    leaf = timeline.seek(Moment(hits[-1].moment.tick, hits[-1].moment.pc, 100))
    assert word(leaf, counter.addr) == 99
    assert timeline.last_hit([counter], leaf.moment) == Hit(
        Moment(hits[-1].moment.tick, hits[-1].moment.pc, 99), counter, 0, 98, 99
    )
    first = timeline.last_hit([counter], Moment(hits[-1].moment.tick, hits[-1].moment.pc, 2))
    assert first
    assert (first.old, first.new) == (0, 1)
    assert timeline.last_hit([counter], first.moment) is None


def test_write_of_the_same_value_is_no_change(timeline: DemoTimeline, symbols: dict[str, int]) -> None:
    assert timeline.last_hit([Point(PointKind.CHANGE, symbols["idle"], 4)], timeline.end) is None
    written = timeline.last_hit([Point(PointKind.WRITE, symbols["idle"], 4)], timeline.end)
    assert written
    assert (written.old, written.new) == (0, 0)


def test_access_is_found_too(timeline: DemoTimeline, symbols: dict[str, int]) -> None:
    read = timeline.last_hit([Point(PointKind.ACCESS, symbols["counter"], 4)], timeline.end)
    assert read
    assert read.old == read.new == 340  # main prints it
    assert read.thread == 0


def test_store_by_the_kernel_is_the_operations(timeline: DemoTimeline, symbols: dict[str, int]) -> None:
    point = Point(PointKind.CHANGE, symbols["stamp"] + 8, 8)
    hit = timeline.last_hit([point], timeline.end)
    assert hit
    assert hit.moment.pc is None
    before, after = timeline.seek(hit.moment), timeline.seek(Moment(hit.moment.tick + 1))
    assert (word(before, point.addr, 8), word(after, point.addr, 8)) == (hit.old, hit.new)


def test_repeated_string_instruction_is_one_execution(timeline: DemoTimeline, symbols: dict[str, int]) -> None:
    middle = timeline.last_hit([Point(PointKind.CHANGE, symbols["filled"] + 40, 1)], timeline.end)
    first = timeline.last_hit([Point(PointKind.CHANGE, symbols["filled"], 1)], timeline.end)
    assert middle
    assert first
    assert middle.moment == first.moment
    assert middle.moment.nth == 1
    leaf = timeline.seek(middle.moment)
    assert word(leaf, symbols["filled"], 8) == 0
    assert standing(leaf)["rcx"] == 64


def test_more_points_than_the_processor_has(timeline: DemoTimeline, symbols: dict[str, int], counter: Point) -> None:
    others = [Point(PointKind.CHANGE, symbols["filled"] + 8 * place, 8) for place in range(6)]
    assert timeline.last_hit([*others, counter], timeline.end) == timeline.last_hit([counter], timeline.end)
    hit = timeline.last_hit([counter], timeline.end)
    assert hit
    # Below all changes of the counter by threads, the fills are the newest; then the counter's again.
    fills = timeline.last_hit([*others, counter], Moment(_first_of_workers(timeline)))
    assert fills
    assert fills.point in others
    before = timeline.last_hit([*others, counter], fills.moment)
    assert before
    assert (before.point, before.new) == (counter, 300)


def _first_of_workers(timeline: DemoTimeline) -> int:
    return next(event.tick for event in timeline.demo.events() if event.thread)


def test_the_engine_has_neither_hits_nor_moments(timeline: DemoTimeline) -> None:
    leaf = timeline.seek(timeline.end)
    lines = Path(f"/proc/{leaf.pid}/maps").read_text().splitlines()
    path = next(line.split()[-1] for line in lines if line.endswith("libgdbrr.so"))
    base = min(int(line.split("-")[0], 16) for line in lines if line.endswith(path))
    rows = [line.split() for line in run("nm", path).expect(0).out.splitlines()]
    gate = base + next(int(row[0], 16) for row in rows if row[-1] == "gr_gate_next")  # each operation comes there
    assert timeline.all_hits([Point(PointKind.EXEC, gate)]) == []
    with pytest.raises(GdbrrError, match="does not exist"):
        timeline.seek(Moment(5, gate, 1))


def test_two_points_on_the_same_bytes(timeline: DemoTimeline, counter: Point) -> None:
    written = Point(PointKind.WRITE, counter.addr, 4)
    hit = timeline.last_hit([counter, written], timeline.end)
    assert hit
    assert (hit.old, hit.new) == (339, 340)


def test_breakpoint_is_found_in_the_newest_epoch_first(timeline: DemoTimeline, symbols: dict[str, int]) -> None:
    hits = chain(timeline, Point(PointKind.EXEC, symbols["work"]), 5)
    assert len(hits) == 2
    assert {hit.thread for hit in hits} == {1, 2}
    assert hits[0].moment.tick > hits[1].moment.tick


def stop(what: str, fraction: float) -> None:
    raise Interrupted("stopped")


def test_search_can_be_interrupted_and_goes_on_afterwards(
    timeline: DemoTimeline, counter: Point, symbols: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gdbrr.ctl.control._PATIENCE", 0.0)
    timeline.seek(timeline.end).drop()
    alive = len(children())
    first = Point(PointKind.EXEC, symbols["main"], 1)  # all epochs are run to find it
    for _ in range(20):
        with pytest.raises(Interrupted):
            for _ in range(1000):  # it may be done before it first reports
                timeline.last_hit([first], Moment(timeline.end.tick), stop)
        assert len(children()) == alive
    assert timeline.last_hit([counter], timeline.end)


def test_running_ahead_can_be_interrupted_and_goes_on_afterwards(
    moments_demo: Path, counter: Point, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gdbrr.ctl.control._PATIENCE", 0.0)
    interrupted = 0
    for _ in range(5):
        with open_demo(moments_demo) as timeline:
            for _ in range(30):
                try:
                    timeline.seek(timeline.end, stop).drop()
                except Interrupted:
                    interrupted += 1
            assert word(timeline.seek(timeline.end), counter.addr) == 340
            assert timeline.checkpoints == [epoch.start for epoch in timeline.epochs]
        assert not children()
    assert interrupted


# ---------------------------------------------------------------- stepping back


def test_every_step_back_is_the_instruction_before(timeline: DemoTimeline, counter: Point) -> None:
    hit = timeline.last_hit([counter], timeline.end)
    assert hit
    moment: Moment | None = hit.moment
    steps = []
    while moment and moment.pc is not None:
        steps.append(moment)
        moment = timeline.previous(moment)
    assert moment == Moment(hit.moment.tick)
    for step in (steps[1], steps[-1]):
        leaf = timeline.seek(step)
        assert standing(leaf)["rip"] == step.pc
        leaf.drop()
    # On from the operation: the thread's segment before.
    before = timeline.previous(moment)
    assert before
    assert before.tick < moment.tick
    assert before.pc is not None
    assert timeline.seek(before).thread == hit.thread


def test_step_back_over_a_repeated_string_instruction(timeline: DemoTimeline, symbols: dict[str, int]) -> None:
    hit = timeline.last_hit([Point(PointKind.CHANGE, symbols["filled"], 1)], timeline.end)
    assert hit
    assert hit.moment.pc is not None
    behind = Moment(hit.moment.tick, hit.moment.pc + 2, 1)
    assert word(timeline.seek(behind), symbols["filled"] + 63, 1) == 7
    assert timeline.previous(behind) == hit.moment


def test_nothing_is_in_front_of_the_start(timeline: DemoTimeline) -> None:
    assert timeline.previous(timeline.start) is None


def test_step_back_from_the_end(timeline: DemoTimeline) -> None:
    # WHERE the program ends, at the call of its last operation, in front of which there is code
    at_end = standing(timeline.seek(timeline.end))
    before = timeline.previous(timeline.end)
    assert before and before.pc is not None
    assert timeline.seek(before).thread == timeline.seek(timeline.end).thread
    assert before == timeline.previous(Moment(timeline.end.tick - 1))
    assert before.pc != at_end["rip"] == standing(timeline.seek(Moment(timeline.end.tick - 1)))["rip"]


def test_a_system_call_is_one_step_back(timeline: DemoTimeline) -> None:
    """INVARIANT(one-call-one-step): start and end are shown at one place; a step from either leads in front of it."""
    started: dict[int, int] = {}
    pairs = []
    for event in timeline.demo.events():
        if event.kind == lib.GR_OP_SYS_START:
            started[event.thread] = event.tick
        elif event.kind == lib.GR_OP_SYS_END:
            pairs.append((started[event.thread], event.tick))
    assert len(pairs) > 10
    for start, end in pairs[-10:]:
        shown = [standing(timeline.seek(Moment(tick))) for tick in (start, end)]
        assert shown[0] == shown[1]
        before = timeline.previous(Moment(end))
        assert before and before.pc is not None
        assert before == timeline.previous(Moment(start))
        assert before.pc != shown[0]["rip"]


def test_segment_too_long_to_step_through(moments_program: Program, tmp_path: Path) -> None:
    demo = recorded(moments_program.path, tmp_path, "--set", "limits.trace=1000")
    with open_demo(demo) as timeline:
        hit = timeline.last_hit([Point(PointKind.EXEC, moments_program.symbols["touch"])], timeline.end)
        assert hit
        with pytest.raises(GdbrrError, match="more than 1000 instructions"):
            timeline._segments.trace(hit.moment.tick, None)
        before = timeline.previous(hit.moment)  # without a trace: the call
        assert before and before.pc is not None
        assert before.tick == hit.moment.tick and before.pc != hit.moment.pc


def test_writer_is_found_without_a_trace(
    timeline: DemoTimeline, counter: Point, monkeypatch: pytest.MonkeyPatch
) -> None:
    traced = chain(timeline, counter, 42)
    monkeypatch.setattr("gdbrr.timeline.segment.Segments.short_trace", lambda *_: None)
    assert chain(timeline, counter, 42) == traced


# ---------------------------------------------------------------- where a debugger stopped


def test_locate_finds_the_moment_of_registers(timeline: DemoTimeline, counter: Point) -> None:
    for hit in (chain(timeline, counter, 42)[-1], chain(timeline, counter, 1)[0]):
        leaf = timeline.seek(hit.moment)
        assert timeline.locate(hit.moment.tick, hit.thread, standing(leaf)) == hit.moment
        leaf.drop()


def test_locate_does_not_mind_kernel_ids(tmp_path: Path) -> None:
    """INVARIANT(ids-do-not-count): the library hands the kernel's id of a thread to it; every process has another."""
    with open_demo(recorded(programs.build("sync_identity"), tmp_path)) as timeline:
        mine = list(timeline.demo.events(thread=1))
        asked = next(at for at, event in enumerate(mine) if event.nr == SCHED_GETAFFINITY + 1)
        tick = mine[asked + 1].tick  # the end of the call: the register still holds the id
        moment, held = timeline.previous(Moment(mine[asked + 2].tick)), 0
        while moment and moment.pc is not None and moment.tick == tick:
            leaf = timeline.seek(moment)
            regs, views = standing(leaf), leaf.threads()
            leaf.drop()
            if regs["rdi"] in {tid for view in views for tid in (view.tid, *view.was)}:
                held += 1
                assert timeline.locate(tick, 1, regs, views=views).pc == moment.pc
            if regs["rdi"] in {view.tid for view in views}:  # a checkpoint behind the load brought along another one
                with pytest.raises(GdbrrError, match="these registers"):
                    timeline.locate(tick, 1, regs)
            moment = timeline.previous(moment)
        assert held


def test_locate_does_not_take_a_number_for_an_id(timeline: DemoTimeline, counter: Point) -> None:
    """INVARIANT(no-id-by-chance): a thread of the process that stopped there may have any number as its id."""
    hit = chain(timeline, counter, 42)[-1]
    leaf = timeline.seek(hit.moment)
    regs, views = standing(leaf), leaf.threads()
    leaf.drop()
    small = {value for name, value in regs.items() if value < 1 << 31 and name != "eflags"}
    assert small
    for value in small:
        named = [replace(views[0], tid=value, recorded_tid=value + 1)]
        assert timeline.locate(hit.moment.tick, hit.thread, regs, views=named) == hit.moment


def test_locate_refuses_what_never_was(timeline: DemoTimeline, counter: Point) -> None:
    hit = chain(timeline, counter, 1)[0]
    regs = {**standing(timeline.seek(hit.moment)), "rbx": 0x1234567}
    with pytest.raises(GdbrrError, match="these registers"):
        timeline.locate(hit.moment.tick, hit.thread, regs)
    with pytest.raises(GdbrrError, match="not one of thread"):
        timeline.locate(hit.moment.tick, 0, regs)
