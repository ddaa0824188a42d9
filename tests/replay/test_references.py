"""Large files that a program reads or maps: a demo refers to them, holds what is about to change, tells what changed.

Runs in: pytest. May call: gdbrr record, replay, info, pack, redact, minimize.
Owns: the rows of docs/determinism.md that name it.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from confine.forge import foreign
from gdbrr.demo import carried, referred
from gdbrr.demo.events import Event
from gdbrr.demo.format import BlockType
from gdbrr.demo.reader import Demo
from gdbrr.demo.writer import Writer
from gdbrr.errors import EXIT_DESYNC, GdbrrError
from gdbrr.files import draft
from gdbrr.timeline.model import Point, PointKind
from gdbrr.timeline.timeline import open_demo
from harness import programs, users
from harness.run import Result, gdbrr

SIZE = (3 << 20) + 1234
READS = ("read", "small", "vectors", "map", "private", "shared", "readers", "parts", "twice")
CHANGES = ("rewrite", "empty", "shorten", "remove", "over", "away", "rights", "times", "folder", "child", "shell")
STAYS = ("--set", "limits.carry=0")
GONE = 0.1
"""Seconds after which the last change of a file is long ago."""


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Where it lies, a change of the file's times shows each store."""
    return settled(tmp_path / "folder" / "large")


def settled(path: Path, seed: int = 1) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(random.Random(seed).randbytes(SIZE))
    time.sleep(GONE)  # its last change must be older than the kernel's clock is coarse
    return path


def recorded(out: Path, way: str, *words: str | Path, options: tuple[str, ...] = ()) -> Result:
    program = programs.build("large_files")
    return gdbrr("record", *options, "-o", out, program, way, *words).expect(0)


