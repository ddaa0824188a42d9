"""Operations that are only counted: the four ways to write the order down, kills, full logs, altered runs.

Runs in: pytest. May call: gdbrr record, gdbrr replay.
Owns: the negative controls of runs and edges in docs/determinism.md.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
from pathlib import Path

import pytest

from fuzz.recordings import Op
from gdbrr.abi import lib
from gdbrr.demo.reader import Demo
from gdbrr.errors import EXIT_DESYNC
from harness.run import run
from replay.alter import Change, alter

from .conftest import GDBRR, build, record, replay

ORDER_LOGS = ("clock", "object", "reduced", "transitive")
KILLED = 128 + signal.SIGKILL


def recorded(tmp_path: Path, how: str, name: str = "sync_edges") -> tuple[Path, str]:
    demo = tmp_path / f"{how}.demo"
    return demo, record(build(name), demo, options=("--order-log", how)).expect(0).out


def kinds(demo: Path) -> dict[int, int]:
    """How many operations of each kind."""
    found: dict[int, int] = {}
    with Demo.open(demo) as opened:
        for event in opened.events():
            found[event.kind] = found.get(event.kind, 0) + 1
    return found


@pytest.mark.parametrize("how", ORDER_LOGS)
@pytest.mark.parametrize(
    ("name", "least"),
    [("sync_edges", 40_000), ("sync_cells", 15_000), ("libc_random", 20_000), ("sync_once_again", 15_000)],
)
def test_every_way_replays(name: str, least: int, how: str, tmp_path: Path) -> None:
    demo, out = recorded(tmp_path, how, name)
    for _ in range(2):
        assert replay(demo).expect(0).out == out
    counted = kinds(demo).get(lib.GR_OP_RUN, 0)
    assert counted > least if how in ("reduced", "transitive") else counted == 0


def test_readers_are_in_no_order(tmp_path: Path) -> None:
    """Who only reads under a lock makes no edge, however many there are."""
    demo, out = recorded(tmp_path, "transitive", "sync_readers")
    assert replay(demo).expect(0).out == out
    with Demo.open(demo) as opened:
        runs: dict[int, set[int]] = {}
        for event in opened.events():
            if event.kind == lib.GR_OP_RUN and event.thread:
                runs.setdefault(event.thread, set()).add(event.stamp)
    assert len(runs) == 4 and all(len(stamps) <= 4 for stamps in runs.values())


def test_what_nobody_else_uses_takes_no_space(tmp_path: Path) -> None:
    """The same operations: so many bytes of events less."""
    sizes = {}
    for how in ("clock", "reduced", "transitive"):
        demo, _ = recorded(tmp_path, how, "sync_sections")
        with Demo.open(demo) as opened:
            sizes[how] = opened.stream_bytes
    assert sizes["transitive"] < sizes["clock"] and sizes["reduced"] < sizes["clock"]


def test_writers_may_come_while_a_reader_leaves(tmp_path: Path) -> None:
    """The engine then ends in the library what it had begun itself; when that happens is chance."""
    for number in range(3):
        place = tmp_path / str(number)
        place.mkdir()
        demo, out = recorded(place, "transitive", "sync_crossing")
        assert replay(demo).expect(0).out == out


# ---------------------------------------------------------------- negative controls
def run_of(ops: list[Op], least: int) -> Op:
    return next(op for op in ops if op.kind == lib.GR_OP_RUN and op.object >= least and op.thread)


def one_less(ops: list[Op]) -> list[Op]:
    run_of(ops, 3).object -= 1
    return ops


def one_more(ops: list[Op]) -> list[Op]:
    run_of(ops, 3).object += 1
    return ops


def other_hash(ops: list[Op]) -> list[Op]:
    run_of(ops, 3).check ^= 1
    return ops


def dropped(ops: list[Op]) -> list[Op]:
    ops.remove(run_of(ops, 3))
    return ops


@pytest.mark.parametrize("change", [one_less, one_more, other_hash, dropped])
@pytest.mark.parametrize("name", ["sync_edges", "sync_cells", "libc_random", "sync_once_again"])
def test_control_another_run_is_reported(name: str, change: Change, tmp_path: Path) -> None:
    demo, _ = recorded(tmp_path, "transitive", name)
    result = replay(alter(demo, tmp_path / "altered.demo", change)).expect(EXIT_DESYNC)
    assert "desynchronised at tick" in result.err


def life(ops: list[Op], thread: int) -> list[Op]:
    """All that happens between its start and its end."""
    first, last = (
        next(i for i, op in enumerate(ops) if op.kind == kind and op.thread == thread)
        for kind in (lib.GR_OP_START, lib.GR_OP_EXIT)
    )
    return ops[first : last + 1]


def others_before(ops: list[Op], thread: int) -> int:
    """Pairs of what was counted, one of another thread and a later one of this."""
    before = pairs = 0
    for op in life(ops, thread):
        if op.kind == lib.GR_OP_RUN:
            pairs += before * op.object if op.thread == thread else 0
            before += op.object if op.thread != thread else 0
    return pairs


def one_thread_in_a_row(ops: list[Op]) -> list[Op]:
    """What a thread does between its start and its end comes first, as if it had been alone: of that one before whose
    operations there were most of others. How much the threads meet at all is the machine's choice."""
    chosen = max({op.thread for op in ops} - {0}, key=lambda thread: others_before(ops, thread))
    inside = life(ops, chosen)
    first = ops.index(inside[0])
    return [*ops[:first], *sorted(inside, key=lambda op: op.thread != chosen), *ops[first + len(inside) :]]


