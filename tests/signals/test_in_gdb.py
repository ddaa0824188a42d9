"""Handlers seen backwards from GDB: a write in one, the backtrace through the frames, and out of it.

Runs in: pytest with gdb and gdbserver. May call: gdb with gdbinit.py.
Owns: nothing.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from harness import ROOT, programs
from harness.run import run

pytestmark = pytest.mark.needs("gdb", "gdbserver")


def test_back_through_nested_handlers(tmp_path: Path) -> None:
    # GIVEN a demo in which one handler interrupts another one
    demo = tmp_path / "a.demo"
    run(sys.executable, "-m", "gdbrr", "record", "-o", demo, "--", programs.build("signal_nested")).expect(0)
    # WHEN going back to the last write in the inner one, and out of it
    words = ["gdb", "-nx", "-batch"]
    for command in (
        "set pagination off",
        "set confirm off",
        "set width 0",
        f"source {ROOT / 'gdbinit.py'}",
        f"rr-replay {demo}",
        "watch inner",
        "reverse-continue",
        "bt",
        "delete",
        "reverse-finish",
        "rr-when",
        "info symbol $pc",
    ):
        words += ["-ex", command]
    result = run(*words, limit=120).expect(0)
    # THEN the backtrace passes the frames, and what comes in front of the handler is the call that it interrupted
    frames = re.findall(r"^#\d+ .*?(on_alarm|on_usr1|main|signal handler called)\b", result.out, re.MULTILINE)
    assert frames[:2] == ["on_alarm", "signal handler called"] and frames[-1] == "main", result.out
    assert "does not exist" not in result.out + result.err
    assert re.search(r"^\w+ \+ \d+ in section \.text of .*libc", result.out, re.MULTILINE), result.out


def test_the_engines_timer_is_no_stop(tmp_path: Path) -> None:
    """A signal in a loop is delivered by a timer of the engine, which GDB shall not see, nor the user."""
    words = ["gdb", "-nx", "-batch"]
    for command in (
        "set pagination off",
        "set confirm off",
        f"source {ROOT / 'gdbinit.py'}",
        f"file {programs.build('signal_loop')}",
        "set args register",
        "break main",
        "rr-start",
        "delete",
        "continue",
        "rr-when",
    ):
        words += ["-ex", command]
    result = run(*words, limit=120).expect(0)
    assert "SIGTRAP" not in result.out, result.out
    assert re.search(r"^tick \d+ of \d+ \(100%\)", result.out, re.MULTILINE), result.out
