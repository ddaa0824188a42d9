"""Several sessions in one GDB: what one leaves behind in GDB must not show in the next."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import programs
from harness.run import gdbrr

from .session import session

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")


def test_a_session_behind_a_move_begins_without_a_signal(tmp_path: Path) -> None:
    """GDB 13.1 announces the first stop of a connection when the last one before was a random signal to it."""
    program = programs.build("spine")
    demo = tmp_path / "x.demo"
    gdbrr("record", "-o", demo, "--", program).expect(0)
    out = session(
        program,
        *("break puts_total", "rr-start", "rr-back", f"rr-replay {demo}", "rr-goto 20", f"rr-replay {demo}"),
        *("rr-goto start", "rr-start", "rr-when", "rr-live"),
    )
    assert "received signal" not in out
    assert out.count("\ntick ") == 5
    assert out.count("recording: ") == 1
