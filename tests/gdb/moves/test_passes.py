"""Which pass of a loop one stands in, where its registers repeat."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import programs
from harness.run import gdbrr

from ..session import whole

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")


def test_a_stop_in_a_loop_that_repeats_its_registers(tmp_path: Path) -> None:
    """Five hundred calls with equal registers: which of them it is tells memory, in a replay and while recording."""
    program, demo = programs.build("moments", ["-no-pie"]), tmp_path / "x.demo"
    gdbrr("record", "--set", "epoch_ticks=16", "-o", demo, "--", program).expect(0)
    for first, then in ((f"rr-replay --start {demo}", "continue"), ("break main", "rr-start")):
        commands = ("break touch", "tbreak main", first, then, "ignore 1 265", "continue", "reverse-stepi", "rr-when")
        out = whole(program, *commands, "stepi", "rr-when", "reverse-continue", "rr-when")
        assert re.findall(r"^tick \d+:0x[0-9a-f]+#(\d+) of", out, re.MULTILINE) == ["266", "266", "265"], out
        assert "approximate" not in out


def test_which_pass_of_a_long_loop_is_found_however_long_that_takes(tmp_path: Path) -> None:
    """INVARIANT(time-is-no-matter-of-load): what no answer can wait for is a move; the frame stays selected. Code that
    may be written to is not counted, so each pass is a trap."""
    program, demo = programs.build("long_loop", ["-O0", "-DWRITABLE"]), tmp_path / "x.demo"
    gdbrr("record", "-o", demo, "--", program).expect(0)
    opened, where = f"rr-replay --start {demo}", ("tbreak touch", "continue", "rr-when", "print $pc")
    first = re.search(r"^tick (\d+):(0x\w+)#1 of", whole(program, opened, *where), re.MULTILINE)
    assert first is not None
    late = "python print('LATE', session.status()['late'])"
    script = tmp_path / "session.py"
    script.write_text(
        "import gc\n"
        "from gdbrr.ingdb.session import Session\n"
        "session = next(each for each in gc.get_objects() if isinstance(each, Session))\n"
    )
    moves = (f"rr-goto {first[1]}:{first[2]}#80000", "stepi", "up", late, "rr-when", "frame", "print i", late)
    out = whole(program, opened, f"source {script}", *moves, "rr-mark here", "rr-goto end", "rr-goto here", "rr-when")
    assert re.findall(r"^LATE (\w+)$", out, re.MULTILINE) == ["True", "False"], out
    assert len(set(re.findall(r"^tick (\d+:0x\w+#80000) of", out, re.MULTILINE))) == 2, out
    assert re.search(r"^#1 .* in main \(", out, re.MULTILINE) and "$1 = 79999\n" in out, out
    assert "approximate" not in out, out
