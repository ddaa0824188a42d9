"""Registers and memory of a replay are the recording's: digests of real programs, and what happens when they are not.

Runs in: pytest. May call: gdbrr record, gdbrr replay; GDBRR_IDENTITY_REPLAYS says how often (make identity: 20).
Owns: the rows of docs/determinism.md that name it.
"""

from __future__ import annotations

import itertools
import os
import re
import sys
from pathlib import Path

import pytest

from fuzz.recordings import Op
from gdbrr.abi import lib
from gdbrr.config import profiles
from gdbrr.ctl.digest import Digest
from gdbrr.demo.reader import Demo
from gdbrr.errors import EXIT_DESYNC
from gdbrr.launch import engine
from gdbrr.launch import record as recordings
from gdbrr.timeline.model import Moment
from gdbrr.timeline.timeline import open_demo
from harness import ROOT, programs
from harness.run import Result, run
from identity import programs as commands
from replay.alter import alter

GDBRR = (sys.executable, "-m", "gdbrr")
REPLAYS = int(os.environ.get("GDBRR_IDENTITY_REPLAYS", "3"))
CLOCK_GETTIME = 228


def record(demo: Path, every: int, *words: str | Path) -> Result:
    return run(*GDBRR, "record", "--order", "parallel", "-o", demo, f"--digest={every}", "--", *words)


def digests(demo: Path) -> list[Digest]:
    with Demo.open(demo) as opened:
        return [Digest.parse(event.data) for event in opened.events() if event.kind == lib.GR_OP_DIGEST]


def check(demo: Path, first: Result) -> None:
    assert digests(demo), "no digest was taken"
    for _ in range(REPLAYS):
        result = run(*GDBRR, "replay", demo)
        assert result.out == first.out, result.describe()
        result.expect(first.status)


def test_there_are_enough_programs() -> None:
    assert len(commands.installed()) + len(commands.OWN) >= commands.LEAST


@pytest.mark.limit(900)
@pytest.mark.parametrize("name", commands.installed())
def test_a_replay_has_the_state_of_the_recording(name: str, tmp_path: Path) -> None:
    """INVARIANT(same-lookups), among others: the first digests come right behind the constructor."""
    commands.prepare(tmp_path)
    words = [word.replace("{here}", str(tmp_path)).replace("{root}", str(ROOT)) for word in commands.COMMANDS[name]]
    demo = tmp_path / "x.demo"
    check(demo, record(demo, commands.EVERY.get(name, 1), *words))