def described(demo: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(gdbrr("info", "--json", demo).expect(0).out)["refers"]
    return found


def same(demo: Path, done: Result, *options: str) -> None:
    assert gdbrr("replay", *options, demo).expect(0).out == done.out


@pytest.mark.parametrize("way", READS)
def test_what_was_read_stays_in_the_file(way: str, large: Path, tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    done = recorded(demo, way, large, options=STAYS)
    (row,) = described(demo)
    assert (row["path"], row["contents"]) == (str(large), "not in the demo")
    # Of calls of several threads that have one place in it nobody knows where they read: those are kept.
    assert demo.stat().st_size < (SIZE // 4 if way == "readers" else 100_000)
    assert "refers to 1 file of" in done.err and "must stay as it is until it is packed: gdbrr pack" in done.err
    same(demo, done)


def test_standard_input(large: Path, tmp_path: Path) -> None:
    demo, program = tmp_path / "x.demo", programs.build("large_files")
    words = [sys.executable, "-m", "gdbrr", "record", *STAYS, "-o", demo, program, "input", large]
    with open(large, "rb") as file:
        done = subprocess.run(words, stdin=file, capture_output=True, text=True, check=True)
    assert [row["contents"] for row in described(demo)] == ["not in the demo"]
    assert gdbrr("replay", demo).expect(0).out == done.stdout


@pytest.mark.parametrize("way", ["read", "parts"])
def test_small_ones_are_brought_in_once(way: str, large: Path, tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    done = recorded(demo, way, large)
    assert [row["contents"] for row in described(demo)] == ["in the demo"]
    assert demo.stat().st_size - SIZE in range(100_000)
    large.unlink()
    same(demo, done)


def test_the_smallest_come_first(large: Path, tmp_path: Path) -> None:
    second = settled(tmp_path / "second")
    with open(second, "ab") as file:
        file.write(b"more")
    time.sleep(GONE)
    code = f"a = open({str(second)!r}, 'rb', 0).read(); b = open({str(large)!r}, 'rb', 0).read(); print(len(a), len(b))"
    demo = tmp_path / "x.demo"
    done = gdbrr("record", "--set", "limits.carry=4M", "-o", demo, sys.executable, "-S", "-E", "-c", code).expect(0)
    there = {row["path"]: row["contents"] for row in described(demo)}
    assert (there[str(second)], there[str(large)]) == ("not in the demo", "in the demo")
    same(demo, done)


@pytest.mark.parametrize("way", CHANGES)
def test_what_the_program_changes_is_kept_before(way: str, large: Path, tmp_path: Path) -> None:
    demo, other = tmp_path / "x.demo", settled(tmp_path / "other", 2)
    if way == "folder":
        other = large.parent
    done = recorded(demo, way, large, other, options=STAYS)
    assert "the demo cannot be replayed" not in done.err
    first = next(row for row in described(demo) if row["path"] == str(large))  # as it was before
    assert first["contents"] == "in the demo"
    same(demo, done)


@pytest.mark.parametrize("way", ["library", "library first"])
def test_a_library_stays_where_it_is_also_beside_a_child(way: str, tmp_path: Path) -> None:
    source, library, demo = tmp_path / "data.c", tmp_path / "libdata.so", tmp_path / "x.demo"
    source.write_text("const unsigned char data[3 << 20] = {1, 2, 3};\n")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True, stdin=subprocess.DEVNULL)
    time.sleep(GONE)
    done = recorded(demo, way, library, options=STAYS)
    assert {row["path"]: row["contents"] for row in described(demo)}[str(library)] == "not in the demo"
    assert demo.stat().st_size < 1_000_000
    same(demo, done)
    gdbrr("pack", demo).expect(0)
    library.unlink()
    same(tmp_path / "x.packed.demo", done, "--trust")


def test_a_killed_recorder_leaves_what_was_kept(large: Path, tmp_path: Path) -> None:
    demo, program = tmp_path / "x.demo", programs.build("large_files")
    words = [sys.executable, "-m", "gdbrr", "record", *STAYS, "-o", demo]
    with subprocess.Popen([*words, program, "waits", large], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as recorder:
        assert recorder.stdout and recorder.stdin
        lines = [recorder.stdout.readline(), recorder.stdout.readline()]
        assert lines[1] == b"waiting\n"
        recorder.kill()
    gdbrr("recover", f"{demo}.recording")
    assert lines[0].decode() in gdbrr("replay", demo).out


def test_what_was_just_written_is_kept(tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    done = recorded(demo, "made", tmp_path / "fresh")
    assert described(demo) == []
    (tmp_path / "fresh").unlink()
    same(demo, done)


def test_what_somebody_has_open_for_writing_is_kept(large: Path, tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    with open(large, "ab"):
        done = recorded(demo, "twice", large)
    assert described(demo) == []
    large.unlink()
    same(demo, done)


@pytest.mark.needs("any_user")
def test_of_somebody_elses_file_only_what_is_read_is_referred_to() -> None:
    """Who has it open for writing the kernel tells its owner; each call that reads looks for itself."""
    with users.place() as place:
        large = settled(place / "folder" / "large")
        large.parent.chmod(0o755)
        program = shutil.copy(programs.build("large_files"), place / "program")
        for way, stays in (("read", True), ("map", False)):
            demo = place / f"{way}.demo"
            done = users.ordinary("record", *STAYS, "-o", demo, program, way, large, cwd=place).expect(0)
            assert ("refers to 1 file" in done.err) == stays
            assert users.ordinary("replay", demo, cwd=place).expect(0).out == done.out


def test_switched_off(large: Path, tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    done = recorded(demo, "twice", large, options=("--set", "engine.references=off"))
    assert described(demo) == []
    large.unlink()
    same(demo, done)


def _written(large: Path) -> None:
    with open(large, "r+b") as file:
        file.write(b"other")


def _with_old_times(large: Path) -> None:
    st = large.stat()
    _written(large)
    os.utime(large, ns=(st.st_atime_ns, st.st_mtime_ns))


def _replaced(large: Path) -> None:
    content = large.read_bytes()
    large.unlink()
    large.write_bytes(content)


@pytest.mark.parametrize(
    ("change", "how"),
    [
        (_written, "it was written to"),
        (_with_old_times, "it was changed"),
        (_replaced, "it was written to"),
        (lambda large: large.unlink(), "it is gone"),
        (lambda large: os.truncate(large, 7), "it had 3,146,962 bytes and has 7"),
    ],
)
def test_a_file_that_has_changed_is_named(change: object, how: str, large: Path, tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    recorded(demo, "read", large, options=STAYS)
    change(large)  # type: ignore[operator]
    refused = gdbrr("replay", demo).expect(1).err
    assert f"{str(large)!r}, which {demo} refers to, changed since the recording: {how}" in refused
    assert "gdbrr pack" in refused
    assert f"changed since: {how}" in gdbrr("info", demo).expect(0).out
    assert how in gdbrr("pack", demo).expect(1).err


def test_a_file_that_changes_while_it_is_replayed_is_named(large: Path, tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    recorded(demo, "read", large, options=STAYS)
    with open_demo(demo) as timeline:
        _written(large)
        with pytest.raises(GdbrrError, match="large, which the demo refers to, is gone, or was changed since"):
            timeline.seek(timeline.end)


def test_a_file_that_somebody_else_changes_is_told_at_the_end(large: Path, tmp_path: Path) -> None:
    demo, program = tmp_path / "x.demo", programs.build("large_files")
    words = [sys.executable, "-m", "gdbrr", "record", "-o", demo, program, "waits", large]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as recorder:
        assert recorder.stdout and recorder.stdin
        recorder.stdout.readline()
        assert recorder.stdout.readline() == b"waiting\n"
        _written(large)
        _, err = recorder.communicate(b"go\n")
    assert f"{str(large)!r} was changed by somebody else while it was read" in err.decode()
    assert "changed since the recording" in gdbrr("replay", demo).expect(1).err


# ---------------------------------------------------------------- sharing
def test_a_packed_demo_has_it_all(large: Path, tmp_path: Path) -> None:
    demo, packed = tmp_path / "x.demo", tmp_path / "x.packed.demo"
    done = recorded(demo, "parts", large, options=STAYS)
    assert "that it has read of 1 large file" in gdbrr("pack", demo).expect(0).err
    assert packed.stat().st_size > SIZE
    large.write_bytes(b"something else")
    same(packed, done, "--trust")


def test_somebody_elses_demo_reads_no_file_of_mine(large: Path, tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    recorded(demo, "read", large, options=STAYS)
    theirs = foreign(demo, tmp_path / "theirs.demo")
    for words in (("replay", "--trust", theirs), ("redact", "--trust", theirs), ("pack", "--trust", theirs)):
        refused = gdbrr(*words).expect(1).err
        assert f"refers to a file of the machine where it was recorded, {str(large)!r}, and does not hold it" in refused


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (struct.pack("<II", 13, 0), struct.pack("<II", 13, 200)),  # a file that is none
        (struct.pack("<II", 13, 0), struct.pack("<II", 13, 1 << 31)),
        (struct.pack("<IIQ", 13, 0, 0), struct.pack("<IIQ", 13, 0, 1 << 40)),  # behind its end
        (struct.pack("<QII", 0x10000, 13, 0), struct.pack("<QII", 1 << 33, 13, 0)),  # more than there is
        (struct.pack("<QII", 0x10000, 13, 0), struct.pack("<QII", (1 << 64) - 1, 13, 0)),
    ],
)
def test_a_reference_that_makes_no_sense_ends_the_replay(old: bytes, new: bytes, large: Path, tmp_path: Path) -> None:
    demo, bad = tmp_path / "x.demo", tmp_path / "bad.demo"
    recorded(demo, "read", large)
    with Demo.open(demo) as source, draft(bad) as file:
        changed = carried.copy(source, Writer(file, source.manifest), lambda _, raw: raw.replace(old, new))
        assert changed
    assert "outputs that do not fit the program's buffers" in gdbrr("replay", "--trust", bad).expect(EXIT_DESYNC).err


@pytest.mark.parametrize(
    "rows",
    [
        b"", b"{}", b"[[]]", b"[1]", b"\xff", b"[" * 100_000, b'[["relative", 1, 2, 3, 4, 5, 0, 0]]',
        b'[["/x\\u0000", 1, 2, 3, 4, 5, 0, 0]]', b'[["/x", 1, 2, 3, 4, 5, 2, 1]]', b'[["/x", 1, 2, 3, 4, 5, 0, 4]]',
        b'[["/x", 1, 2, -3, 4, 5, 0, 0]]', b'[["/x", true, 2, 3, 4, 5, 0, 0]]', b'[["/x", 1.5, 2, 3, 4, 5, 0, 0]]',
    ],
)  # fmt: skip
def test_a_list_of_files_that_makes_no_sense_is_damage(rows: bytes, large: Path, tmp_path: Path) -> None:
    demo, bad = tmp_path / "x.demo", tmp_path / "bad.demo"
    recorded(demo, "read", large)
    with Demo.open(demo) as source, draft(bad) as file:
        carried.copy(source, Writer(file, source.manifest), refers=False, more=lambda writer: writer.files(rows, 1))
    for words in (("replay", "--trust", bad), ("info", bad), ("redact", "--trust", bad)):
        assert "its list of files makes no sense" in gdbrr(*words).expect(1).err


def test_somebody_elses_demo_replays_from_what_it_holds(large: Path, tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    done = recorded(demo, "twice", large)
    theirs = foreign(demo, tmp_path / "theirs.demo")
    large.unlink()
    same(theirs, done, "--trust")


@pytest.mark.parametrize("options", [STAYS, ()])
def test_what_is_redacted_is_in_no_block(options: tuple[str, ...], large: Path, tmp_path: Path) -> None:
    demo, new = tmp_path / "x.demo", tmp_path / "new.demo"
    recorded(demo, "twice", large, options=options)
    secret = large.read_bytes()[1_000_000:1_000_016]
    said = gdbrr("redact", demo, "--path", "*/large", "-o", new)
    assert "took out" in said.err and f"of {large} (" in said.err
    large.unlink()
    with Demo.open(new) as opened:
        kinds = [opened.block(number).type for number in range(opened.blocks)]
        assert BlockType.FILES not in kinds and BlockType.CONTENT not in kinds
        assert all(secret not in opened.raw(number) for number in range(opened.blocks))
    assert "which 1 file" not in gdbrr("replay", "--soft-ok", new).err


def test_a_demo_without_references_is_the_same(large: Path, tmp_path: Path) -> None:
    demo, out = tmp_path / "x.demo", tmp_path / "expanded.demo"
    done = recorded(demo, "vectors", large, options=STAYS)
    with Demo.open(demo) as opened:
        referred.expand(opened, out)
        with Demo.open(out) as other:
            assert [told(e) for e in other.events()] == [told(e) for e in opened.events()]
            assert other.files == () and other.stream_bytes > SIZE // 2
    large.unlink()
    same(out, done, "--trust")


def told(event: Event) -> list[object]:
    """What stays where contents come in."""
    return [event.tick, event.thread, event.kind, event.nr, event.result, event.stamp, event.time, event.check]


# ---------------------------------------------------------------- going back
@pytest.mark.parametrize("points", ["ptrace", pytest.param("perf", marks=pytest.mark.needs("perf_breakpoints"))])
def test_changes_by_reads_are_found(points: str, large: Path, tmp_path: Path) -> None:
    program = programs.build("large_files", ["-no-pie"])
    symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    address = next(int(line.split()[0], 16) for line in symbols.splitlines() if line.endswith(" place"))
    found = []
    for references in ("on", "off"):
        demo = tmp_path / f"{references}.demo"
        options = ("--set", f"engine.references={references}", "--set", f"points={points}", *STAYS)
        gdbrr("record", *options, "-o", demo, program, "place", large).expect(0)
        assert bool(described(demo)) == (references == "on")
        with open_demo(demo) as timeline:
            hits = timeline.all_hits([Point(PointKind.CHANGE, address, 4), Point(PointKind.WRITE, address + 4096, 8)])
            found.append([(str(hit.moment), hit.old, hit.new) for hit in hits])
    assert found[0] == found[1] and len(found[0]) > 2 * (SIZE // 0x10000) - 4
    words = [large.read_bytes()[at : at + 4] for at in range(0, SIZE, 0x10000)]
    assert {int.from_bytes(word, "little") for word in words} <= {new for _, _, new in found[0]}
