"""Whatever looks at the code of a replay finds it as it was built: only the process that runs ahead is patched."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gdbrr.timeline.model import Moment, Point, PointKind
from gdbrr.timeline.timeline import DemoTimeline, open_demo
from harness import programs
from harness.run import gdbrr

pytestmark = pytest.mark.needs("perf_breakpoints")

BASE = 0x555555554000
JUMP = 0xE9


@pytest.fixture(scope="module")
def program() -> Path:
    return programs.build("patched_sites")


@pytest.fixture(scope="module")
def timeline(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoTimeline]:
    demo = tmp_path_factory.mktemp("copies") / "x.demo"
    gdbrr("record", "-o", demo, program, "blind").expect(0)
    with open_demo(demo) as timeline:
        yield timeline


def address(program: Path, name: str) -> int:
    text = subprocess.run(["nm", program], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL).stdout
    return BASE + next(int(line.split()[0], 16) for line in text.splitlines() if line.split()[-1] == name)


def code(pid: int, start: int, length: int) -> bytes:
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        return os.pread(memory.fileno(), length, start)


def test_copy_has_the_text_of_the_file(timeline: DemoTimeline, program: Path) -> None:
    start, end = address(program, "number"), address(program, "main")
    built = program.read_bytes()[start - BASE : end - BASE]
    leaf = timeline.seek(timeline.end)
    ahead = code(timeline._replay.pid, start, len(built))
    assert ahead != built  # or this shows nothing
    assert ahead[0] == JUMP
    assert code(leaf.pid, start, len(built)) == built
    leaf.drop()


@pytest.mark.parametrize("name", ["number_at", "compared_at", "tested_at"])
def test_instruction_behind_a_patched_call_is_a_moment(name: str, timeline: DemoTimeline, program: Path) -> None:
    behind = address(program, name) + 2
    hit = timeline.last_hit([Point(PointKind.EXEC, behind)], timeline.end)
    assert hit is not None
    assert hit.moment.pc == behind
    leaf = timeline.seek(hit.moment)
    assert next(view.regs["rip"] for view in leaf.threads() if view.index == leaf.thread) == behind
    leaf.drop()
    before = timeline.previous(hit.moment)
    assert before == Moment(hit.moment.tick)  # the call itself
