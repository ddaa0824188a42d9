"""Going back inside a computation that takes long, as a user does.

Runs in: pytest. May call: gdb, harness.
Owns: nothing.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import programs
from harness.run import gdbrr

from ..session import whole

pytestmark = pytest.mark.needs("gdb")
_ROUNDS = 500_000_000
_LAST = (_ROUNDS - 0x80000) // 0x100000 * 0x100000 + 0x80000


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("inside") / "x.demo"
    gdbrr("record", "-o", path, "--", programs.build("one_line"), str(_ROUNDS)).expect(134)
    return path


def past(demo: Path, *commands: str) -> str:
    return whole(programs.build("one_line"), f"rr-replay {demo}", *commands)


def values(out: str) -> list[int]:
    return [int(value) for value in re.findall(r"^\$\d+ = (-?\d+)$", out, re.MULTILINE)]


def test_a_change_far_back_and_steps_from_there(demo: Path) -> None:
    out = past(
        demo,
        *("rr-back -w target", "print i", "rr-back -w target", "print i", "print target"),
        *("reverse-step", "reverse-step", "print i", "reverse-finish", "print i"),
    )
    step = 0x100000
    assert values(out) == [_LAST, _LAST - step, _LAST - 2 * step, _LAST - step, _LAST - step], out


def test_out_of_a_loop_that_is_one_line(demo: Path) -> None:
    """INVARIANT(nothing-passed): where a breakpoint is hit on the way, that is where it stops."""
    out = past(
        demo,
        *(
            "rr-back -w target",
            "reverse-finish",
            "print i",
            "reverse-next",
            "info line",
            "reverse-next",
            "print target",
        ),
        *(
            "rr-goto end",
            "rr-back -w target",
            "reverse-finish",
            f"tbreak hot if i == {_LAST - 50_000}",
            "reverse-next",
            "print i",
        ),
    )
    assert values(out) == [_LAST, 0, _LAST - 50_000], out
    assert "Line 19 " in out, out


def test_single_steps_stay_single(demo: Path) -> None:
    """Whatever line the step before was about."""
    out = past(
        demo,
        *("rr-back -w target", "reverse-finish", "reverse-next", "rr-goto end", "rr-back -w target", "reverse-finish"),
        *("print $pc", "reverse-stepi", "reverse-stepi", "stepi", "stepi", "print i"),
    )
    assert values(out)[-1] == _LAST, out


def test_a_breakpoint_that_is_passed_all_the_time(demo: Path) -> None:
    out = past(
        demo,
        *("break hot", "reverse-continue", "print i", "reverse-continue", "print i", "delete"),
        *(f"break hot if i == {_ROUNDS - 3_000_000}", "reverse-continue", "print i"),
    )
    assert values(out) == [_ROUNDS - 1, _ROUNDS - 2, _ROUNDS - 3_000_000], out


def test_forward_and_back(demo: Path) -> None:
    """Where a debugger has let it run, the moment is found by what is there."""
    out = past(
        demo,
        *("rr-goto start", "watch target", "continue", "continue", "delete", "rr-when", "print target"),
        *("reverse-step", "print i", "rr-mark here", "rr-goto end", "rr-goto here", "print i"),
    )
    second = 0x80000 + 0x100000
    assert values(out)[-3:] == [second, second, second], out
    assert "approximate" not in out
