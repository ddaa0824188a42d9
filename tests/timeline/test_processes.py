"""Checkpoints, leaves and the lives of their processes: nothing is lost, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import gdbrr
from fuzz.recordings import Op
from gdbrr.abi import lib
from gdbrr.ctl.control import Slot
from gdbrr.demo.reader import Demo
from gdbrr.errors import EXIT_DESYNC, GdbrrError
from gdbrr.timeline.model import Moment, Point
from gdbrr.timeline.timeline import DemoTimeline, open_demo
from gdbrr.timeline.tracer import NoProcess
from gdbrr.timeline.worker import Checkpoint, Desynchronised, Process, Worker
from harness import ROOT, programs
from replay.alter import alter

from .conftest import BOTH_WAYS, Program, chain, children, is_gone, recorded, word

FEW_MEGABYTES = ("--set", "limits.checkpoint_memory=4M")


@pytest.mark.parametrize("points", BOTH_WAYS)
def test_checkpoints_are_thinned_out(points: str, moments_program: Program, tmp_path: Path, counter: Point) -> None:
    few = ("--set", "epochs.ticks=16", "--set", "limits.checkpoints=3", "--set", f"points={points}")
    demo = recorded(moments_program.path, tmp_path, *few)
    with open_demo(demo) as timeline:
        hits = chain(timeline, counter, 42)
        assert [(hit.old, hit.new) for hit in hits] == [(value - 1, value) for value in range(340, 298, -1)]
        assert len(timeline.checkpoints) <= 3
        assert timeline.checkpoints[0] == 0
        assert len(timeline.epochs) > 6
    assert not children()


def test_spacing_grows_with_age(moments_program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gdbrr.timeline.checkpoints._SPACING", 0)
    demo = recorded(moments_program.path, tmp_path, "--set", "epochs.ticks=16", "--set", "limits.checkpoints=6")
    with open_demo(demo) as timeline:
        timeline.seek(timeline.end).drop()
        ticks = timeline.checkpoints
        gaps = [after - before for before, after in pairwise(ticks)]
        assert ticks[0] == 0 and len(ticks) == 6 and len(timeline.epochs) > 8
        assert gaps[0] == max(gaps) and gaps[-1] == min(gaps) < gaps[0]


class Clock:
    """Time that passes by what is done: a millisecond for each epoch, and so much for each checkpoint."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cost: float) -> None:
        self.now, self.made, begin, freeze = 0.0, 0, Worker.begin, Worker.freeze

        def begun(worker: Worker, *arguments: Any, **more: Any) -> None:
            self.now += 0.001
            begin(worker, *arguments, **more)

        def frozen(worker: Worker) -> Checkpoint:
            self.now += cost
            self.made += 1
            return freeze(worker)

        monkeypatch.setattr("gdbrr.timeline.checkpoints.time", self)
        monkeypatch.setattr(Worker, "begin", begun)
        monkeypatch.setattr(Worker, "freeze", frozen)

    def monotonic(self) -> float:
        return self.now


