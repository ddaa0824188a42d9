"""`gdbrr record --runs`: seed after seed until a run fails, and only that one is kept.

Runs in: pytest. May call: gdbrr record, replay, info.
Owns: how many seeds may be needed for each of the seeded bugs (bench/bugs.py counts them).
"""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from gdbrr.abi import lib
from gdbrr.config import profiles
from gdbrr.demo.reader import Demo
from gdbrr.errors import EXIT_USAGE, GdbrrError
from gdbrr.launch import deadlock, engine, record, waits
from gdbrr.launch import hunt as hunts
from harness import programs
from harness.run import Result, gdbrr, surroundings

BUGS = {
    "lost_update": 1,
    "wrong_lock": 1,
    "missed_signal": 143,
    "order_violation": 139,
    "deadlock": 143,
    "use_after_free": 1,
    "check_then_act": 1,
    "double_checked": 1,
    "aba_stack": 1,
    "bounded_buffer": 1,
}
SEEDS = 250

pytestmark = pytest.mark.limit(300)


def hunt(demo: Path, *words: str | Path, runs: int = SEEDS) -> Result:
    return gdbrr("record", "--runs", str(runs), "-o", demo, *words, limit=250)


def bug(name: str) -> tuple[str | Path, ...]:
    return "--", programs.build("seeded_bugs"), name


def found(result: Result) -> tuple[int, int]:
    """(run, number of the seed)"""
    match = re.search(r"run (\d+) of \d+ failed, with seed (\d+)(?::\d+)?: ", result.err)
    assert match, result.describe()
    return int(match[1]), int(match[2])


def seed_of(result: Result) -> str:
    match = re.search(r"failed, with seed ([0-9:]+): ", result.err)
    assert match, result.describe()
    return match[1]


def operations(demo: Path) -> list[tuple[int, int, int, int]]:
    """What happened in which order."""
    with Demo.open(demo) as opened:
        return [(event.thread, event.kind, event.nr, event.object) for event in opened.events()]


@pytest.mark.parametrize("order", ["random", "pct"])
@pytest.mark.parametrize("name", BUGS)
def test_finds_the_bug(name: str, order: str, tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    result = hunt(demo, "--order", order, "--until", "failure", "--until", "hang:1", *bug(name)).expect(0)
    run, seed = found(result)
    assert run == seed <= SEEDS
    assert [path.name for path in tmp_path.iterdir()] == ["x.demo"]
    assert gdbrr("replay", demo).expect(BUGS[name]).out == result.out


def test_a_deadlock_shows_who_waits_for_whom(tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    hunt(demo, "--order", "random", "--until", "hang:1", *bug("deadlock")).expect(0)
    waits = json.loads(gdbrr("info", "--json", demo).expect(0).out)["waits"]
    assert [(row["thread"], row["threads"]) for row in waits] == [(0, [1]), (1, [2]), (2, [1])]


@pytest.mark.parametrize("order", ["random", "pct"])
@pytest.mark.parametrize("name", ["lost_update", "wrong_lock", "check_then_act", "deadlock"])
def test_the_printed_seed_alone_repeats_the_run(name: str, order: str, tmp_path: Path) -> None:
    demo, again = tmp_path / "x.demo", tmp_path / "again.demo"
    until = ("--until", "failure", "--until", "hang:0.5")
    seed = seed_of(hunt(demo, "--order", order, *until, *bug(name)).expect(0))
    assert f"order      {order}, seed {seed}, " in gdbrr("info", demo).expect(0).out
    if name == "deadlock":
        hunt(again, "--order", order, "--seed", seed, *until, *bug(name), runs=1).expect(0)
    else:
        gdbrr("record", "--order", order, "--seed", seed, "-o", again, *bug(name)).expect(1)
    assert operations(again) == operations(demo)


def test_one_run_that_spins_does_not_thin_the_draw_of_later_ones(tmp_path: Path) -> None:
    program = Path("/bin/true")
    profile = profiles.resolve(None, program, ["order=pct"])
    request = record.Request([str(program)], surroundings(), str(tmp_path), profile, engine.find())
    tries = hunts.Hunt(request, tmp_path / "x.demo", hunts.parse(["failure"]))
    assert tries.profile(7).seed == f"7:{profile.values['pct.steps'].value}"
    tries._steps += [50, 60, 10_000_000]
    assert tries.profile(7).seed == "7:60"
    chosen = request._replace(profile=profiles.resolve(None, program, ["order=pct", "pct.steps=9"]))
    assert hunts.Hunt(chosen, tmp_path / "x.demo", hunts.parse(["failure"]), _steps=[50]).profile(7).seed == "7:9"


def test_operations_are_counted_and_not_the_clock(tmp_path: Path) -> None:
    """Each operation that is a place to hand the turn over, once: a system call has two events, a lock one."""
    counts = []
    for passes in ("0", "1000"):
        program = [str(programs.build("turn_counts")), passes]
        profile = profiles.resolve(None, Path(program[0]), ["order=pct", "seed=1"])
        request = record.Request(program, surroundings(), str(tmp_path), profile, engine.find())
        tries = hunts.Hunt(request, tmp_path / "x.demo", hunts.parse(["signal"]))
        tries.attempt(1)
        counts += tries._steps
    assert counts[1] - counts[0] == 3 * 1000


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("circle", r"thread 1 waits for a mutex .*: thread 2; thread 2 waits for a mutex .*: thread 1: a deadlock"),
        ("beside_sleep", r"thread 1 waits .*: thread 2; thread 2 waits .*: thread 1: a deadlock"),
        ("beside_work", r"thread 1 waits .*: thread 2; thread 2 waits .*: thread 1: a deadlock"),
        ("readers", r"waits for a read-write lock, to write .*: thread 1: a deadlock"),
        ("own", r"thread 0 waits for a mutex at .*: thread 0: a deadlock"),
        ("kept", r"thread 0 waits for a mutex at .*: thread 1: a deadlock"),
        ("barrier", r"thread 1 waits at the barrier .*; thread 2 waits at the barrier .*: a deadlock"),
        ("nobody", r"thread 0 waits for a semaphore .*: a deadlock"),
    ],
)
@pytest.mark.parametrize("order", ["pct", "parallel"])
def test_who_waits_for_whom_is_a_deadlock(kind: str, why: str, order: str, tmp_path: Path) -> None:
    words = ("--order", order, "--until", "hang:0.5", "--", programs.build("hang_kinds"), kind)
    assert re.search(why, hunt(tmp_path / "x.demo", *words, runs=1).expect(0).err)


