"""The kernel's ids of a replay's threads are others than the recording's: a number may be one of both.

Runs in: pytest. May call: gdbrr record, gdbrr replay.
Owns: nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gdbrr.demo.reader import Demo

from .conftest import build, record, replay

DIGITS = 20000
"""Many ids behind it have as many."""
BEFORE = 40
"""More ids than a replay takes in front of the program's threads."""


@pytest.mark.needs("chosen_pids")
@pytest.mark.limit(120)
@pytest.mark.parametrize(
    ("options", "step"), [((), 2), (("--order", "random", "--digest=1"), 6)], ids=["plain", "digest"]
)
def test_an_id_of_the_recording_may_be_another_threads_now(
    options: tuple[str, ...], step: int, tmp_path: Path, go_on_from: Callable[[int], None]
) -> None:
    """INVARIANT(ids-overlap): each thread of some replay has the id that another one had."""
    demo = tmp_path / "x.demo"
    first = record(build("sync_own_ids"), demo, options=options).expect(0)
    with Demo.open(demo) as opened:
        ids = [thread.recorded_tid for thread in opened.threads]
    assert ids[1]
    for before in range(0, BEFORE, step):
        go_on_from(ids[1] - before)
        assert replay(demo).expect(0).out == first.out


@pytest.mark.needs("chosen_pids")
@pytest.mark.parametrize("order", ["parallel", "serial", "random"])
def test_ids_that_are_text_on_stacks_are_no_difference(
    order: str, tmp_path: Path, go_on_from: Callable[[int], None]
) -> None:
    """As long as they have as many digits (docs/limits.md)."""
    demo = tmp_path / "x.demo"
    go_on_from(DIGITS)
    first = record(build("signal_ids"), demo, "names", options=("--order", order, "--digest=1")).expect(0)
    for number in range(1, 4):
        go_on_from(DIGITS + 100 * number)
        assert replay(demo).expect(0).out == first.out


@pytest.mark.needs("chosen_pids")
def test_ids_begin_again_in_the_middle(tmp_path: Path, go_on_from: Callable[[int], None]) -> None:
    """Threads that are made later may have smaller ids."""
    program = build("sync_own_ids")
    most = int(Path("/proc/sys/kernel/pid_max").read_text())
    for before in range(2, BEFORE, 6):
        demo = tmp_path / f"{before}.demo"
        go_on_from(most - before)
        first = record(program, demo).expect(0)
        go_on_from(most - before - 1)
        assert replay(demo).expect(0).out == first.out
