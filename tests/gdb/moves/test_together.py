"""Several watched places that one system call or one instruction changes: GDB hears of each."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from harness import programs

from ..session import recorded, whole

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")

PLACES = {
    "call": ("'together.c'::text[0]", "'together.c'::text[9]", ["\0", "a", "b", "c", "d"], ["\0", "a", "b", "c", "d"]),
    "instruction": ("pair.a", "pair.b", [*"01234"], ["0", "10", "20", "30", "40"]),
}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(programs.build("together"), tmp_path_factory.mktemp("together"))


def past(demo: Path, *commands: str) -> list[tuple[str, str, str]]:
    """Of each stop the watchpoint's number, and the old and the new value."""
    out = whole(programs.build("together"), f"rr-replay {demo}", *commands)
    found = re.findall(r"watchpoint (\d): .*\n\nOld value = (.*)\nNew value = (.*)$", out, re.MULTILINE)
    return [(number, plain(old), plain(new)) for number, old, new in found]


def plain(value: str) -> str:
    return chr(int(value.split()[0])) if "'" in value else value


@pytest.mark.parametrize("kind", PLACES)
def test_each_of_them_is_told_with_its_own_values(demo: Path, kind: str) -> None:
    """INVARIANT(each-change-is-told): there and back again, and once more."""
    first, second, ones, others = PLACES[kind]
    back, on = ["reverse-continue"] * 8, ["continue"] * 8
    seen = past(demo, f"watch {first}", f"watch {second}", *back, *on, *back)
    for number, values in (("1", ones), ("2", others)):
        forwards = [*itertools.pairwise(values)]
        backwards = [pair[::-1] for pair in forwards[::-1]]
        assert [(old, new) for its, old, new in seen if its == number] == backwards + forwards + backwards


@pytest.mark.parametrize("kind", PLACES)
def test_so_does_a_step(demo: Path, kind: str) -> None:
    first, second, ones, others = PLACES[kind]
    back, on = {("1", *ones[:-3:-1]), ("2", *others[:-3:-1])}, {("1", *ones[-2:]), ("2", *others[-2:])}
    steps = (*["reverse-continue"] * 2, *["stepi"] * 2, *["reverse-stepi"] * 2)
    seen = past(demo, f"watch {first}", f"watch {second}", *steps)
    assert [{*seen[at : at + 2]} for at in (0, 2, 4)] == [back, on, back], seen


def test_one_that_does_not_stop_does_not_hide_the_other(demo: Path) -> None:
    watches = ("watch pair.a if pair.a == 7", "watch pair.b if pair.b < 25")
    assert [number for number, *_ in past(demo, *watches, *["reverse-continue"] * 3)] == ["2"] * 3
