"""What a step back passes: what is watched stops it, and breakpoints of threads whose turn was in between."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import programs

from ..session import recorded, whole

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(programs.build("past_values"), tmp_path_factory.mktemp("way"))


def past(demo: Path, *commands: str) -> str:
    return whole(programs.build("past_values"), f"rr-replay {demo}", *commands)


@pytest.mark.parametrize("verb", ["watch", "awatch"])
def test_a_step_back_stops_where_what_is_watched_changed(demo: Path, verb: str) -> None:
    """INVARIANT(a-step-back-passes-nothing): there as when going on, with the value from before."""
    there = ("break add", "reverse-continue", "delete", "tbreak past_values.c:36", "continue", "print sum")
    for steps in (["reverse-step"], ["reverse-next"], ["set exec-direction reverse", "next"]):
        out = past(demo, *there, f"{verb} sum", *steps, "print sum", "rr-when")
        behind, before = re.findall(r"^\$\d = (\d+)$", out, re.MULTILINE)
        assert int(before) < int(behind), out
        if verb == "watch":
            assert re.search(rf"^Old value = {behind}\nNew value = {before}$", out, re.MULTILINE), out
        assert re.search(r"^tick .*, past_values.c:35$", out, re.MULTILINE), out
        assert "atchpoint 3: sum" in out.partition("continue")[2] or out.count("atchpoint 3: sum") == 2, out


def test_a_step_back_over_others_stops_where_they_stopped(demo: Path) -> None:
    """From its joins back, main passes all that its threads did."""
    joined = ("break past_values.c:57", "reverse-continue", "delete")
    for point, seen in (("watch sum", r"hit Hardware watchpoint 2: sum"), ("break add", r"hit Breakpoint 2, add")):
        out = past(demo, *joined, point, "reverse-stepi 300", "rr-when")
        assert re.search(rf"^Thread \d+ .* {seen}", out, re.MULTILINE), out