@pytest.mark.parametrize("kind", ["sleeps", "limit", "limit_in_circle", "look", "child", "alarmed", "timer"])
@pytest.mark.parametrize("order", ["pct", "parallel"])
def test_waiting_for_a_while_is_none(kind: str, order: str, tmp_path: Path) -> None:
    words = ("--order", order, "--until", "hang:0.5", "--", programs.build("hang_kinds"), kind)
    assert "none of 1 run failed" in hunt(tmp_path / "x.demo", *words, runs=1).expect(1).err


def test_where_nothing_shows_what_threads_wait_for_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*words: Any, **options: Any) -> str:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    assert deadlock.asleep(os.getpid()).all >= {os.getpid()}
    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(GdbrrError, match="not shown here what the program's threads wait for"):
        deadlock.asleep(os.getpid())


def test_nobody_is_left_behind_when_a_hunt_ends_in_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def refuse(look: deadlock.Deadlock) -> str:
        seen.append(look._recording.pid)
        raise GdbrrError("for a test", "nothing")

    monkeypatch.setattr(deadlock.Deadlock, "look", refuse)
    program = programs.build("hang_kinds")
    profile = profiles.resolve(None, program, ["order=pct", "seed=1"])
    request = record.Request([str(program), "nobody"], surroundings(), str(tmp_path), profile, engine.find())
    with pytest.raises(GdbrrError, match="for a test"):
        hunts.Hunt(request, tmp_path / "x.demo", hunts.parse(["hang"])).attempt(1)
    with pytest.raises(ProcessLookupError):
        os.kill(seen[0], 0)
    assert not list(tmp_path.iterdir())


MUTEX, JOIN = lib.GR_OP_MUTEX_LOCK, lib.GR_OP_JOIN


@pytest.mark.parametrize(
    ("rows", "ended", "found"),
    [
        ({0: (JOIN, 1), 1: (MUTEX, 2), 2: (MUTEX, 1)}, (), [1, 2]),
        ({0: (MUTEX, 0)}, (), [0]),
        ({0: (MUTEX, 1), 1: (MUTEX, 2)}, (), []),
        ({0: (MUTEX, 1)}, (1,), [0]),
        ({0: (JOIN, 1)}, (1,), []),
        ({1: (MUTEX, 2), 2: (MUTEX, 3), 3: (MUTEX, 4, 5), 5: (MUTEX, 1)}, (), [1, 2, 3, 5]),
        ({0: (MUTEX,)}, (), []),
        ({0: (MUTEX, 1), 1: (MUTEX, 2), 2: (MUTEX, 1)}, (), [1, 2]),
    ],
)
def test_what_is_a_circle(rows: dict[int, tuple[int, ...]], ended: tuple[int, ...], found: list[int]) -> None:
    """The first number is what a thread waits to do, the others are those that have it."""
    graph = {thread: waits.Wait(thread, "waits", 0, row[1:], row[0]) for thread, row in rows.items()}
    assert [row.thread for row in deadlock.circle(graph, ended)] == found


