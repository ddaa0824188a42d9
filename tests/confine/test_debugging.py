"""Going back inside the fence: searches, landing and gdbserver work as on kernels without Landlock.

Runs in: pytest. May call: gdb, the sandbox.
Owns: nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness import ROOT, programs
from harness.run import gdbrr, run

SEARCH = ("break puts_total", "reverse-continue", "watch turns", "reverse-continue", "reverse-continue", "print turns")


@pytest.mark.needs("gdb", "gdbserver")
@pytest.mark.parametrize("rules", [(), ("landlock",), ("landlock", "perf")], ids=lambda rules: "-".join(rules) or "all")
def test_watchpoints_go_back(rules: tuple[str, ...], tmp_path: Path) -> None:
    program, demo = programs.build("spine"), tmp_path / "x.demo"
    gdbrr("record", "-o", demo, program).expect(0)
    words: list[str | Path] = [programs.build("sandbox"), *rules, "--", "gdb", "-nx", "-batch"]
    for each in (f"source {ROOT / 'gdbinit.py'}", f"set gdbrr python {sys.executable}", f"file {program}"):
        words += ["-ex", each]
    for each in (f"rr-replay {demo}", *SEARCH):
        words += ["-ex", each]
    done = run(*words, limit=60).expect(0)
    assert "$1 = 38" in done.out, done.describe()