def test_spacing_grows_with_what_a_checkpoint_costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is what is resident: a fork of a gigabyte takes a hundred times as long as one of ten megabytes."""
    demo = recorded(programs.build("grows"), tmp_path, "--set", "epochs.ticks=16", "--set", "limits.checkpoints=6")
    made = []
    for cost in (0.00001, 0.0002, 0.001):
        with monkeypatch.context() as patch:
            clock = Clock(patch, cost)
            with open_demo(demo) as timeline:
                timeline._checkpoints.reach(timeline.end.tick)
                epochs = len(timeline.epochs)
                made.append(clock.made)
    # All; the first seven and every fourth of the others; the first seven and, of 34 others, one in twenty.
    assert made == [epochs, 15, 8], made


def test_memory_of_checkpoints_is_bounded(tmp_path: Path) -> None:
    program = programs.build("grows")
    with open_demo(recorded(program, tmp_path, "--set", "epochs.ticks=16")) as timeline:
        timeline.seek(timeline.end).drop()
        free = len(timeline.checkpoints)
    with open_demo(recorded(program, tmp_path, "--set", "epochs.ticks=16", *FEW_MEGABYTES)) as timeline:
        timeline.seek(timeline.end).drop()
        bound = [*timeline.checkpoints]
        for tick in (timeline.end.tick // 2, 40, timeline.end.tick - 5):
            timeline.seek(Moment(tick)).drop()
    assert free == 32 and 2 <= len(bound) <= 10 and bound[0] == 0


def test_copies_are_the_first_to_go_when_memory_is_short(timeline: DemoTimeline) -> None:
    leaf = timeline.seek(timeline.end)
    scores = [int(Path(f"/proc/{kept.pid}/oom_score_adj").read_text()) for kept in timeline._checkpoints._kept]
    assert scores[1:] == [1000] * (len(scores) - 1) and scores[0] < 500
    assert int(Path(f"/proc/{leaf.pid}/oom_score_adj").read_text()) == 500


def test_a_copy_has_no_tables_that_its_program_does_not_need(timeline: DemoTimeline) -> None:
    """INVARIANT(no-look-behind), INVARIANT(no-high-descriptor): each would be copied with each copy."""
    leaf = timeline.seek(timeline.end)
    for pid in (leaf.pid, *(kept.pid for kept in timeline._checkpoints._kept)):
        status = dict(line.split(":\t") for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        assert int(status["FDSize"]) <= 256 and int(status["VmPTE"].split()[0]) < 300


def test_a_checkpoint_that_was_killed_is_made_again(timeline: DemoTimeline, counter: Point) -> None:
    """INVARIANT(copies-go-first): whoever ends them, everything goes on."""
    expected = chain(timeline, counter, 42)
    ticks = timeline.checkpoints
    for kept in timeline._checkpoints._kept[1:]:
        os.kill(kept.pid, signal.SIGKILL)
    assert chain(timeline, counter, 42) == expected
    leaf = timeline.seek(Moment(ticks[-1] + 1))
    assert leaf.tick == ticks[-1] + 1
    assert timeline.checkpoints == ticks
    os.kill(timeline._checkpoints._kept[0].pid, signal.SIGKILL)
    with pytest.raises(GdbrrError, match="first checkpoint of the replay was ended from outside"):
        timeline.seek(Moment(1))


@pytest.mark.parametrize("name", ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGTSTP"])
def test_a_signal_to_all_of_the_programs_name_is_none_to_its_copies(timeline: DemoTimeline, name: str) -> None:
    """INVARIANT(meant-for-the-recorded)"""
    timeline.seek(timeline.end).drop()
    copies = [kept.pid for kept in timeline._checkpoints._kept]
    leaf = timeline.seek(Moment(timeline.end.tick // 2))
    for pid in (leaf.pid, *copies):
        os.kill(pid, signal.Signals[name])
    leaf.drop()
    timeline.seek(Moment(timeline.end.tick // 2)).drop()
    assert [kept.pid for kept in timeline._checkpoints._kept] == copies
    assert all(Path(f"/proc/{pid}/fd").exists() for pid in copies)


def test_a_place_that_was_visited_is_near(
    moments_program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counter: Point
) -> None:
    """INVARIANT(again-is-near), and INVARIANT(copies-go-first) for these copies, too."""
    monkeypatch.setattr("gdbrr.timeline.checkpoints._COSTLY", 0)
    monkeypatch.setattr("gdbrr.timeline.checkpoints._FEW", 64)
    demo = recorded(moments_program.path, tmp_path)
    with open_demo(demo) as timeline:
        tick = timeline.end.tick - 3
        expected = timeline.last_hit([counter], Moment(tick))
    with open_demo(demo) as timeline:
        assert len(timeline.epochs) == 1
        checkpoints = timeline._checkpoints
        timeline.seek(Moment(tick)).drop()
        assert checkpoints.nearest(tick).tick == tick
        assert 0 < tick - checkpoints.nearest(tick - 1).tick <= tick // 64
        assert timeline.last_hit([counter], Moment(tick)) == expected
        os.kill(checkpoints.nearest(tick).pid, signal.SIGKILL)
        leaf = timeline.seek(Moment(tick))
        assert leaf.tick == tick
        leaf.drop()
        for other in range(20, tick, tick // 30):
            timeline.seek(Moment(other)).drop()
        assert timeline.checkpoints == [0] and len(list(checkpoints._near)) <= 12
    assert not children()


def test_where_no_more_processes_are_allowed_checkpoints_go(
    moments_demo: Path, counter: Point, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, allowed = Process._copy, 8

    def limited(self: Process, *arguments: object) -> Slot:
        if len(children()) >= allowed:
            raise NoProcess("this machine refuses another process (error 11)", "raise `ulimit -u`")
        return copy(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Process, "_copy", limited)
    with open_demo(moments_demo) as timeline:
        leaf = timeline.seek(timeline.end)
        assert word(leaf, counter.addr) == 340
        hits = chain(timeline, counter, 42)
        assert [hit.new for hit in hits] == list(range(340, 298, -1))
        assert len(timeline.checkpoints) < allowed < len(timeline.epochs)
        others = [timeline.seek(Moment(3)) for _ in range(allowed - len(children()))]
        with pytest.raises(GdbrrError, match="another process"):
            for _ in range(allowed):
                others.append(timeline.seek(Moment(3)))


@pytest.fixture
def one_core() -> Iterator[None]:
    """The woken thread runs first there, and the one that woke it is behind."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    yield
    os.sched_setaffinity(0, cores)


@pytest.mark.limit(30)
@pytest.mark.usefixtures("one_core")
def test_somebody_stands_behind_the_end_of_a_thread(tmp_path: Path) -> None:
    """INVARIANT(a-turn-waits): whoever gave his turn to the thread that ends need not be parked yet."""
    with open_demo(recorded(programs.build("one_by_one"), tmp_path)) as timeline:
        ends = [event.tick for event in timeline.demo.events() if event.kind == lib.GR_OP_EXIT]
        assert len(ends) == 6
        for tick in ends * 4:
            leaf = timeline.seek(Moment(tick + 1))
            assert leaf.tick == tick + 1
            leaf.drop()
    assert not children()