def test_idling_is_asked_for_by_its_name(tmp_path: Path) -> None:
    words = ("--until", "idle:0.5", "--", programs.build("hang_kinds"), "sleeps")
    assert "nothing happened for 0.5 seconds" in hunt(tmp_path / "x.demo", *words, runs=1).expect(0).err


@pytest.mark.parametrize("times", [2, 100])
def test_a_machine_without_a_process_to_give_is_asked_again(
    times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, real = [], os.posix_spawn

    def refuse(*words: Any, **options: Any) -> int:
        asked.append(words)
        if len(asked) <= times:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        return real(*words, **options)

    monkeypatch.setattr(os, "posix_spawn", refuse)
    monkeypatch.setattr(hunts, "_PAUSES", (0.01, 0.01, 0.01))
    if times < 3:
        attempted(tmp_path)
    else:
        with pytest.raises(GdbrrError, match="refuses another process"):
            attempted(tmp_path)
        assert len(asked) == 4
    assert not list(tmp_path.iterdir())


def test_output_is_a_failure(tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    result = hunt(demo, "--until", "output:^lost_update: f", *bug("lost_update")).expect(0)
    assert result.out == "lost_update: failed\n"


def test_none_failed(tmp_path: Path) -> None:
    result = hunt(tmp_path / "x.demo", "--until", "signal=11", *bug("lost_update"), runs=5).expect(1)
    assert result.out == "" and "none of 5 runs failed" in result.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--runs", "0"), "no number of runs"),
        (("--runs", "5", "--until", "sometimes"), "--until sometimes means nothing"),
        (("--runs", "5", "--until", "output:("), "--until output:("),
        (("--runs", "5", "--until", "idle"), "--until idle means nothing"),
        (("--runs", "5", "--seed", "7:x"), "--seed 7:x is no seed"),
        (("--until", "crash"), "--until belongs to --runs"),
    ],
)
def test_what_makes_no_sense_is_refused(words: tuple[str, ...], text: str, tmp_path: Path) -> None:
    result = gdbrr("record", *words, "-o", tmp_path / "x.demo", "--", "/bin/true").expect(EXIT_USAGE)
    assert text in result.err
    assert not list(tmp_path.iterdir())


def test_ctrl_c_ends_it_without_a_demo(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gdbrr", "record", "--runs", "1000", "-o", str(tmp_path / "x.demo")]
    with subprocess.Popen(
        [*command, "--", "/bin/sleep", "1000"],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env=surroundings(),
        text=True,
    ) as process:
        try:
            deadline = time.monotonic() + 60
            while not sleeping(process.pid):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does
            _, err = process.communicate(timeout=60)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 128 + signal.SIGINT
    assert "interrupted in run 1 of 1000" in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("limit", [0.0, 0.1])
def test_what_is_ended_before_it_has_begun_is_nobodys_fault(
    limit: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C, or a limit on a busy machine, while the program is being loaded: that says nothing about the program."""

    def interrupt(pid: int) -> int:
        if not limit:
            os.kill(os.getpid(), signal.SIGINT)
        return 0

    never = tmp_path / "never.so"
    os.mkfifo(never)  # the loader waits for somebody to write it
    monkeypatch.setattr("gdbrr.demo.guess.loaded", lambda *words: [])  # it would wait once more
    tries = attempted(tmp_path, {"LD_PRELOAD": str(never)}, limit=limit, beside=lambda: nullcontext(interrupt))
    assert (tries.interrupted, tries.late) == (not limit, limit > 0)
    assert [path.name for path in tmp_path.iterdir()] == ["never.so"]


def test_ctrl_c_when_the_program_has_just_ended_is_heard(tmp_path: Path) -> None:
    """INVARIANT(no-signal-is-lost)"""

    @contextmanager
    def beside() -> Iterator[Callable[[int], int]]:
        yield lambda pid: 0
        os.kill(os.getpid(), signal.SIGINT)

    assert attempted(tmp_path, beside=beside).interrupted
    assert not list(tmp_path.iterdir())


def attempted(folder: Path, env: Mapping[str, str] = MappingProxyType({}), **given: Any) -> hunts.Hunt:
    """One run of a program that succeeds."""
    program = Path("/bin/true")
    profile = profiles.resolve(None, program, ["order=parallel"])
    request = record.Request([str(program)], {**surroundings(), **env}, str(folder), profile, engine.find())
    tries = hunts.Hunt(request, folder / "x.demo", hunts.parse(["failure"]), **given)
    assert tries.attempt(0)[::2] == ("", None)
    return tries


def sleeping(session: int) -> bool:
    """Whether a `sleep` of this session is there and waits."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            name, _, rest = (entry / "stat").read_text(errors="replace").partition("(")[2].rpartition(")")
        except OSError:
            continue
        fields = rest.split()
        if name == "sleep" and int(fields[3]) == session and fields[0] == "S":
            return True
    return False
