"""Faults that are not where the program computes: inside of a function of pthreads, and of a handler's frame.

Runs in: pytest. May call: gdbrr record, gdbrr replay, the programs.
Owns: the comparison with what each program does natively.
"""

from __future__ import annotations

import functools
import re
import sys
from pathlib import Path

import pytest

from gdbrr.abi import lib
from gdbrr.demo.reader import Demo
from harness import programs
from harness.run import Result, run

GDBRR = (sys.executable, "-m", "gdbrr")
FUNCTIONS = re.findall(r'\{"(\w+)", ', (programs.SOURCES / "waits_faults.c").read_text())
HOWS = ("die", "leave", "mend")
STACKS = ("nowhere", "const", "raise", "small")
ACTIONS = ("alternate", "plain", "blocked", "default")


@functools.cache
def native(name: str, *arguments: str) -> Result:
    return run(programs.build(name), *arguments)


def same(name: str, order: str, demo: Path, *arguments: str) -> None:
    first = native(name, *arguments)
    options = ("--order", order, "-o", demo)
    recorded = run(*GDBRR, "record", *options, "--", programs.build(name), *arguments).expect(first.status)
    assert recorded.out == first.out
    assert run(*GDBRR, "replay", demo).expect(first.status).out == first.out


@pytest.mark.parametrize("order", ["parallel", "random"])
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_inside_of_an_operation(function: str, how: str, order: str, tmp_path: Path) -> None:
    """It ends the program, its handler leaves by siglongjmp, or puts something there."""
    same("waits_faults", order, tmp_path / "x.demo", function, how)


def test_the_crash_is_the_last_operation(tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    run(*GDBRR, "record", "-o", demo, "--", programs.build("waits_faults"), "lock", "die").expect(139)
    with Demo.open(demo) as source:
        last = list(source.events())[-1]
    assert (last.kind, last.nr, last.result) == (lib.GR_OP_FAULT, 11, 0)


@pytest.mark.parametrize("order", ["parallel", "serial"])
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("stack", STACKS)
def test_no_room_for_a_frame(stack: str, action: str, order: str, tmp_path: Path) -> None:
    same("signal_no_room", order, tmp_path / "x.demo", stack, action)
