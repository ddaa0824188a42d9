"""Kernel ids that the program has read, in copies of copies, whose threads have others."""

from __future__ import annotations

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
