"""Going back inside the fence: searches, landing and gdbserver work as on kernels without Landlock.

Runs in: pytest. May call: gdb, the sandbox.
Owns: nothing.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from harness import ROOT, programs
from harness.run import Result, gdbrr, run

SEARCH = ("break puts_total", "reverse-continue", "watch turns", "reverse-continue", "reverse-continue", "print turns")


RULES = pytest.mark.parametrize(
    "rules", [(), ("landlock",), ("landlock", "perf")], ids=lambda rules: "-".join(rules) or "all"
)


def session(program: str | Path, demo: Path, rules: tuple[str, ...], *commands: str) -> Result:
    """GDB's words about DEMO, on a kernel that refuses RULES."""
    words: list[str | Path] = [programs.build("sandbox"), *rules, "--", "gdb", "-nx", "-batch"]
    for each in (f"source {ROOT / 'gdbinit.py'}", f"set gdbrr python {sys.executable}", f"file {program}"):
        words += ["-ex", each]
    for each in (f"rr-replay {demo}", *commands):
        words += ["-ex", each]
    return run(*words, limit=60).expect(0)


@pytest.mark.needs("gdb", "gdbserver")
@RULES
def test_watchpoints_go_back(rules: tuple[str, ...], tmp_path: Path) -> None:
    program, demo = programs.build("spine"), tmp_path / "x.demo"
    gdbrr("record", "-o", demo, program).expect(0)
    done = session(program, demo, rules, *SEARCH)
    assert "$1 = 38" in done.out, done.describe()


@pytest.mark.needs("gdb", "gdbserver")
@RULES
def test_stores_of_calls_that_the_engine_answers_are_found(rules: tuple[str, ...], tmp_path: Path) -> None:
    """The kernel makes none of them on replay, and the fence may forbid the engine to have them made by it."""
    program, demo = programs.build("stored_mask"), tmp_path / "x.demo"
    gdbrr("record", "-o", demo, program).expect(0)
    done = session(program, demo, rules, "watch *(long *)&before", *["reverse-continue", "rr-when"] * 2)
    ticks = [int(word.split()[1]) for word in done.out.splitlines() if word.startswith("tick ")]
    rows = gdbrr("events", "--json", demo).expect(0).out.splitlines()
    calls = [row for row in map(json.loads, rows) if row["call"] == "rt_sigprocmask" and row["operation"] == "sys_end"]
    last, first = [row["tick"] for row in reversed(calls) if row["tick"] <= ticks[1]][:2]
    assert ticks[1:] == [last, first], done.describe()
    assert "Old value = 8704\nNew value = 512\n" in done.out, done.describe()
    assert "Old value = 512\nNew value = 0\n" in done.out, done.describe()
