"""Under rr-start, what follows a system call stays in its place."""

from __future__ import annotations

import re

import pytest

from harness import programs

from ..session import whole

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")


def test_a_breakpoint_there_is_met_each_time() -> None:
    """Also one that comes when the call has been made before: for a jump in its place that code would have moved."""
    program = programs.build("opaque", ["-pthread"])
    past = ("break get", "rr-start", "continue", "delete", "break *&behind")
    out = whole(program, *past, *["continue"] * 4, "stepi", "x/i $pc", "continue")
    assert len(re.findall(r"hit Breakpoint 2\b", out)) == 4, out
    assert re.search(r"=> \S+ <\S+>:\tmov +%edx,%eax$", out, re.MULTILINE), out
    assert "wrong 0\n" in out and "exited normally" in out, out
