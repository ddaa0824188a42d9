"""One program for each behaviour that differs from run to run: recorded, replayed several times, equal to the byte.

Runs in: pytest. May call: gdbrr record, gdbrr replay.
Owns: the rows of docs/determinism.md that name it.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from harness import programs
from harness.run import Result, run

GDBRR = (sys.executable, "-m", "gdbrr")
REPLAYS = 3
CHILDREN = re.compile(r"gdbrr: [0-9,]+ child(ren)? of the program ran for real .*")
LIBRARIES = ("-lutil", "-lrt", "-lanl")
PROGRAMS = (
    "calls_bad_pointers",
    "calls_blocking",
    "calls_clocks",
    "calls_descriptors",
    "calls_events",
    "calls_identity",
    "calls_libc_threads",
    "calls_many_threads",
    "calls_memory",
    "calls_narrow",
    "calls_network",
    "calls_partial",
    "calls_random",
    "calls_spawn",
    "calls_spawn_threads",
    "calls_views",
)
SAME_EVERY_TIME = {"calls_bad_pointers", "calls_many_threads", "calls_narrow", "calls_partial"}


def build(name: str) -> Path:
    return programs.build(name, LIBRARIES)


def record(demo: Path, *command: str | Path, profile: str = "default") -> Result:
    result = run(*GDBRR, "record", "-p", profile, "--order", "parallel", "-o", demo, "--", *command)
    assert demo.exists(), result.describe()
    return result


def check(demo: Path, first: Result, replays: int = REPLAYS) -> None:
    """Every replay prints what the recording did, and ends as it did."""
    own = [line for line in first.err.splitlines() if not line.startswith("gdbrr: recorded ")]
    for _ in range(replays):
        again = run(*GDBRR, "replay", demo).expect(first.status)
        assert again.out == first.out
        assert [line for line in again.err.splitlines() if not CHILDREN.fullmatch(line)] == own


@pytest.mark.parametrize("profile", ["default", "sparse"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_replays_are_equal(name: str, profile: str, tmp_path: Path) -> None:
    demo = tmp_path / f"{name}.demo"
    first = record(demo, build(name), profile=profile)
    assert first.status == 0 and first.out, first.describe()
    check(demo, first)


@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - SAME_EVERY_TIME))
def test_control_the_program_differs_from_run_to_run(name: str) -> None:
    assert len({run(build(name)).expect(0).out for _ in range(3)}) > 1


def test_errors_are_the_kernels(tmp_path: Path) -> None:
    """Addresses that are not there give the same errors under the engine."""
    program = build("calls_bad_pointers")
    assert record(tmp_path / "x.demo", program).out == run(program).expect(0).out


# ---------------------------------------------------------------- what the kernel stores early
def test_outputs_are_seen_at_the_end_of_their_call(tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    first = record(demo, build("calls_partial"))
    assert first.out.startswith("early 0:")
    check(demo, first)


def test_control_the_kernel_stores_before_the_end() -> None:
    """On a machine that has much to do it may not run the reader in time, now and then."""
    assert any(not run(build("calls_partial")).expect(0).out.startswith("early 0:") for _ in range(10))


# ---------------------------------------------------------------- children
def test_children_that_share_memory_are_seen_by_their_parent(tmp_path: Path) -> None:
    """posix_spawn tells of its error, and a vfork child of what it did, as without the engine."""
    program = build("calls_spawn")

    def told(text: str) -> list[str]:
        return [line for line in text.splitlines() if line.startswith(("spawn", "vfork", "fork", "system"))]

    first = record(tmp_path / "x.demo", program)
    assert told(first.out) == told(run(program).expect(0).out)
    assert "spawn /nonexistent/program: No such file or directory" in first.out
    check(tmp_path / "x.demo", first)


def test_a_replay_tells_of_children_whose_output_it_lacks(tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    record(demo, "/bin/sh", "-c", "echo own; /bin/echo first; (echo second); exit 3")
    again = run(*GDBRR, "replay", demo).expect(3)
    assert again.out == "own\n"
    who = "2 children of the program ran for real while recording and are not in the demo"
    assert again.err == f"gdbrr: {who}: what was printed there is not shown\n"
    assert run(*GDBRR, "replay", "--quiet", demo).err == ""
    assert json.loads(run(*GDBRR, "replay", "--quiet", "--json", demo).out)["children"] == 2
    assert "  children   2, not in the demo" in run(*GDBRR, "info", demo).out
    assert json.loads(run(*GDBRR, "info", "--json", demo).out)["children"] == 2


def test_control_without_children_it_tells_nothing(tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    record(demo, "/bin/sh", "-c", "echo own")
    assert run(*GDBRR, "replay", demo).expect(0).err == ""
    assert "  children " not in run(*GDBRR, "info", demo).out


@pytest.mark.parametrize("patch", ["on", "off"], ids=["patched", "trapped"])
def test_what_cannot_be_executed_fails_as_without_the_engine(patch: str, tmp_path: Path) -> None:
    """By each way to exec: no such file, no right, no interpreter, no format, a directory, arguments that are too long.

    The digests are of the parent's memory, into which vfork children stored their errors.
    """
    program, demo = build("calls_spawn_errors"), tmp_path / "x.demo"
    words = ("record", "--set", f"engine.patch={patch}", "--digest=10", "-o", demo, "--", program)
    first = run(*GDBRR, *words).expect(0)
    assert first.out == run(program).expect(0).out
    assert first.out.count("Permission denied") == 8 and first.out.count("Exec format error") == 8
    check(demo, first)


def test_children_undo_nothing_of_other_threads(tmp_path: Path) -> None:
    first = record(tmp_path / "x.demo", build("calls_spawn_threads"))
    lost = [line for line in first.out.splitlines() if line.startswith("lost ")]
    assert lost and all(line.startswith("lost 0 of ") for line in lost)


# ---------------------------------------------------------------- files
@pytest.mark.parametrize(("profile", "more"), [("default", ["too"]), ("full", ["too"]), ("sparse", [])])
def test_a_replay_changes_no_file(profile: str, more: list[str], tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    (place / "input").write_text("hello")
    demo = tmp_path / "x.demo"
    first = record(demo, build("calls_files"), place, *more, profile=profile)
    assert first.status == 0, first.describe()
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in place.iterdir()}
    assert before["input"][0] != b"hello" or not more
    check(demo, first)
    after = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in place.iterdir()}
    assert after == before


def test_control_a_native_file_that_changed_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.write_text("first content")
    demo = tmp_path / "x.demo"
    record(demo, "/bin/cat", file, profile="sparse")
    file.write_text("other content")
    result = run(*GDBRR, "replay", demo).expect(125)
    assert "other contents behind a native call" in result.err


def test_control_a_native_mapped_file_that_changed_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.write_text("first content")
    code = "import mmap, sys; f = open(sys.argv[1]); print(mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)[:])"
    demo = tmp_path / "x.demo"
    first = record(demo, "/usr/bin/python3", "-Sc", code, file, profile="sparse")
    check(demo, first, replays=1)
    file.write_text("other content")
    result = run(*GDBRR, "replay", demo).expect(125)
    assert "a mapped file that was changed" in result.err


def test_path_rules_decide(tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.write_text("first content")
    profile = tmp_path / "rules.toml"
    profile.write_text(
        f'[classes]\nfile = "native"\n[[paths]]\nmatch = "{tmp_path}/inp*"\nmode = "record"\n'
        '[[paths]]\nmatch = "/**/input"\nmode = "native"\n'
    )
    demo = tmp_path / "x.demo"
    first = record(demo, "/bin/cat", file, profile=str(profile))
    file.write_text("other content")
    check(demo, first)
    # GIVEN rules the other way round WHEN the first that fits is native THEN the file is read again
    profile.write_text('[[paths]]\nmatch = "/**/input"\nmode = "native"\n')
    demo = tmp_path / "y.demo"
    record(demo, "/bin/cat", file, profile=str(profile))
    file.write_text("third content")
    run(*GDBRR, "replay", demo).expect(125)
