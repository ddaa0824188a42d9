"""A signal that reaches the recorder while the program is being started is the program's all the same."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from gdbrr.config import profiles
from gdbrr.launch import engine, record, spawn
from harness import programs

ALARM = 30


def test_a_signal_during_the_start_is_handed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """INVARIANT(no-signal-lost): the program runs, but nobody has told its id yet."""
    launch = spawn.launch

    def and_a_signal(*args: Any) -> int:
        pid = launch(*args)
        while not args[2].c.started:  # the control page
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGTERM)
        return pid

    monkeypatch.setattr(spawn, "launch", and_a_signal)
    program = programs.build("honest_nap")
    profile = profiles.resolve(None, program, [])
    request = record.Request([str(program)], dict(os.environ), str(tmp_path), profile, engine.find())
    try:
        signal.alarm(ALARM)  # ends this test where the signal was lost
        assert record.run(request, tmp_path / "x.demo").status == 128 + signal.SIGTERM
    finally:
        signal.alarm(0)
