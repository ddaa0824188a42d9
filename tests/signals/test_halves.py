"""A signal in a loop that counts in half a word, whose other half holds something else.

Runs in: pytest. May call: gdbrr record, gdbrr replay, the program.
Owns: nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness import programs
from harness.run import run

GDBRR = (sys.executable, "-m", "gdbrr")
RECORDINGS = 3

pytestmark = pytest.mark.needs("perf_breakpoints")


@pytest.mark.parametrize("order", ["parallel", "serial"])
@pytest.mark.parametrize("which", ["low", "high"])
def test_the_same_pass_is_found(which: str, order: str, tmp_path: Path) -> None:
    for number in range(RECORDINGS):
        demo = tmp_path / f"{number}.demo"
        command = (programs.build("signal_halves"), which)
        first = run(*GDBRR, "record", "-o", demo, "--order", order, "--", *command).expect(0)
        assert run(*GDBRR, "replay", demo).expect(0).out == first.out
