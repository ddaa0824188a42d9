"""A short budget of the demo fuzzer, in every run of the suite; and the fuzzer itself."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from fuzz import demo_fuzz
from gdbrr.demo import manifest

BUDGET = 10_000


@pytest.mark.limit(400)
def test_bent_demos_end_in_success_or_one_clear_line() -> None:
    counts = demo_fuzz.run(BUDGET)
    assert sum(row.total() for row in counts.values()) == BUDGET
    assert set(counts) == {how.__name__ for how in demo_fuzz.MUTATIONS}
    # A fuzzer whose mutants are all refused at the door tests only the door.
    verdicts = sum(counts.values(), start=Counter[str]())
    assert min(verdicts["read"], verdicts["damaged"], verdicts["refused"]) > BUDGET // 20


def test_the_same_seed_makes_the_same_mutants(tmp_path: Path) -> None:
    good = demo_fuzz.seeds(tmp_path)
    assert [demo_fuzz.mutant(n, 7, good) for n in range(50)] == [demo_fuzz.mutant(n, 7, good) for n in range(50)]
    assert demo_fuzz.mutant(1, 7, good) != demo_fuzz.mutant(1, 8, good)


def test_the_fuzzer_notices_a_reader_that_believes_the_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "check", lambda text: text)
    with pytest.raises(AssertionError, match=r"mutant \d+ of seed 1 \(bend_manifest\)"):
        demo_fuzz.run(500)