@pytest.mark.limit(900)
@pytest.mark.parametrize("name", commands.OWN)
def test_a_program_of_ours_has_the_state_of_the_recording(name: str, tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    check(demo, record(demo, commands.EVERY.get(name, 1), programs.build(name)))


def test_the_resolver_leaves_no_vectors_on_the_stack(tmp_path: Path) -> None:
    """INVARIANT(nothing-left-of-vectors)."""
    program = programs.build("resolver_stack", ("-Wl,-z,lazy",))
    # The control: without the engine they are found there.
    assert int(run(program).expect(0).out.split()[0]) > 0
    first = run(*GDBRR, "record", "-o", tmp_path / "x.demo", program).expect(0)
    assert first.out.split()[0] == "0"
    assert run(*GDBRR, "replay", tmp_path / "x.demo").expect(0).out == first.out


def test_the_program_of_first_calls_differs_from_run_to_run() -> None:
    """INVARIANT(bound-before-threads) has something to do: who looks a function up leaves that on his stack."""
    assert len({run(programs.build("identity_first_calls")).expect(0).out for _ in range(20)}) > 1


def test_trapped_patched_and_injected_calls_leave_one_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two recordings of a program that does the same in every run differ in nothing but the way into the engine; each
    replay compares itself, with calls that are injected.
    """
    program = programs.build("door_ways")
    seen: dict[str, list[Digest]] = {}
    monkeypatch.setattr(os, "urandom", bytes)  # what the loader is given: AT_RANDOM
    for patch in ("on", "off"):
        profile = profiles.resolve("default", program, [f"engine.patch={patch}", "digest=1"])
        demo = tmp_path / f"{patch}.demo"
        request = recordings.Request([str(program)], dict(os.environ), str(tmp_path), profile, engine.find())
        assert recordings.run(request, demo).status == 0
        seen[patch] = digests(demo)
        check(demo, run(*GDBRR, "replay", demo).expect(0))
    assert len(seen["on"]) == len(seen["off"]) > 500
    for number, (patched, trapped) in enumerate(zip(seen["on"], seen["off"], strict=True)):
        assert not list(patched.differences(trapped)), number
    # The control: digests of neighbours differ.
    assert list(seen["on"][100].differences(seen["on"][101]))


def test_digests_come_behind_every_nth_operation(tmp_path: Path) -> None:
    record(tmp_path / "x.demo", 10, "/bin/ls", "/")
    with Demo.open(tmp_path / "x.demo") as demo:
        ticks = [event.tick for event in demo.events() if event.kind == lib.GR_OP_DIGEST]
    assert len(ticks) > 5
    assert all(10 <= after - before <= 12 for before, after in itertools.pairwise(ticks))


def test_no_digest_without_the_option(tmp_path: Path) -> None:
    run(*GDBRR, "record", "-o", tmp_path / "x.demo", "--", "/bin/ls", "/").expect(0)
    assert digests(tmp_path / "x.demo") == []


def test_a_bare_option_does_not_eat_the_program(tmp_path: Path) -> None:
    result = run(*GDBRR, "record", "-o", tmp_path / "x.demo", "--digest", "/bin/echo", "--digest").expect(0)
    assert result.out == "--digest\n"
    assert digests(tmp_path / "x.demo")


# ---------------------------------------------------------------- negative controls
def one_byte(ops: list[Op]) -> list[Op]:
    """One byte of what one call told the program."""
    op = next(op for op in ops if op.kind == lib.GR_OP_SYS_END and op.nr == CLOCK_GETTIME + 1)
    op.data = op.data[:-1] + bytes([op.data[-1] ^ 1])
    return ops


def one_result(ops: list[Op]) -> list[Op]:
    """The result of one call that nothing in memory depends on."""
    getpid = [op for op in ops if op.kind == lib.GR_OP_SYS_END and op.nr == 39 + 1]
    getpid[-1].result += 1
    return ops


def test_control_one_changed_byte_is_reported_with_its_page(tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    record(demo, 1, programs.build("identity_stack")).expect(0)
    result = run(*GDBRR, "replay", alter(demo, tmp_path / "altered.demo", one_byte)).expect(EXIT_DESYNC)
    found = re.search(r"the state differs in 1 pages of memory, the first at (0x[0-9a-f]+) \(\[stack\]\)", result.err)
    assert found and int(found[1], 16) % lib.GR_PAGE == 0, result.err


def test_control_one_changed_register_is_reported_with_its_name(tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    record(demo, 1, programs.build("identity_stack")).expect(0)
    result = run(*GDBRR, "replay", alter(demo, tmp_path / "altered.demo", one_result)).expect(EXIT_DESYNC)
    assert "the state differs: rax is" in result.err


def test_control_an_unaltered_copy_is_synchronised(tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    record(demo, 1, programs.build("identity_stack")).expect(0)
    run(*GDBRR, "replay", alter(demo, tmp_path / "copy.demo", lambda ops: ops)).expect(0)


# ---------------------------------------------------------------- process ids
_AS_PROCESS = """
import sys
from pathlib import Path
from gdbrr.demo.reader import Demo
from gdbrr.launch import replay
with Demo.open(Path(sys.argv[1])) as demo:
    # The launcher gets the next number, the program the one behind it.
    Path("/proc/sys/kernel/ns_last_pid").write_text(str(int(sys.argv[2]) - 2))
    outcome = replay.run(demo)
    print(Path("/proc/sys/kernel/ns_last_pid").read_text().strip(), outcome)
    sys.exit(outcome.status)
"""


@pytest.mark.needs("private_mounts")
@pytest.mark.parametrize("pid", [0x7FFF, 300])
def test_a_process_id_like_half_a_pointer_is_found_where_it_is(pid: int, tmp_path: Path) -> None:
    """Pointers into libraries and stack end in 00007fff, which is the last process id by default."""
    demo = tmp_path / "x.demo"
    first = record(demo, 1, programs.build("identity_stack")).expect(0)
    words = ["unshare", "-m", "-p", "-f", "--mount-proc", sys.executable, "-c", _AS_PROCESS, demo, str(pid)]
    result = run(*words, env={"PYTHONPATH": os.pathsep.join(sys.path)}).expect(0)
    assert f"{pid} Outcome" in result.out
    assert first.out in result.out


# ---------------------------------------------------------------- replay with replay
@pytest.mark.parametrize("name", ["two_threads", "spine"])
def test_skeletons_and_woken_copies_have_one_state(name: str, tmp_path: Path) -> None:
    """With several threads: two replays that ran there by different ways are equal at the same tick."""
    demo = tmp_path / "x.demo"
    run(*GDBRR, "record", "-o", demo, "--set", "epochs.ticks=16", "--", programs.build(name))
    seen: dict[int, list[Digest]] = {}
    with Demo.open(demo) as opened:
        chosen = [opened.ticks * part // 7 for part in range(1, 7)]
    for order in (chosen, chosen[::-1], chosen):
        with open_demo(demo) as timeline:
            for tick in order:
                leaf = timeline.seek(Moment(tick))
                seen.setdefault(tick, []).append(leaf.digest())
                leaf.drop()
    assert any(len(rows[0].regs) > 1 for rows in seen.values())
    for tick, rows in seen.items():
        for other in rows[1:]:
            assert list(rows[0].differences(other)) == [], f"at tick {tick}"


def test_control_another_tick_has_another_state(tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    run(*GDBRR, "record", "-o", demo, "--", programs.build("two_threads"))
    with open_demo(demo) as timeline:
        half = timeline.seek(Moment(timeline.end.tick // 2))
        end = timeline.seek(timeline.end)
        assert list(half.digest().differences(end.digest()))
