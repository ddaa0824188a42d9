"""Every segment of programs with threads, locks, signals and calls: counted, and by single steps.

Runs in: pytest. May call: timeline, harness.
Owns: nothing.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from gdbrr.abi import lib
from gdbrr.timeline.timeline import DemoTimeline, open_demo
from harness import programs
from harness.run import gdbrr

_MOST = 3000


def counted(timeline: DemoTimeline, tick: int) -> list[int] | None:
    """What the segment executes; None where it is not counted."""
    worker = timeline._checkpoints.worker_at(tick)
    try:
        worker.slot.flag(lib.GR_SLOT_TRACE)
        worker.begin(tick + 1, counted=True)
        worker.finish()
        pcs, whole = worker.control.trace(worker.slot)
        assert whole and len(pcs) >= worker.slot.instructions
        return pcs[: worker.slot.instructions] if worker.slot.counted else None
    finally:
        worker.drop()


@pytest.mark.limit(120)
@pytest.mark.parametrize(
    "name", ["moments", "libc_putc", "signals_sent", "spine", "sync_queue", "identity_locks", "heap_threads"]
)
def test_counted_is_stepped(tmp_path: Path, name: str) -> None:
    """INVARIANT(from-the-first), and INVARIANT(only-the-programs)."""
    demo = tmp_path / "x.demo"
    gdbrr("record", "-o", demo, "--", programs.build(name, ["-pthread"]))
    with open_demo(demo, ahead=False) as timeline:
        segments, compared = timeline._segments, 0
        for tick in range(min(timeline.end.tick, 250)):
            trace = segments.short_trace(tick, _MOST, None)
            found = counted(timeline, tick) if trace is not None else None
            if trace is not None and found is not None:
                assert list(trace.pcs) == found, f"tick {tick}"
                compared += 1
        assert compared > 5
