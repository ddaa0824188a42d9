"""Steps into inlined functions, which GDB makes without the process."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import programs
from harness.run import gdbrr

from ..session import whole

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")


@pytest.mark.parametrize("step", ["step", "reverse-step"])
def test_a_step_into_an_inlined_function_has_no_words_of_the_command_before(step: str, tmp_path: Path) -> None:
    program, demo = programs.build("inlined_twice", ["-O1"]), tmp_path / "x.demo"
    gdbrr("record", "-o", demo, "--", program).expect(8)
    steps = (step, "echo INNER\\n", step, "print number", "echo ON\\n", "next")
    out = whole(program, f"rr-replay {demo}", "rr-back -b inner", "echo OUTER\\n", *steps)
    outer, inner = out.partition("OUTER\n")[2].split("ON\n")[0].split("INNER\n")
    assert outer.startswith("outer (number=2) at ") and inner.startswith("inner (number=2) at "), out
    assert "stopped" not in outer + inner and "$1 = 2" in inner, out
