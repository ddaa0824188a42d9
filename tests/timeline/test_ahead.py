"""The skeleton runs ahead by itself, gives way to whoever works, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gdbrr.errors import GdbrrError
from gdbrr.timeline.model import Interrupted, Moment
from gdbrr.timeline.timeline import DemoTimeline, open_demo
from harness import ROOT

from .conftest import children, is_gone

pytestmark = pytest.mark.limit(60)


def await_all(timeline: DemoTimeline) -> None:
    """Without asking it to go anywhere."""
    last = timeline.epochs[-1].start
    while timeline.checkpoints[-1] < last:
        time.sleep(0.001)


def test_it_comes_to_the_last_epoch_by_itself(timeline: DemoTimeline) -> None:
    await_all(timeline)
    assert timeline.checkpoints == [epoch.start for epoch in timeline.epochs]


def test_control_it_goes_nowhere_where_it_is_not_to_run_ahead(moments_demo: Path) -> None:
    with open_demo(moments_demo, ahead=False) as timeline:
        assert timeline.checkpoints == [0] and len(timeline.epochs) > 6
        timeline.seek(Moment(timeline.epochs[2].start + 1)).drop()
        assert timeline.checkpoints == [epoch.start for epoch in timeline.epochs[:3]]
    assert not children()


def test_what_is_there_is_used_while_it_runs(moments_demo: Path) -> None:
    with open_demo(moments_demo) as timeline:
        for epoch in timeline.epochs:
            leaf = timeline.seek(Moment(epoch.start))
            assert leaf.tick == epoch.start
            leaf.drop()
            assert timeline.checkpoints[-1] >= epoch.start
    assert not children()


def test_who_waits_for_it_hears_how_far_it_is_and_may_give_up(moments_demo: Path) -> None:
    told: list[tuple[str, float]] = []

    def stop(what: str, fraction: float) -> None:
        told.append((what, fraction))
        raise Interrupted("stopped")

    with open_demo(moments_demo, ahead=False) as timeline:
        with pytest.raises(Interrupted):
            timeline.seek(timeline.end, stop)
        assert len(told) == 1 and told[0][0] == "replaying" and 0 <= told[0][1] <= 1
        assert timeline.seek(timeline.end).moment == timeline.end
    assert not children()


def test_it_stands_still_while_somebody_searches(moments_demo: Path) -> None:
    """INVARIANT(search-alone): it begins no epoch meanwhile that nobody waits for."""
    with open_demo(moments_demo, ahead=False) as timeline:
        with timeline._checkpoints.pinned():
            timeline._checkpoints._ahead = True
            for tick in range(1, 16):
                timeline.seek(Moment(tick)).drop()
            assert timeline.checkpoints == [0]
        await_all(timeline)
    assert not children()


def test_closing_ends_it_wherever_it_is(moments_demo: Path) -> None:
    for pause in (0, 0.001, 0.005, 0.02, 0.05):
        threads = threading.active_count()
        with open_demo(moments_demo) as timeline:
            time.sleep(pause)
            assert len(timeline.checkpoints) >= 1
        assert not children() and threading.active_count() == threads


def test_it_ends_with_its_server(moments_demo: Path) -> None:
    script = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
import gdbrr
timeline = gdbrr.open({str(moments_demo)!r})
while len(timeline.checkpoints) < 2:
    pass
print(open(f"/proc/self/task/{{os.getpid()}}/children").read(), flush=True)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(done.stdout.split()) >= 3
    for pid in map(int, done.stdout.split()):
        assert is_gone(pid)


def test_a_skeleton_that_was_killed_is_said_to_whoever_needs_more_of_it(moments_demo: Path) -> None:
    with open_demo(moments_demo, ahead=False) as timeline:
        os.kill(timeline._checkpoints._skeleton.pid, signal.SIGKILL)
        for _ in range(2):
            with pytest.raises(GdbrrError, match="ended by itself"):
                timeline.seek(timeline.end)
        assert timeline.seek(Moment(3)).tick == 3
    assert not children()
