"""Times of events: what a segment took, when an epoch began, and when a replay has taken too long."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.recordings import Op, make_recording
from gdbrr.abi import lib
from gdbrr.cli.main import main
from gdbrr.demo.pack import pack
from gdbrr.demo.reader import Demo
from gdbrr.launch.watchdog import FACTOR, GRACE, Watchdog, ran, segment_time, used_by

SECOND = 10**6


def demo_of(place: Path, ops: list[Op], **options: int) -> Demo:
    make_recording(place / "rec", ops, threads=[])
    pack(place / "rec", place / "x.demo", **options)
    return Demo.open(place / "x.demo")


def two_threads() -> list[Op]:
    """Thread 0 computes for 3 s behind tick 3; thread 1 works in between."""
    return [
        Op(0, lib.GR_OP_START, result=100, time=1),  # 0
        Op(0),  # 1
        Op(1, lib.GR_OP_START, result=101, time=2000),  # 2
        Op(0, time=SECOND),  # 3
        Op(1, time=2 * SECOND),  # 4
        Op(1),  # 5
        Op(0, time=4 * SECOND),  # 6
        Op(0),  # 7
        Op(1, time=9 * SECOND),  # 8
    ]


@pytest.mark.parametrize(
    ("tick", "thread", "seconds"),
    [(3, 0, 3.0), (4, 1, 7.0), (5, 1, 7.0), (0, 0, 1.0), (1, 0, 1.0), (6, 0, 5.0), (7, 0, 5.0), (8, 1, 0.0)],
)
def test_a_segment_lasts_until_the_threads_next_time(tmp_path: Path, tick: int, thread: int, seconds: float) -> None:
    with demo_of(tmp_path, two_threads()) as demo:
        found = segment_time(demo, tick)
    assert found[0] == thread and found[1] == pytest.approx(seconds, abs=0.03)


def test_a_time_far_in_front_is_found(tmp_path: Path) -> None:
    ops = [Op(0, lib.GR_OP_START, time=5), *[Op(0) for _ in range(30_000)], Op(0, time=5 + SECOND)]
    with demo_of(tmp_path, ops) as demo:
        assert segment_time(demo, 29_000)[1] == pytest.approx(1.0, abs=0.03)


def test_without_times_nothing_is_known(tmp_path: Path) -> None:
    with demo_of(tmp_path, [Op(0, lib.GR_OP_START), Op(0), Op(0)]) as demo:
        assert segment_time(demo, 1) == (0, None)
        assert [epoch.time for epoch in demo.epochs] == [None]


def test_epochs_say_when_they_began(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with demo_of(tmp_path, two_threads(), epoch_ticks=3) as demo:
        assert [(epoch.start, epoch.time) for epoch in demo.epochs] == [(0, 0.0), (3, 0.002), (6, 2.0)]
    assert main(["info", str(tmp_path / "x.demo")]) == 0
    table = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert next(row[:2] for row in table if row[-2:] == ["2.000", "s"]) == ["2", "6"]


def test_threads_are_known_by_their_first_events(tmp_path: Path) -> None:
    ops = [
        Op(0, lib.GR_OP_START, result=100),
        Op(1, lib.GR_OP_START, result=101),
        Op(2, lib.GR_OP_START, result=102, check=1),
        Op(3, lib.GR_OP_START, result=1 << 40, check=7),  # says what cannot be
        Op(4),
    ]
    with demo_of(tmp_path, ops) as demo:
        assert [(t.recorded_tid, t.parent) for t in demo.threads] == [
            (100, -1),
            (101, 0),
            (102, 1),
            (None, None),
            (None, None),
        ]


def watch(demo: Demo, tick: int, seconds: float, step: float = 0.05) -> float | None:
    """When the watchdog barks at a replay that stands still at TICK for so long."""
    watchdog, now = Watchdog(demo, pid=0), 1000.0
    while now < 1000.0 + seconds:
        if watchdog.look(tick, now):
            return now - 1000.0
        now += step
    return None


def test_the_bound_is_20_times_and_two_seconds(tmp_path: Path) -> None:
    with demo_of(tmp_path, two_threads()) as demo:
        assert watch(demo, 4, 100) == pytest.approx(FACTOR * 3.0 + GRACE, abs=0.5)
        assert watch(demo, 9, 100) == pytest.approx(GRACE, abs=0.5)


def test_a_replay_that_moves_is_left_alone(tmp_path: Path) -> None:
    with demo_of(tmp_path, two_threads()) as demo:
        watchdog = Watchdog(demo, pid=0)
        assert not any(watchdog.look(tick, 10.0 * tick + part) for tick in range(1, 9) for part in range(10))


def test_time_in_which_nobody_looked_does_not_count(tmp_path: Path) -> None:
    """A controller that was stopped (Ctrl-Z) finds a program that was stopped as well."""
    with demo_of(tmp_path, two_threads()) as demo:
        assert watch(demo, 9, 10_000, step=1000.0) is None


def test_time_in_which_others_had_the_processors_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the second in which it looks closely, the replay gets a tenth."""
    times = iter(range(1000))
    with demo_of(tmp_path, two_threads()) as demo:
        alone = watch(demo, 9, 100)
        monkeypatch.setattr("gdbrr.launch.watchdog.used_by", lambda _: next(times) * 0.005)
        beside = watch(demo, 9, 100)
    assert alone is not None and beside == pytest.approx(GRACE / 2 + 10 * (alone - GRACE / 2), rel=0.1)


def test_who_waits_for_a_processor_is_told_from_who_waits() -> None:
    with subprocess.Popen(["sh", "-c", "while :; do :; done"]) as busy, subprocess.Popen(["sleep", "100"]) as asleep:
        try:
            first = None
            while (now := used_by(busy.pid)) is None or now == first or first is None:
                first = now if first is None else first
            while used_by(asleep.pid) is not None:  # it begins
                pass
        finally:
            busy.kill()
            asleep.kill()
    assert now > first


def test_before_the_first_operation_there_is_no_bound(tmp_path: Path) -> None:
    with demo_of(tmp_path, two_threads()) as demo:
        assert watch(demo, 0, 100) is None


def test_a_name_that_is_no_text_is_read_past() -> None:
    """A process may call itself anything, with parentheses and bytes that are no UTF-8."""
    code = (
        "import ctypes; ctypes.CDLL(None).prctl(15, b'\\xe9t\\xe9) (Z'); print(sum(range(10**7)), flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline()
        assert ran(process.pid) > 0
        assert ran(process.pid, process.pid) > 0
        process.communicate(b"\n")
