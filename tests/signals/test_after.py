"""What the engine armed for one signal is gone when its handler runs: no later call is ended by it."""

from __future__ import annotations

from pathlib import Path

from harness import programs
from harness.run import gdbrr


def test_a_wait_behind_a_handler_is_ended_by_its_own_signal_only(tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    assert gdbrr("record", "-o", demo, "--", programs.build("signal_after")).expect(0).out == "-1 1 -1 2\n"
    assert gdbrr("replay", demo).expect(0).out == "-1 1 -1 2\n"
