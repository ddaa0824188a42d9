"""A deadlock that somebody ended: the demo says who waits for whom, and replays to the same end.

Runs in: pytest. May call: gdbrr record, info, replay, in a process group of its own.
Owns: nothing.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from gdbrr.abi import lib, map_ctl
from gdbrr.demo.reader import Demo
from gdbrr.launch import waits
from gdbrr.timeline.timeline import open_demo
from harness.run import gdbrr

from .conftest import GDBRR, build, replay


def ended_by(number: signal.Signals, demo: Path, name: str = "sync_deadlock", threads: int = 4) -> int:
    """Record the program until it stands still, end it with a signal and return the recorder's status."""
    command = [*GDBRR, "record", "-o", str(demo), "--", str(build(name))]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == b"ready\n"
            page = map_ctl(demo.with_name(f"{demo.name}.recording") / "ctl")
            await_sleep(page.slot(0).pid, threads)
            page.close()
            if number == signal.SIGINT:
                os.killpg(process.pid, number)  # as a terminal does
            else:
                process.send_signal(number)
            return process.wait()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def await_sleep(pid: int, threads: int) -> None:
    """Until every thread sleeps, again and again; the test's own limit is the deadline."""
    asleep = 0
    while asleep < 20:
        states = [
            (task / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
            for task in Path(f"/proc/{pid}/task").iterdir()
        ]
        asleep = asleep + 1 if states == ["S"] * threads else 0
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_demo_says_who_waits_for_whom(number: signal.Signals, tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    assert ended_by(number, demo) == 128 + number
    waits = json.loads(gdbrr("info", "--json", demo).expect(0).out)["waits"]
    assert [(row["thread"], row["threads"]) for row in waits] == [(0, [1]), (1, [2]), (2, [1]), (3, [])]
    assert ["mutex" in row["what"] for row in waits] == [False, True, True, False]
    assert "condition variable" in waits[3]["what"]
    text = gdbrr("info", demo).expect(0).out
    assert "waits for the end of a thread: thread 1" in text
    assert replay(demo).expect(128 + number).out == "ready\n"


def test_locks_of_the_library_and_of_readers_have_holders_too(tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    assert ended_by(signal.SIGTERM, demo, "sync_deadlock_library", 2) == 128 + signal.SIGTERM
    waits = json.loads(gdbrr("info", "--json", demo).expect(0).out)["waits"]
    assert [(row["thread"], row["threads"]) for row in waits] == [(0, [1]), (1, [0])]
    assert "a lock of the C library" in waits[0]["what"] and "a read-write lock, to write" in waits[1]["what"]
    assert replay(demo).expect(128 + signal.SIGTERM).out == "ready\n"


def test_threads_stand_in_the_calls_that_wait(tmp_path: Path) -> None:
    """At the end of the demo a debugger finds every thread at its lock, not behind its last success."""
    demo = tmp_path / "x.demo"
    ended_by(signal.SIGTERM, demo)
    with Demo.open(demo) as opened:
        marks = {event.thread: event for event in opened.events() if event.kind == lib.GR_OP_BLOCK}
    assert set(marks) == {0, 1, 2}
    with open_demo(demo) as timeline:
        views = {view.index: view for view in timeline.seek(timeline.end).threads()}
        for thread, mark in marks.items():
            assert views[thread].in_engine
            assert views[thread].regs["rdi"] == mark.object


def test_what_is_waited_for_is_found_without_reading_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    demo = tmp_path / "joined.demo"
    assert ended_by(signal.SIGTERM, demo, "joined_reader", 4) == 128 + signal.SIGTERM
    with Demo.open(demo) as opened:
        monkeypatch.setattr(Demo, "events", None)  # an hour of a server has millions
        rows = waits.at_the_end(opened)
    assert [(row.thread, row.holders) for row in rows] == [(0, (1,)), (1, (2,)), (2, (3,)), (3, ())]
    assert "read" in rows[3].text
