"""Memory is on replay what it was: where a file ends, where a call failed half-way, where somebody wrote unseen.

Runs in: pytest. May call: gdbrr record, gdbrr replay.
Owns: the rows of docs/determinism.md that name it.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

import gdbrr
from calls.test_programs import GDBRR, build, check
from harness import users
from harness.run import run

ORDERS = ("parallel", "serial", "random", "pct")
PROGRAMS = (
    "calls_fail_half",
    "calls_file_ends",
    "calls_map_kinds",
    "calls_map_twice",
    "calls_own_memory",
    "calls_unknown",
)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_memory_is_as_natively(name: str, order: str, tmp_path: Path) -> None:
    """The programs print only what is the same in each run; the digests compare all of memory beside it."""
    program, demo = build(name), tmp_path / "x.demo"
    natively = run(program).expect(0)
    first = run(*GDBRR, "record", "--order", order, "--digest=1", "-o", demo, "--", program).expect(0)
    assert first.out == natively.out
    check(demo, first)


@pytest.mark.parametrize(("name", "argument"), [("calls_file_ends", "/tmp"), ("calls_map_twice", "500")])
def test_copies_of_a_replay_have_such_memory_for_themselves(name: str, argument: str, tmp_path: Path) -> None:
    """Each stretch between two checkpoints is replayed again, beside the process that goes on."""
    program, demo = build(name), tmp_path / "x.demo"
    run(*GDBRR, "record", "--set", "epochs.ticks=16", "-o", demo, "--", program, argument).expect(0)
    again = run(*GDBRR, "replay", "--check", demo).expect(0)
    places = re.search(r"the state was the same at (\d+) places", again.err)
    assert places and int(places[1]) > 30
    with gdbrr.open(demo) as timeline:
        ticks = range(50, int(timeline.end.tick), int(timeline.end.tick) // 7)
        leaves = [timeline.seek(gdbrr.Moment.parse(str(tick))) for tick in ticks]
        assert [leaf.tick for leaf in leaves] == list(ticks)


@pytest.mark.parametrize("digest", [[], ["--digest=10"]], ids=["", "digest"])
def test_holes_take_neither_memory_nor_room(digest: list[str], tmp_path: Path) -> None:
    """Eight gigabytes are mapped twice, of which some pages are there."""
    program, demo = build("calls_map_holes"), tmp_path / "x.demo"
    natively = run(program).expect(0)
    first = run(*GDBRR, "record", *digest, "-o", demo, "--", program).expect(0)
    assert first.out == natively.out
    assert demo.stat().st_size < 1 << 20
    check(demo, first)


def test_a_private_view_beside_a_shared_one_is_told(tmp_path: Path) -> None:
    code = """import mmap, sys
f = open(sys.argv[1], "r+b")
shared = mmap.mmap(f.fileno(), 0)
private = mmap.mmap(f.fileno(), 0, flags=mmap.MAP_PRIVATE) if len(sys.argv) > 2 else None
"""
    file = tmp_path / "file"
    file.write_text("content")
    for more, told in (["private"], True), ([], False):
        demo = tmp_path / f"{told}.demo"
        run(*GDBRR, "record", "-o", demo, "--", "/usr/bin/python3", "-Sc", code, file, *more).expect(0)
        assert ("mapped to be private and to be shared" in run(*GDBRR, "info", demo).out) is told


@pytest.mark.parametrize("order", ORDERS)
def test_the_stack_grows_as_far_as_it_did(order: str, tmp_path: Path) -> None:
    """How far depends on the environment, so it is another number natively."""
    program, demo = build("calls_stack_limit"), tmp_path / "x.demo"
    first = run(*GDBRR, "record", "--order", order, "--digest=1", "-o", demo, "--", program).expect(0)
    results, depths = zip(*(line.split() for line in first.out.splitlines()), strict=True)
    assert results == ("0", "0", "0")
    low, middle, high = map(int, depths)
    assert 0 < low < middle < high
    check(demo, first)


@pytest.mark.needs("ordinary_user")
@pytest.mark.parametrize("limit", [0, 100_000, 8 << 20])
def test_all_memory_is_locked_within_the_limit(limit: int) -> None:
    """What the engine has set aside does not count."""
    before = ("prlimit", f"--memlock={limit}:{limit}")
    user = users.interpreter()
    assert user is not None
    with users.place() as place:
        program, demo = place / "program", place / "x.demo"
        shutil.copy(build("calls_lock_all"), program)
        natively = run(*user[:-1], *before, program, cwd=place, env=users.environment()).expect(0)
        assert natively.out.count("-1") > 3
        first = users.ordinary("record", "-o", demo, "--", program, cwd=place, before=before).expect(0)
        assert first.out == natively.out
        assert users.ordinary("replay", demo, cwd=place, before=before).expect(0).out == first.out


def test_unknown_calls_are_named(tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    run(*GDBRR, "record", "-o", demo, "--", build("calls_unknown")).expect(0)
    assert "  unknown    -1, 400, 511, 512, " in run(*GDBRR, "info", demo).expect(0).out
    assert json.loads(run(*GDBRR, "info", "--json", demo).out)["unknown"][:2] == [-1, 400]


def test_control_without_them_nothing_is_named(tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    run(*GDBRR, "record", "-o", demo, "--", "/bin/true").expect(0)
    assert "  unknown " not in run(*GDBRR, "info", demo).expect(0).out
