"""Signals and rewritten call sites: where a handler is entered, and where it returns to, does not show which a site is.

Runs in: pytest. May call: gdbrr record, gdbrr replay, the timeline.
Owns: nothing.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from door.test_copies import BASE, address, code
from door.test_patch import patched_and_trapped, there_and_back
from gdbrr.timeline.model import Point, PointKind
from gdbrr.timeline.timeline import open_demo
from harness import programs
from harness.run import gdbrr

READ = re.compile(r"300 good, 0 other, .*; (\d+) seen, (\d+) behind, (\d+) in front, (\d+) elsewhere, (\d+) errors")


@patched_and_trapped
def test_handlers_return_to_sites(patch: str, tmp_path: Path) -> None:
    program = programs.build("signal_patched")
    lines = there_and_back(tmp_path / "x.demo", patch, program, rounds=2).splitlines()
    shape = "jump" if patch == "on" else "as built"
    for name in ("forward", "backward"):
        kill, ended, *again, children = lines[:5]
        del lines[:5]
        assert kill == f"{name} kill: 600 behind of 600, 0 wrong, {shape}"
        assert children == f"{name} children: 5"
        for line in (ended, *again):
            found = READ.search(line)
            assert found and shape in line, line
            _, behind, in_front, _, errors = map(int, found.groups())
            if line == ended:
                assert in_front == 0 and behind >= errors > 20, line
            else:
                assert in_front > 20 and errors == 0, line
    assert lines[0].startswith("clock: ")
    assert lines[1:] == ["faults: write -1 14, 0 early, 3 late"]


@pytest.mark.needs("perf_breakpoints")
def test_copies_return_from_handlers_to_the_text_of_the_file(tmp_path: Path) -> None:
    # GIVEN a demo whose handlers return behind a patched call
    program, demo = programs.build("signal_patched"), tmp_path / "x.demo"
    gdbrr("record", "-o", demo, program, "blind").expect(0)
    start, end = address(program, "read_forward"), address(program, "main")
    built = program.read_bytes()[start - BASE : end - BASE]
    with open_demo(demo) as timeline:
        # WHEN a copy is woken in the newest handler, and looks for what ran before
        inside = timeline.last_hit([Point(PointKind.EXEC, address(program, "getppid_forward"))], timeline.end)
        assert inside is not None
        behind = timeline.last_hit([Point(PointKind.EXEC, address(program, "kill_backward_at") + 2)], inside.moment)
        front = timeline.last_hit([Point(PointKind.EXEC, address(program, "kill_forward_at") + 2)], inside.moment)
        # THEN it goes behind the call, where nothing is left of the jump
        assert behind is not None and front is not None
        assert front.moment.tick < behind.moment.tick <= inside.moment.tick
        for hit in (behind, front):
            leaf = timeline.seek(hit.moment)
            assert next(view.regs["rip"] for view in leaf.threads() if view.index == leaf.thread) == hit.moment.pc
            assert code(leaf.pid, start, len(built)) == built
            leaf.drop()
