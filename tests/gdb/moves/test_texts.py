"""What a value is shown as beyond its own memory, a text behind a pointer: what it was there and then."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import programs

from ..session import recorded, whole

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")

NAMES = ["carl", "bert", "anna"]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(programs.build("past_texts"), tmp_path_factory.mktemp("texts"))


def past(demo: Path, *commands: str) -> str:
    return whole(programs.build("past_texts"), f"rr-replay {demo}", *commands)


@pytest.mark.parametrize("expr", ["last.name", "last", "*&last.name"])
def test_a_list_shows_the_texts_of_then(demo: Path, expr: str) -> None:
    """INVARIANT(texts-are-of-then): the last ones are overwritten when the program has come to its end."""
    out = past(demo, f"rr-history {expr}", "echo \\n", "rr-when")
    seen = re.findall(r'^(?:\{id = \d, name = )?0x\w+ "(\w+)"\}? \(was (.*)\)  tick .* rename_to at past_texts\.c:11$',
                      out, re.MULTILINE)  # fmt: skip
    assert [new for new, old in seen] == NAMES, out
    assert all(f'"{before}"' in old for before, (_, old) in zip(NAMES[1:], seen[:-1], strict=True)), out
    assert re.search(r"^tick (\d+) of \1 ", out, re.MULTILINE), "it stands where it stood"


def test_going_back_tells_the_texts_of_then(demo: Path) -> None:
    out = past(demo, *["rr-back -w last.name"] * 2, "rr-goto end", "rr-back 2 -w last.name", "print *last.name@4")
    told = re.findall(r'^last\.name: 0x\w+ "(\w+)" -> 0x\w+ "(\w+)" ', out, re.MULTILINE)
    assert told == [("bert", "carl"), ("anna", "bert"), ("anna", "bert")], out
    assert out.rstrip().endswith('$1 = "anna"'), out


def test_a_part_of_a_large_place_has_no_text(demo: Path) -> None:
    out = past(demo, "rr-history all", "rr-back -w all")
    assert len(re.findall(r"^all\.names\[\d\] = 0x\w+ \(was 0x0\)  tick ", out, re.MULTILINE)) == 3, out
    assert re.search(r"^all\.names\[2\]: 0x0 -> 0x\w+ at past_texts\.c:13 ", out, re.MULTILINE), out
