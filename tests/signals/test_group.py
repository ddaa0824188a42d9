"""A program that signals its group of processes: it is met by that as natively, and its recorder keeps the demo.

Runs in: pytest; each recorder leads a session. May call: gdbrr record, gdbrr replay, the program.
Owns: which signals these are.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from harness import programs
from harness.run import run

GDBRR = (sys.executable, "-m", "gdbrr")
NAMES = "ABRT USR1 USR2 ALRM VTALRM PROF IO PWR STKFLT INT QUIT TERM HUP XCPU RTMIN RTMAX WINCH"
TWICE = {signal.SIGTERM, signal.SIGHUP}
"""The recorder hands these on, since it cannot see from whom they are (docs/limits.md)."""


@pytest.mark.parametrize("name", NAMES.split())
def test_its_recorder_lives_on(name: str, tmp_path: Path) -> None:
    number = getattr(signal, f"SIG{name}")
    for how in [(), ("handled",)] if number not in TWICE else [()]:
        command = (programs.build("signal_group"), str(int(number)), *how)
        first, demo = run(*command), tmp_path / f"{len(how)}.demo"
        assert first.status in (0, 128 + number)
        recorded = run(*GDBRR, "record", "-o", demo, "--", *command).expect(first.status)
        assert recorded.out == first.out
        assert run(*GDBRR, "replay", demo).expect(first.status).out == first.out