def test_dropped_leaf_gives_its_place_back(timeline: DemoTimeline) -> None:
    for _ in range(lib.GR_SLOTS + 10):
        timeline.seek(Moment(3)).drop()


def test_leaves_end_with_their_timeline(moments_demo: Path) -> None:
    timeline = open_demo(moments_demo)
    leaves = [timeline.seek(Moment(tick)) for tick in (1, 20, 40)]
    assert len({leaf.pid for leaf in leaves}) == 3
    timeline.close()
    assert not children()


def test_everything_ends_with_the_server(moments_demo: Path) -> None:
    script = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
import gdbrr
from gdbrr.timeline.model import Moment
timeline = gdbrr.open({str(moments_demo)!r})
leaf = timeline.seek(timeline.end)
print(open(f"/proc/self/task/{{os.getpid()}}/children").read(), flush=True)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == -signal.SIGKILL
    pids = done.stdout.split()
    assert len(pids) > 4
    for pid in map(int, pids):
        assert is_gone(pid)


def test_desynchronised_replay_says_where(moments_program: Program, tmp_path: Path) -> None:
    def unlock_dropped(ops: list[Op]) -> list[Op]:
        del ops[next(i for i, op in enumerate(ops) if op.kind == lib.GR_OP_MUTEX_UNLOCK)]
        return ops

    first = recorded(moments_program.path, tmp_path, "--order-log", "clock")
    demo = alter(first, tmp_path / "altered.demo", unlock_dropped)
    with Demo.open(demo) as opened:
        ticks = opened.ticks
    with open_demo(demo) as timeline:
        assert timeline.seek(timeline.start).tick == 0
        with pytest.raises(GdbrrError, match="is desynchronised at tick") as caught:
            timeline.seek(timeline.end)
        assert caught.value.exit_code == EXIT_DESYNC
        tick = int(caught.value.message.split("tick ")[1].split(":")[0])
        assert 0 < tick < ticks
    assert not children()


def test_time_ends_where_the_replay_is_desynchronised(moments_program: Program, tmp_path: Path) -> None:
    """INVARIANT(end-is-reachable)."""

    def last_unlock_dropped(ops: list[Op]) -> list[Op]:
        del ops[max(i for i, op in enumerate(ops) if op.kind == lib.GR_OP_MUTEX_UNLOCK)]
        return ops

    first = recorded(moments_program.path, tmp_path, "--order-log", "clock", "--set", "epochs.ticks=16")
    demo = alter(first, tmp_path / "altered.demo", last_unlock_dropped)
    with open_demo(demo) as timeline:
        cut = timeline.settle()
        assert cut is not None and 0 < cut.tick < timeline.demo.ticks
        assert timeline.end == Moment(cut.tick) and timeline.epochs[-1].end == cut.tick
        leaf = timeline.seek(timeline.end)
        assert leaf.moment == timeline.end and leaf.ended
        with pytest.raises(GdbrrError, match="is behind the end"):
            timeline.seek(Moment(cut.tick + 1))
    assert not children()


def test_checkpoints_outlive_a_skeleton_that_is_desynchronised(
    moments_program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """INVARIANT(first-ends-last). Without it they end with the skeleton, which is the first of their group."""
    finish, last = Worker.finish, 60

    def finished(self: Worker, *arguments: Any, **more: Any) -> int:
        state = finish(self, *arguments, **more)
        if not self.slot.index and self.slot.tick > last:
            raise Desynchronised(last, f"the replay is desynchronised at tick {last}")
        return state

    demo = recorded(moments_program.path, tmp_path, "--set", "epochs.ticks=16")
    monkeypatch.setattr(Worker, "finish", finished)
    with open_demo(demo) as timeline:
        cut = timeline.settle()
        assert cut is not None and cut.tick == last
        assert timeline.checkpoints == [0, 16, 32, 48]
        for tick in (last, 40, 3):
            assert timeline.seek(Moment(tick)).tick == tick
    assert not children()


def test_output_that_differs_is_known(moments_program: Program, tmp_path: Path) -> None:
    program = tmp_path / "copy"
    program.write_bytes(moments_program.path.read_bytes())
    program.chmod(0o755)
    demo = recorded(program, tmp_path)
    with open_demo(demo) as timeline:
        assert timeline.settle() is None and timeline.soft is None
    # Another program under the same name: it prints something else.
    program.write_bytes(program.read_bytes().replace(b"begin", b"BEGIN"))
    with open_demo(demo) as timeline:
        assert timeline.settle() is None and timeline.soft is not None
        assert timeline.soft.fd == 1 and 0 < timeline.soft.tick < timeline.end.tick


def test_package_offers_it_to_scripts(moments_demo: Path) -> None:
    with gdbrr.open(moments_demo) as timeline:  # type: ignore[operator]
        assert timeline.end.tick > 100
