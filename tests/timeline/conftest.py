"""Recorded programs, opened as timelines."""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gdbrr.timeline.model import Hit, Leaf, Point, PointKind
from gdbrr.timeline.timeline import DemoTimeline, open_demo
from harness import programs
from harness.run import gdbrr

BOTH_WAYS = [pytest.param("perf", marks=pytest.mark.needs("perf_breakpoints")), "ptrace"]
"""Every search is made both ways: by perf events, and by a tracer."""


class Program:
    """A compiled program that lies where it was linked, with the addresses of its symbols."""

    def __init__(self, name: str) -> None:
        self.path = programs.build(name, ["-no-pie"])
        done = subprocess.run(["nm", self.path], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
        rows = [line.split() for line in done.stdout.splitlines()]
        self.symbols = {row[2]: int(row[0], 16) for row in rows if len(row) == 3}


@pytest.fixture(scope="session")
def moments_program() -> Program:
    return Program("moments")


def recorded(program: Path, directory: Path, *options: str) -> Path:
    demo = directory / "x.demo"
    gdbrr("record", "-o", demo, *options, "--", program).expect(0)
    return demo


def in_epochs(program: Path, directory: Path, points: str) -> Path:
    """Short epochs, and searched in one of BOTH_WAYS."""
    return recorded(program, directory, "--set", "epochs.ticks=16", "--set", f"points={points}")


@contextmanager
def whole(demo: Path) -> Iterator[DemoTimeline]:
    """A timeline that leaves no process behind."""
    with open_demo(demo) as opened:
        yield opened
    assert not children()


@pytest.fixture(scope="module", params=BOTH_WAYS)
def moments_demo(
    request: pytest.FixtureRequest, moments_program: Program, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    return in_epochs(moments_program.path, tmp_path_factory.mktemp("moments"), request.param)


@pytest.fixture
def timeline(moments_demo: Path) -> Iterator[DemoTimeline]:
    with whole(moments_demo) as opened:
        yield opened


def children() -> list[str]:
    """Processes of this one that are not yet reaped; a timeline leaves none."""
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


def is_gone(pid: int) -> bool:
    """Whether the process, which may be another's child, has ended or does so now."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(watched, select.POLLIN)
        return bool(poll.poll(30_000))
    finally:
        os.close(watched)


@pytest.fixture
def symbols(moments_program: Program) -> dict[str, int]:
    return moments_program.symbols


@pytest.fixture
def counter(symbols: dict[str, int]) -> Point:
    return Point(PointKind.CHANGE, symbols["counter"], 4)


def word(leaf: Leaf, address: int, length: int = 4) -> int:
    with open(f"/proc/{leaf.pid}/mem", "rb", buffering=0) as memory:
        return int.from_bytes(os.pread(memory.fileno(), length, address), "little")


def standing(leaf: Leaf) -> dict[str, int]:
    """Registers of the leaf's thread."""
    return next(view.regs for view in leaf.threads() if view.index == leaf.thread)


def chain(timeline: DemoTimeline, point: Point, count: int) -> list[Hit]:
    """The last COUNT hits before the end, newest first."""
    hits: list[Hit] = []
    before = timeline.end
    while len(hits) < count:
        hit = timeline.last_hit([point], before)
        if hit is None:
            break
        hits.append(hit)
        before = hit.moment
    return hits
