"""The short way of calls (preload/syscall/query): it keeps everything, and makes no call beside the program's own."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from door.strace import trace
from harness import programs
from harness.run import gdbrr, run

LARGEST = 150
"""Calls of one kind that a run makes beside its own at most: at its start, for its log, where sites trap at first."""


@pytest.mark.parametrize("patch", ["on", "off"], ids=["patched", "trapped"])
@pytest.mark.parametrize("order", ["parallel", "serial"])
def test_transfers_keep_everything(order: str, patch: str, tmp_path: Path) -> None:
    program, demo = programs.build("transfers"), tmp_path / "x.demo"
    native = run(program).expect(0).out.splitlines()
    words = ("record", "--order", order, "--set", f"engine.patch={patch}", "-o", demo, program)
    recorded = gdbrr(*words).expect(0).out.splitlines()
    assert recorded[:3] == native[:3]
    assert recorded[3:] != native[3:]
    for _ in range(3):
        assert gdbrr("replay", demo).expect(0).out.splitlines() == recorded


def made(place: Path) -> Counter[str]:
    """By name, and signals by theirs."""
    calls: Counter[str] = Counter()
    for line in (place / "trace").read_text().splitlines():
        if found := re.match(r"^\d+ +\[[0-9a-f?]+\] (?:--- (SIG\w+)|(\w+)\()", line):
            calls[found[1] or found[2]] += 1
    return calls


@pytest.mark.needs("strace")
def test_a_transfer_makes_one_call(tmp_path: Path) -> None:
    trace([programs.build("transfers"), "simple"], tmp_path, True)
    calls = made(tmp_path)
    assert calls["SIGSEGV"] == 0
    for other in ("madvise", "process_vm_readv", "rt_sigprocmask"):
        assert calls[other] < LARGEST, calls
    own = 4 * 4 * 400  # of four threads
    assert own <= calls["newfstatat"] + calls["fstat"] + calls["stat"] < own + LARGEST, calls


@pytest.mark.needs("strace")
def test_the_clock_is_read_without_a_call(tmp_path: Path) -> None:
    trace([programs.build("clocks_often")], tmp_path, True)
    calls = made(tmp_path)
    for name in ("clock_gettime", "time", "getcpu", "gettimeofday"):
        assert calls[name] < LARGEST, calls


def test_what_the_clock_says_is_replayed(tmp_path: Path) -> None:
    program, demo = programs.build("clocks_often"), tmp_path / "x.demo"
    recorded = gdbrr("record", "-o", demo, program).expect(0).out
    assert recorded.startswith("wrong 0\n")
    assert gdbrr("replay", demo).expect(0).out == recorded
