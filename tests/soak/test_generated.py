"""Random programs, each recorded in every order and replayed: what they print is the state they ended in.

Runs in: pytest. May call: gcc, gdbrr record, gdbrr replay.
Owns: the seeds; GDBRR_SOAK_PROGRAMS makes them more (make soak).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness import programs
from harness.run import gdbrr, run
from soak.generate import generate

ORDERS = ("parallel", "serial", "random", "pct")
PROGRAMS, REPLAYS = int(os.environ.get("GDBRR_SOAK_PROGRAMS", "20")), 3
DIGEST = "--digest=8"
"""Taken while several threads live, too. Where there are none, locks that nobody else wants are only counted, so both
ways are recorded where that makes a difference."""
COUNTED = {"parallel", "serial"}
WAYS = [(order, options) for order in ORDERS for options in ((DIGEST,), ()) if options or order in COUNTED]

pytestmark = pytest.mark.limit(300)


def build(seed: int, order: str, place: Path) -> Path:
    """One in three uses streams and random(), whose locks are inside of the C library."""
    (place / f"generated_{seed}.c").write_text(generate(seed))
    flags = () if order == "parallel" else ("-DONE_BY_ONE",)
    library = () if seed % 3 else ("-DLIBRARY",)
    return programs.build(f"generated_{seed}", (*flags, *library), place, place)


@pytest.mark.parametrize("seed", range(1, PROGRAMS + 1))
def test_replays_as_recorded(seed: int, tmp_path: Path) -> None:
    for order, digest in WAYS:
        demo = tmp_path / f"{order}{len(digest)}.demo"
        options = (*digest, *(["--seed", str(seed)] if order != "parallel" else []))
        first = gdbrr("record", "--order", order, *options, "-o", demo, "--", build(seed, order, tmp_path)).expect(0)
        for _ in range(REPLAYS):
            assert gdbrr("replay", demo).expect(0).out == first.out


def test_programs_differ_from_run_to_run(tmp_path: Path) -> None:
    """Or their replays would prove nothing."""
    for seed in (1, 2, 3):
        program = build(seed, "serial", tmp_path)
        assert len({run(program).expect(0).out for _ in range(4)}) > 1


def test_a_seed_gives_one_program() -> None:
    assert generate(7) == generate(7) != generate(8)
