"""Kernel ids that the program has read, in copies of copies, whose threads have others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gdbrr.demo.reader import Demo
from gdbrr.timeline.leaf import views
from gdbrr.timeline.model import meant
from gdbrr.timeline.timeline import open_demo
from harness import programs
from harness.run import gdbrr

pytestmark = pytest.mark.needs("perf_breakpoints")

GETPID, TGKILL = 39, 234
TRIES = 30
"""Other processes of the machine take ids, too."""


@pytest.mark.parametrize("copies", [1, 3])
def test_an_id_in_a_register_is_known_in_a_copy(copies: int, tmp_path: Path) -> None:
    """INVARIANT(ids-outlive-copies): pthread_kill reads the id of another thread, asks for that of the process, and
    only then makes its call. Without it the replay is desynchronised there."""
    path = tmp_path / "x.demo"
    gdbrr("record", "-o", path, "--", programs.build("calls_caught")).expect(0)
    with Demo.open(path) as demo:
        calls = [event for event in demo.events() if event.nr == TGKILL + 1]
        asked = next(event for event in demo.events(thread=calls[0].thread) if event.nr == GETPID + 1)
        born = len(demo.threads)
    frozen = []
    with open_demo(path) as timeline:
        places = timeline._checkpoints
        worker = places.worker_at(asked.tick + 1)
        for _ in range(copies):
            frozen.append(worker.freeze())
            worker.drop()
            worker = places.wake(frozen[-1])
        worker.run(calls[1].tick)
        found = views(worker.pid, born)
        regs = next(view.regs for view in found if view.index == calls[1].thread)
        main = found[0]
        worker.drop()
        for each in frozen:
            each.drop()
    assert main.tid != regs["rsi"] and regs["rsi"] in main.was
    assert meant(regs, found)["rsi"] == main.recorded_tid


@pytest.mark.needs("chosen_pids")
def test_a_copy_whose_id_is_the_recorded_one_is_no_other_state(
    tmp_path: Path, go_on_from: Callable[[int], None]
) -> None:
    """INVARIANT(ids-overlap): the engine keeps recorded ids as owners of locks; the program ends with one held."""
    path = tmp_path / "x.demo"
    gdbrr("record", "--order-log", "clock", "-o", path, "--", programs.build("sync_cancel_wait")).expect(0)
    with open_demo(path) as timeline:
        first = timeline.seek(timeline.end)
        recorded, same = first.threads()[0].recorded_tid, False
        assert first.threads()[0].tid != recorded
        for _ in range(TRIES):
            go_on_from(recorded - 1)
            other = timeline.seek(timeline.end)
            same |= other.threads()[0].tid == recorded
            assert not list(other.digest().differences(first.digest()))
            other.drop()
        first.drop()
    assert same
