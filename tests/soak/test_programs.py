"""Every program about threads in every order: output and exit status of the replay are the recording's.

Runs in: pytest. May call: gdbrr record, gdbrr replay; GDBRR_SOAK_RECORDINGS says how often (make soak: 50).
Owns: which programs are recorded with one thread at a time, too. tests/sync has them in order parallel.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness import programs
from harness.run import gdbrr

RECORDINGS = int(os.environ.get("GDBRR_SOAK_RECORDINGS", "1"))
ORDERS = ("serial", "random", "pct") if RECORDINGS == 1 else ("parallel", "serial", "random", "pct")
APART = {"sync_deadlock", "sync_deadlock_library", "sync_cancel_compute", "sync_ends"}
"""They have tests of their own: they do not end, are refused, end in several ways."""
THREADED = sorted(path.stem for path in programs.SOURCES.glob("sync_*.c*") if path.stem not in APART)

ATOMIC = {"sync_cxx_future"}
"""Not in order parallel: the state of a std::future is an atomic in the program's own code; its order is in no demo."""

pytestmark = [pytest.mark.limit(1200), pytest.mark.needs("g++")]


@pytest.mark.parametrize(
    ("name", "order"),
    [(name, order) for name in THREADED for order in ORDERS if order != "parallel" or name not in ATOMIC],
)
def test_replays_as_recorded(name: str, order: str, tmp_path: Path) -> None:
    for number in range(RECORDINGS):
        demo = tmp_path / f"{number}.demo"
        seed = ("--seed", str(number + 1)) if order in ("random", "pct") else ()
        first = gdbrr("record", "--order", order, *seed, "-o", demo, "--", programs.build(name)).expect(0)
        assert gdbrr("replay", demo).expect(0).out == first.out
        demo.unlink()