@pytest.mark.parametrize("name", ["sync_edges", "sync_cells", "libc_random", "sync_once_again"])
def test_control_without_its_edges_another_order_shows(name: str, tmp_path: Path) -> None:
    for number in range(5):
        place = tmp_path / str(number)
        place.mkdir()
        demo, out = recorded(place, "transitive", name)
        assert replay(alter(demo, place / "copy.demo", lambda ops: ops)).expect(0).out == out
        if replay(alter(demo, place / "altered.demo", one_thread_in_a_row)).out != out:
            return
    raise AssertionError("the order of sections never mattered")


# ---------------------------------------------------------------- ends without a word
def program_of(recorder: int) -> int:
    """The recorded program, which is a child of its recorder."""
    for pid in map(int, Path(f"/proc/{recorder}/task/{recorder}/children").read_text().split()):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/exe") == str(build("runs_killed")):
                return pid
    raise AssertionError("no child runs the program")


def killed_in_a_run(tmp_path: Path, number: int, rng: random.Random) -> Path:
    demo = tmp_path / f"{number}.demo"
    words = [*GDBRR, "record", "-o", str(demo), "--", str(build("runs_killed"))]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL) as recorder:
        assert recorder.stdout
        begun = [recorder.stdout.readline() for _ in range(2)]
        assert begun == [b"begun\n"] * 2
        for _ in range(rng.randrange(20_000)):
            pass  # anywhere in the loop
        os.kill(program_of(recorder.pid), signal.SIGKILL)
        recorder.communicate()
        assert recorder.returncode == KILLED
    return demo


def test_a_program_killed_in_a_run_leaves_all_that_was_counted(tmp_path: Path) -> None:
    rng = random.Random(7)
    counts = set()
    for number in range(4):
        demo = killed_in_a_run(tmp_path, number, rng)
        with Demo.open(demo) as opened:
            assert opened.damage is None
            last = {event.thread: event for event in opened.events()}
        counts |= {event.object for event in last.values() if event.kind == lib.GR_OP_RUN}
        # A write whose end was not logged yet is not shown.
        assert ("begun\n" * 2).startswith(replay(demo).expect(KILLED).out)
    # Cut where the program was, and not at the last run that was full.
    assert counts - {lib.GR_RUN_MOST}


def test_a_full_log_ends_in_front_of_what_nobody_has_seen(tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    options = ("--set", "limits.log=1M", "--set", "limits.when_full=go_on", "--order-log", "object")
    first = record(build("sync_edges"), demo, "40000", options=options).expect(0)
    assert "the log was full" in first.err
    out = run(*GDBRR, "replay", demo).out
    assert first.out.startswith(out)
