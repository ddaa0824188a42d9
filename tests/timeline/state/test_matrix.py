"""Every checkpoint of every kind of program goes on as the skeleton did, to the same state, up to the end.

The suite runs a few; `make matrix` (GDBRR_MATRIX=all) runs 1 to 256 threads with epochs of every length, all programs
of tests/programs that end by themselves, and a gigabyte of memory.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gdbrr.abi import lib
from gdbrr.ctl import threads
from gdbrr.demo.reader import Demo
from gdbrr.timeline.model import Moment
from gdbrr.timeline.timeline import open_demo
from harness import programs
from harness.run import gdbrr

from ..conftest import children

ALL = os.environ.get("GDBRR_MATRIX") == "all"
SHORT = ("--set", "epochs.ticks=16")
THREADS = (
    [(threads, ticks) for threads in (1, 2, 8, 64, 256) for ticks in (16, 256, 4096)] if ALL else [(8, 16), (256, 8192)]
)
NOT_ALONE = (
    "outlaw",
    "serves",
    "waits_in_read",
    "busy",
    "asking",
    "lingerer",
    "refused_call",
    "sandbox",
    "runs_killed",
    "honest_nap",
    "output_blocked",
    "turn_fork",
)
"""These ask for something, want another profile, or end in a way of their own."""
PROFILES = {"tsc_": ("--set", "tsc=record")}
"""What some read and is recorded only for who asks for it: without it their states differ, and so they shall."""
OWN_CODE = ("patched_sites", "signal_patched")
"""These print what stands in their own text, which is another in a copy: see docs/limits.md."""
CRASHED = (("past_crash",), ("signal_death", "segv"), ("signal_death", "abort"))
MEGABYTES = 1100 if ALL else 60
LONG = 20_000
"""Operations, from which on epochs are not that short."""


FEW = ("sync_dlopen", "signal_altstack")


def programs_of_all() -> list[str]:
    names = sorted(path.stem for path in programs.SOURCES.iterdir() if path.suffix in (".c", ".cc"))
    return [name for name in names if not name.startswith((*NOT_ALONE, *OWN_CODE)) and "deadlock" not in name]


@pytest.mark.limit(600 if ALL else 120)
@pytest.mark.parametrize(("count", "ticks"), THREADS)
def test_threads_and_epochs(count: int, ticks: int, tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    done = gdbrr(
        "record", "-o", demo, "--set", f"epochs.ticks={ticks}", "--", programs.build("matrix"), str(count)
    ).expect(0)
    assert f" {6 * count} handled, 0 wrong" in done.out
    with open_demo(demo, check=True) as timeline:
        compared = timeline.verify()
        assert compared >= min(len(timeline.epochs), 3)
        middle = timeline.seek(Moment(timeline.end.tick // 2))
        rows = threads.read(middle.pid, middle.born)
        assert len(rows) > count // 2 and len({row.tid for row in rows}) == len(rows)
        tasks = {int(task) for task in os.listdir(f"/proc/{middle.pid}/task")}
        assert tasks == {row.tid for row in rows}
    assert not children()


@pytest.mark.parametrize("words", CRASHED)
def test_crashed_programs(words: tuple[str, ...], tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    done = gdbrr("record", "-o", demo, *SHORT, "--", programs.build(words[0]), *words[1:])
    assert done.status > 128, done.describe()
    with open_demo(demo, check=True) as timeline:
        assert timeline.verify() >= 1
        leaf = timeline.seek(timeline.end)
        assert leaf.ended and timeline.end.tick == timeline.demo.ticks
    assert not children()


@pytest.mark.limit(300)
@pytest.mark.parametrize("order", ["parallel", "serial"])
@pytest.mark.parametrize("name", programs_of_all() if ALL else FEW)
def test_every_program(name: str, order: str, tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    profile = next((options for start, options in PROFILES.items() if name.startswith(start)), ())
    for ticks in (16, 4096):
        options = ("--set", f"epochs.ticks={ticks}", "--order", order, *profile)
        gdbrr("record", "-o", demo, *options, "--", programs.build(name))
        if not demo.exists():
            return  # refused by name, as other tests want it
        with Demo.open(demo) as opened:
            if opened.ticks < LONG:
                break
    with open_demo(demo, check=True) as timeline:
        assert timeline.verify() >= 1
    assert not children()


@pytest.mark.limit(300)
def test_a_gigabyte(tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    gdbrr("record", "-o", demo, *SHORT, "--", programs.build("resident"), str(MEGABYTES)).expect(0)
    with open_demo(demo, check=True) as timeline:
        assert timeline.verify() > 3
        resident = [int(Path(f"/proc/{kept.pid}/statm").read_text().split()[1]) for kept in timeline._checkpoints._kept]
        assert max(resident) > MEGABYTES * ((1 << 20) // lib.GR_PAGE)
    assert not children()
