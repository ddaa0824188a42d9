"""The engine tries memory that may not be there, and GDB hears of no fault that the program did not have."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import programs

from ..session import recorded, whole

pytestmark = pytest.mark.needs("gdb", "gdbserver")


def test_pointers_that_are_null_are_no_faults_in_a_replay(tmp_path: Path) -> None:
    program = programs.build("null_pointers", ["-pthread"])
    demo = recorded(program, tmp_path)
    steps = ("break main", "continue", *["next"] * 9, "print c", "reverse-continue", "delete", "continue", "bt 1")
    out = whole(program, f"rr-replay --start {demo}", *steps)
    assert "SIGSEGV" not in out and "= 121 'y'" in out and "_exit" in out, out


def test_pointers_that_are_null_are_no_faults_under_rr_start() -> None:
    out = whole(programs.build("null_pointers", ["-pthread"]), "rr-start")
    assert "SIGSEGV" not in out and out.startswith("y\n") and "exited normally" in out, out


def test_wild_pointers_are_the_kernels_business() -> None:
    out = whole(programs.build("wild_pointers"), "rr-start")
    assert "SIGSEGV" not in out and "SIGBUS" not in out and "exited normally" in out, out
    assert out.startswith("EFAULT EFAULT EFAULT ENOTTY EFAULT 1\n")


def test_wild_pointers_are_the_kernels_business_in_a_replay(tmp_path: Path) -> None:
    program = programs.build("wild_pointers")
    out = whole(program, f"rr-replay --start {recorded(program, tmp_path)}", "continue", "bt 1", "reverse-continue")
    assert "SIGSEGV" not in out and "SIGBUS" not in out and "_exit" in out, out
