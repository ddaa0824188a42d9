"""Crashes and waits inside of library functions: shown with their stack, and with the past of their segment."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import programs
from harness.run import gdbrr

from ..session import whole

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")
KINDS = ("lock", "unlock", "spin", "post", "memcpy", "fclose", "free")
FLAGS = ("-O0", "-pthread", "-w")
BACK = ("frame function inner", "info frame", "rr-back -w number", "rr-when")
STACK = re.compile(r"^#\d+ .*\binner \(what=.*\n(?:.*\n)*?#\d+ .*\bmain \(", re.MULTILINE)


@pytest.mark.parametrize("kind", KINDS)
def test_a_crash_in_a_replay(kind: str, tmp_path: Path) -> None:
    program, demo = programs.build("faults_inside", [*FLAGS]), tmp_path / "x.demo"
    gdbrr("record", "-o", demo, "--", program, kind)
    out = whole(program, f"rr-replay {demo}", "bt", "rr-goto start", "continue", "bt", *BACK)
    signal = "SIGABRT" if kind == "free" else "SIGSEGV"
    assert f"received signal {signal}" in out or signal == "SIGABRT", out
    assert len(STACK.findall(out)) == 2 and "number: 0 -> 1 at faults_inside.c:" in out, out


@pytest.mark.parametrize("kind", KINDS)
def test_a_crash_under_rr_start(kind: str) -> None:
    """What its thread did since its last operation is in its past, though the function never became one."""
    out = whole(programs.build("faults_inside", [*FLAGS]), f"rr-start {kind}", "bt", *BACK)
    signal = "SIGABRT" if kind == "free" else "SIGSEGV"
    assert f"received signal {signal}" in out and STACK.search(out), out
    assert "number: 0 -> 1 at faults_inside.c:" in out and "behind the last moment" not in out, out


INTERRUPTS = """python
import os, re, signal, threading, time
pid = re.search(r'process: +([0-9]+)', gdb.execute('info gdbrr', to_string=True))[1]
def interrupt():
    while not open('/proc/' + pid + '/syscall').read().startswith('202 '):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
"""
"""Ctrl-C when the program waits for a futex."""


def test_a_wait_under_rr_start() -> None:
    start = ("break inner", "rr-start", INTERRUPTS, "delete", "continue")
    out = whole(programs.build("faults_inside", [*FLAGS]), *start, "bt", *BACK)
    assert "received signal SIGINT" in out and STACK.search(out), out
    assert "number: 0 -> 1 at faults_inside.c:" in out and "behind the last moment" not in out, out
