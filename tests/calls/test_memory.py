"""Memory is on replay what it was: where a file ends, where a call failed half-way, where somebody wrote unseen.

Runs in: pytest. May call: gdbrr record, gdbrr replay.
Owns: the rows of docs/determinism.md that name it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from calls.test_programs import GDBRR, build, check
from harness.run import run

ORDERS = ("parallel", "serial", "random", "pct")
PROGRAMS = ("calls_fail_half", "calls_file_ends")


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_memory_is_as_natively(name: str, order: str, tmp_path: Path) -> None:
    """The programs print only what is the same in each run; the digests compare all of memory beside it."""
    program, demo = build(name), tmp_path / "x.demo"
    natively = run(program).expect(0)
    first = run(*GDBRR, "record", "--order", order, "--digest=1", "-o", demo, "--", program).expect(0)
    assert first.out == natively.out
    check(demo, first)
