"""Operations of the allocator are shown at the program's call, like any other."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from harness import programs
from harness.run import gdbrr

from ..session import recorded, whole

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")

ALLOCATING = Path(__file__).with_name("allocating.py")
PROGRAM = "heap_passed"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(programs.build(PROGRAM), tmp_path_factory.mktemp("passed"))


def exchanges(demo: Path) -> list[int]:
    rows = [json.loads(line) for line in gdbrr("events", "--json", demo).expect(0).out.splitlines()]
    return [row["tick"] for row in rows if row["operation"] == "heap"]


def test_every_exchange_is_shown_at_its_call(demo: Path) -> None:
    """The stack is what GDB makes of it by itself, with all that functions give back, less the engine's frames."""
    ticks = exchanges(demo)
    chosen = [*ticks[:4], *ticks[4 :: max(len(ticks) // 12, 1)]]
    out = whole(programs.build(PROGRAM), f"rr-replay {demo}", f"source {ALLOCATING}", f"python compare({chosen})")
    told = re.findall(r"^STACK (\d+) True program$", out, re.MULTILINE)
    assert len(chosen) > 8 and told == list(map(str, chosen)), out


def test_one_step_is_over_the_call(demo: Path) -> None:
    tick = exchanges(demo)[-2]  # the last one is for the buffer of the output
    shown = ("x/i $pc", "backtrace", "print at", "up", "stepi", "x/i $pc", "print at", "reverse-stepi", "rr-when")
    unveiled = ("set gdbrr engine-frames on", "backtrace", "interpreter-exec mi -stack-list-frames")
    out = whole(programs.build(PROGRAM), f"rr-replay {demo}", f"rr-goto {tick}", *shown, *unveiled)
    before, behind = out.rsplit(f"\ntick {tick} of", 1)
    assert re.search(r"=> \S+ <drop\+\d+>:\s+call .*free@plt", before), out
    assert re.search(r"^#0 .* drop \(.*\n#1 .* main \(", before, re.MULTILINE), out
    values = re.findall(r"^\$\d+ = (\d+)$", before, re.MULTILINE)
    assert len(values) == 2 and values[0] == values[1], out
    assert "libgdbrr" not in before and "libgdbrr" in behind, out
