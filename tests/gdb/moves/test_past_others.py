"""A step of a thread that waits, while another one comes by breakpoints at which GDB does not stop."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import programs
from harness.run import gdbrr

from ..session import whole

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")

# A step into a library's function is made in its linkage table, instruction by instruction.
FLAGS = ["-Wl,-z,now"]
CALL = "step_waits.c:28"
PASSED = {
    "ignored": ("break pass", "ignore $bpnum 100"),
    "another's": ("break pass thread 1",),
    "with a condition": ("break pass if passes == 77",),
}


@pytest.mark.parametrize("step", ["step", "next"])
@pytest.mark.parametrize("passed", PASSED)
@pytest.mark.parametrize("way", ["rr-replay", "rr-start"])
def test_it_ends_where_that_thread_goes_on(way: str, passed: str, step: str, tmp_path: Path) -> None:
    program, demo = programs.build("step_waits", FLAGS), tmp_path / "x.demo"
    if way == "rr-replay":
        gdbrr("record", "-o", demo, "--", program).expect(0)
    there = f"tbreak {CALL}"
    begin = (f"rr-replay --start {demo}", there, "continue") if way == "rr-replay" else (there, "rr-start")
    out = whole(program, *begin, *PASSED[passed], step, "info line *$pc", "print passes", "continue")
    assert re.findall(r"^Line (\d+) of", out, re.MULTILINE) == ["29"], out
    assert "$1 = 10" in out and "hit Breakpoint" not in out, out
