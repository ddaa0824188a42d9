"""Threads that hand the turn to each other all the time are kept on one core, and the program does not see it.

Runs in: pytest. May call: gdbrr record, gdbrr replay; reads /proc.
Owns: nothing.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import programs
from harness.run import gdbrr, surroundings

ALLOWED = "Cpus_allowed_list:"
LOOKS = ["the other", "the other", "main", "a new thread"]

pytestmark = [pytest.mark.limit(300), pytest.mark.needs("two_cores")]


def allowed(status: Path) -> str:
    return next(line.split()[1] for line in status.read_text().splitlines() if line.startswith(ALLOWED))


@contextmanager
def running(*words: str | Path) -> Iterator[int]:
    """The session's id of a gdbrr that runs; it is ended behind the block."""
    command = [sys.executable, "-m", "gdbrr", *map(str, words)]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True, env=surroundings(),
    ) as process:  # fmt: skip
        try:
            yield process.pid
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def cores(session: int, name: str) -> list[str]:
    """Where each thread of the program NAME may run, which is a child of that session's first process or in it."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            before, _, rest = (process / "stat").read_text(errors="replace").rpartition(")")
            if before.partition("(")[2] == name and session in map(int, rest.split()[1:4:2]):
                found += [allowed(task / "status") for task in (process / "task").iterdir()]
        except OSError:
            continue  # no process, or it has ended meanwhile
    return found


def come_together(session: int, name: str) -> None:
    deadline = time.monotonic() + 120
    while True:
        found = cores(session, name)
        if len(found) == 2 and found[0] == found[1] and found[0].isdigit():
            return
        assert time.monotonic() < deadline, found
        time.sleep(0.001)


@pytest.mark.parametrize("order", ["serial", "random", "pct"])
def test_while_recording(order: str, tmp_path: Path) -> None:
    program = programs.build("turn_cores")
    with running("record", "--order", order, "-o", tmp_path / "x.demo", "--", program, "1000000000") as session:
        come_together(session, program.name)


def test_while_replaying(tmp_path: Path) -> None:
    program, demo = programs.build("turn_cores"), tmp_path / "x.demo"
    gdbrr("record", "--order", "serial", "-o", demo, "--", program, "50000").expect(0)
    with running("replay", demo) as session:
        come_together(session, program.name)


@pytest.mark.parametrize("order", ["parallel", "serial", "random", "pct"])
def test_the_program_sees_its_own(order: str, tmp_path: Path) -> None:
    """Asked by itself, inherited by a thread and by a child, and as the kernel shows it."""
    demo = tmp_path / "x.demo"
    first = gdbrr("record", "--order", order, "-o", demo, "--", programs.build("turn_cores")).expect(0)
    lines = first.out.splitlines()
    assert lines.pop().split() == [ALLOWED, allowed(Path("/proc/self/status"))]
    assert sorted(lines) == sorted([*(f"{who}: its own" for who in LOOKS), "a child: its own"])
    replayed = gdbrr("replay", demo).expect(0)
    assert replayed.out == first.out.replace("a child: its own\n", "")


def test_one_core_is_all_there_is(tmp_path: Path) -> None:
    """Never on another one than was chosen."""
    one, demo = str(min(os.sched_getaffinity(0))), tmp_path / "x.demo"
    recorder = [sys.executable, "-m", "gdbrr", "record", "--order", "serial", "-o", str(demo), "--"]
    command = ["taskset", "-c", one, *recorder, str(programs.build("turn_cores"))]
    done = subprocess.run(command, capture_output=True, text=True, env=surroundings(), check=True)
    assert done.stdout.splitlines()[-1].split() == [ALLOWED, one]
    assert "others" not in done.stdout
