"""GDB's commands mean in a replay, and under `rr-start`, what they mean in GDB's own recording."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from harness import ROOT, programs
from harness.run import gdbrr, run

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")

NAME = "meaning"
WALK = Path(__file__).with_name("meaning.py")
# GDB (13.1) does not record all instructions that change these.
FIXED = [f"-ffixed-r{number}" for number in range(10, 16)]
KINDS = {"plain": ["-O0"], "optimised": ["-O2", "-no-pie", *FIXED]}
MOST = int(os.environ.get("GDBRR_WANDER", "0")) or 40
"""Steps of each walk; `make wander` asks for more."""
FUNCTIONS = "leaf", "loop", "again", "last", "walk", "*leaf", "*again"


def places() -> str:
    source = programs.find(NAME).read_text().splitlines()
    lines = [f"{NAME}.c:{number}" for number, line in enumerate(source, 1) if re.match(r"\t+\w.*;$", line)]
    return " ".join([*FUNCTIONS * 3, *lines[2:]])


def walked(program: Path, demo: Path, way: str, seed: int) -> list[list[object]]:
    words = ["gdb", "-nx", "-batch"]
    for command in (
        *("set pagination off", "set confirm off", "set width 0", "set debuginfod enabled off"),
        *([] if way == "record full" else [f"source {ROOT / 'gdbinit.py'}"]),
        *(f"file {program}", f"source {WALK}", f"python walk('{way}', {seed}, {MOST})"),
    ):
        words += ["-ex", command]
    environment = {**os.environ, "MEANING_PLACES": places(), "MEANING_DEMO": str(demo)}
    out = run("sh", "-c", 'exec "$@" 2>&1', "sh", *words, limit=100 + MOST, env=environment).out
    assert "MEANING end" in out, out
    return [json.loads(line) for line in re.findall(r"^MEANING (\[.*)$", out, re.MULTILINE)]


@pytest.mark.limit(300 + 3 * MOST)
@pytest.mark.parametrize("kind", KINDS)
def test_random_commands_lead_where_gdbs_own_recording_leads(kind: str, tmp_path: Path) -> None:
    program, demo = programs.build(NAME, KINDS[kind]), tmp_path / "x.demo"
    gdbrr("record", "-o", demo, "--", program).expect(0)
    seed = int(os.environ.get("GDBRR_WANDER_SEED", "0")) or len(kind)
    own = walked(program, demo, "record full", seed)
    assert sum(now != "EDGE" for _, now in own) > MOST // 2, own
    for way in ("rr-replay", "rr-start"):
        ours = walked(program, demo, way, seed)
        for place, (wanted, found) in enumerate(zip(own, ours, strict=True)):
            assert found == wanted, f"{way}, behind {[asked for asked, _ in own[: place + 1]]}"
