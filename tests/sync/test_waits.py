"""Recording does not change how threads wait: what comes back, which handlers run, and where a cancellation acts.

Runs in: pytest. May call: gdbrr record, gdbrr replay, the programs.
Owns: the comparison with what each program prints natively.
"""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path

import pytest

from harness import programs
from harness.run import Result, run

from .conftest import build, record, replay

EVENTS = re.findall(r"EVENT\((\w+), [~A-Z]", (programs.SOURCES / "waits.h").read_text())
WAYS = ("async", "type", "state", "test", "write", "sleep")
ORDERS = ("parallel", "serial", "random", "pct")

pytestmark = pytest.mark.limit(300)


@functools.cache
def native(name: str, *arguments: str) -> Result:
    return run(build(name), *arguments)


LIBC = tuple(int(part) for part in str(os.confstr("CS_GNU_LIBC_VERSION")).split()[1].split("."))
KICKED = re.compile(r"^futex_timed: .*\n", re.MULTILINE) if LIBC >= (2, 41) else re.compile(r"(?!)")
"""That C library sends its signal to whatever is cancelled, and a futex with a limit does not go on behind one."""


def same(name: str, order: str, demo: Path, *arguments: str) -> None:
    first = native(name, *arguments)
    recorded = record(build(name), demo, *arguments, options=("--order", order)).expect(first.status)
    unlike = KICKED if "deferred" in arguments else re.compile(r"(?!)")
    assert unlike.sub("", recorded.out) == unlike.sub("", first.out)
    assert replay(demo).expect(first.status).out == recorded.out


@pytest.mark.parametrize("order", ["parallel", "serial"])
@pytest.mark.parametrize("event", EVENTS)
def test_every_way_to_wait(event: str, order: str, tmp_path: Path) -> None:
    same("waits", order, tmp_path / "x.demo", event)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("alone", [(), ("alone",)], ids=["thread", "alone"])
@pytest.mark.parametrize("way", WAYS)
def test_who_cancels_itself(way: str, alone: tuple[str, ...], order: str, tmp_path: Path) -> None:
    same("waits_self", order, tmp_path / "x.demo", way, *alone)


@pytest.mark.parametrize("order", ORDERS)
def test_words_of_the_program(order: str, tmp_path: Path) -> None:
    same("waits_words", order, tmp_path / "x.demo")


def test_every_way_has_a_line() -> None:
    """Or the comparison would be about nothing."""
    assert len(EVENTS) == 15
    assert len(native("waits", "given").out.splitlines()) >= 60
