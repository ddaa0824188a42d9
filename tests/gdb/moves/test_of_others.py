"""A local, `this`, a register and a thread's own variable belong to a frame and a thread, whoever passes by."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import programs

from ..session import recorded, whole

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")
NAME = "watched_others"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One thread at a time, so that the values come in one order."""
    program = programs.build(NAME, ["-O0", "-pthread"])
    return recorded(program, tmp_path_factory.mktemp("others"), "--order", "serial")


def played(demo: Path, *commands: str) -> str:
    begin = (f"rr-replay {demo}", "rr-back -b reached", "up")
    return whole(programs.build(NAME, ["-O0", "-pthread"]), *begin, *commands)


def of_box(demo: Path) -> list[str]:
    """The changes by the name that means the same everywhere."""
    out = played(demo, "print &this->held", "rr-history *$1")
    listed = re.findall(r"^(\d+) \(was (\d+)\)  tick (\S+) ", out, re.MULTILINE)
    assert [new for new, _, _ in listed[:4]] in (["9", "8", "7", "1"], ["9", "1", "8", "7"]), out
    return [moment for _, _, moment in listed[:4]]


@pytest.mark.parametrize("expr", ["held", "this->held", "*local", "**(int **) ($rbp + OFFSET)"])
def test_every_change_is_listed_by_whomever_it_was_made(expr: str, demo: Path) -> None:
    if "OFFSET" in expr:  # a register is what it was where it is named
        out = played(demo, "print (char *) &local - (char *) $rbp")
        expr = expr.replace("OFFSET", re.findall(r"^\$1 = (-?\d+)$", out, re.MULTILINE)[0])
    out = played(demo, f"rr-history {expr}")
    listed = re.findall(r"^\d+ \(was .*\)  tick (\S+) ", out, re.MULTILINE)
    assert listed[:4] == of_box(demo), out


@pytest.mark.parametrize("expr", ["held", "*local"])
def test_back_again_and_again_from_any_thread(expr: str, demo: Path) -> None:
    """The second time one stands in another thread, which may know no such name."""
    out = played(demo, *[f"rr-back -w {expr}", "rr-when"] * 4)
    assert re.findall(r"^tick (\S+) of ", out.partition("Box::work")[2], re.MULTILINE)[-4:] == of_box(demo), out


def test_a_variable_of_each_thread_is_that_of_who_asks(demo: Path) -> None:
    out = played(demo, "rr-history mine", *["rr-back -w mine", "print mine"] * 2)
    assert re.findall(r"^(\d+) \(was (\d+)\)", out, re.MULTILINE) == [("2", "1"), ("1", "5"), ("5", "0")], out
    assert re.findall(r"^\$\d+ = (\d+)$", out, re.MULTILINE) == ["1", "5"], out
