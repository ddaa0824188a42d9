"""A fault that GDB neither stops for nor passes on recurs for ever, as without a replay; Ctrl-C ends that."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import ROOT, programs
from harness.run import gdbrr
from harness.terminal import Terminal

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")


def test_ctrl_c_stops_a_fault_that_recurs(tmp_path: Path) -> None:
    program, demo = programs.build("past_crash"), tmp_path / "x.demo"
    gdbrr("record", "-o", demo, "--", program)
    words = ["gdb", "-nx", "-q"]
    for line in (
        *("set pagination off", "set confirm off", "set debuginfod enabled off", "set style enabled off"),
        *(f"source {ROOT / 'gdbinit.py'}", f"file {program}", f"rr-replay {demo}", "rr-goto start", "continue"),
        *("handle SIGSEGV nostop noprint nopass", "echo READY\\n"),
    ):
        words += ["-ex", line]
    with Terminal(*words, size=(40, 120)) as terminal:
        terminal.wait_for("READY")
        assert b"received signal SIGSEGV" in terminal.seen
        for _ in range(3):
            terminal.seen = b""
            terminal.type("continue\n")
            terminal.wait_for("Continuing.")
            terminal.type("\x03")
            terminal.wait_for("received signal SIGINT")
            terminal.seen = b""
            terminal.type("rr-when\n")
            terminal.wait_for(", epoch")
        terminal.seen = b""
        terminal.type("reverse-stepi\n")  # what was asked for is over: nothing is left of it
        terminal.wait_for("(gdb)")
        assert b"SIGINT" not in terminal.seen
        terminal.type("quit\n")
        assert terminal.wait() == 0
