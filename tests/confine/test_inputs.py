"""A file that a recording reads natively, and that is another one now, is named.

Runs in: pytest. May call: gdbrr record, gdbrr replay, gdb.
Owns: nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from confine.forge import manifest_of
from gdbrr.abi import lib
from gdbrr.demo.events import Event
from gdbrr.demo.reader import Demo
from gdbrr.launch import inputs
from gdbrr.report import causes
from harness import ROOT
from harness.run import gdbrr, run

OPENAT = 257


def events_of(demo: Path) -> list[Event]:
    with Demo.open(demo) as opened:
        return [event for event in opened.events() if event.kind == lib.GR_OP_SYS_END]


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    """Of a program that reads three files, one of them twice."""
    for name in ("one", "two", "three"):
        (tmp_path / name).write_text(f"{name}\n")
    words = ["/bin/cat", "one", "./two", "../" + tmp_path.name + "/three", "one"]
    done = gdbrr("record", "--set", "file=native", "-o", "x.demo", *words, cwd=tmp_path).expect(0)
    assert done.out == "one\ntwo\nthree\none\n"
    return tmp_path / "x.demo"


def test_manifest_names_each_input_once_with_its_whole_path(demo: Path) -> None:
    rows = [row for row in manifest_of(demo)["inputs"] if row["path"].startswith(str(demo.parent))]
    expected = [demo.parent / name for name in ("one", "two", "three")]
    assert [(row["path"], row["size"], row["mtime"]) for row in rows] == [
        (str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in expected
    ]


def test_nothing_is_said_when_nothing_changed(demo: Path) -> None:
    assert gdbrr("replay", demo).expect(0).err == ""


def change_size(path: Path) -> None:
    path.write_text("something longer\n")


def change_content(path: Path) -> None:
    path.write_text("owt\n")
    os.utime(path, (1, 1))


def change_nothing(path: Path) -> None:
    os.utime(path, (1, 1))


@pytest.mark.parametrize(
    ("change", "status", "how"),
    [
        (change_size, 125, "it had 4 bytes and has 17"),
        (change_content, 125, "it was written to"),
        (Path.unlink, 125, "it is gone"),
        (change_nothing, 0, "it was written to"),
    ],
)
def test_input_that_changed_is_named_once(change: Any, status: int, how: str, demo: Path) -> None:
    """As the first of the likely causes where the replay is desynchronised, in a line of its own where it is not."""
    two = demo.parent / "two"
    change(two)
    lines = gdbrr("replay", demo).expect(status).err.splitlines()
    named = f"{str(two)!r} changed since the recording, which reads it: {how}"
    first = f"  likely causes     1. {named}" if status else f"gdbrr: {named}"
    assert [line for line in lines if "changed since the recording" in line] == [first]


def test_without_a_list_the_files_of_the_command_line_are_looked_at(demo: Path) -> None:
    """As in a demo that was recovered from a recording that nobody ended."""
    with Demo.open(demo) as opened:
        del opened.manifest["inputs"]
        assert causes.changed_inputs(opened, []) == []
        younger = opened.manifest["started"] + 60
        os.utime(demo.parent / "one", (younger, younger))
        assert causes.changed_inputs(opened, []) == [f"{str(demo.parent / 'one')!r} changed since the recording"]


def test_recorded_inputs_may_change(tmp_path: Path) -> None:
    """The control: what is in the demo is not looked for outside of it."""
    (tmp_path / "one").write_text("one\n")
    gdbrr("record", "-o", "x.demo", "/bin/cat", "one", cwd=tmp_path).expect(0)
    (tmp_path / "one").write_text("another\n")
    done = gdbrr("replay", "x.demo", cwd=tmp_path).expect(0)
    assert (done.out, done.err) == ("one\n", "")
    assert manifest_of(tmp_path / "x.demo")["inputs"] == []


def test_program_without_a_build_id_is_named_too(tmp_path: Path) -> None:
    program = tmp_path / "p"
    (tmp_path / "p.c").write_text("int main(void) { return 0; }\n")
    words = ["gcc", "-Wl,--build-id=none", "-o", program, tmp_path / "p.c"]
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
    gdbrr("record", "-o", tmp_path / "x.demo", program).expect(0)
    assert inputs.changed(manifest_of(tmp_path / "x.demo")) == []
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
    assert inputs.changed(manifest_of(tmp_path / "x.demo")) == [(str(program), "it was written to")]


def test_a_list_that_does_not_fit_is_cut_between_files(tmp_path: Path) -> None:
    """Half a megabyte of names: what is noted stays whole, and nothing else is harmed."""
    folder = tmp_path / ("d" * 200)
    folder.mkdir()
    names = [folder / (f"{number:04}" + "n" * 200) for number in range(1500)]
    for name in names:
        name.touch()
    code = "import sys\nfor name in sys.argv[1:]: open(name).close()"
    words = ["/usr/bin/python3", "-S", "-c", code, *names]
    gdbrr("record", "--set", "file=native", "-o", tmp_path / "x.demo", *words).expect(0)
    found = [row["path"] for row in manifest_of(tmp_path / "x.demo")["inputs"] if row["path"].startswith(str(folder))]
    assert 1000 < len(found) < 1500
    assert found == [str(name) for name in names[: len(found)]]


@pytest.mark.needs("gdb", "gdbserver")
def test_rr_replay_says_it(demo: Path) -> None:
    os.utime(demo.parent / "three", (1, 1))
    words = ["gdb", "-batch", "-nx"]
    for each in (f"source {ROOT / 'gdbinit.py'}", f"set gdbrr python {sys.executable}", f"rr-replay {demo}"):
        words += ["-ex", each]
    done = run(*words, cwd=demo.parent)
    assert f"Note: {str(demo.parent / 'three')!r} changed since the recording" in done.out


@pytest.mark.parametrize(
    ("program", "what"),
    [
        ("read x < state; echo $x; echo more > state", "state"),
        ("[ -s state ] || echo empty; echo more > state", "state"),
        ("echo *; echo > new", ""),
    ],
)
def test_program_that_changes_what_it_has_read_is_told_so(program: str, what: str, tmp_path: Path) -> None:
    """Natively a replay reads what the recorded run left: the report names file, tick and setting."""
    place = tmp_path / "place"
    place.mkdir()
    (place / "state").touch()
    words = ("-o", tmp_path / "x.demo", "/bin/sh", "-c", program)
    gdbrr("record", "--set", "file=native", *words, cwd=place).expect(0)
    changed = [event for event in events_of(tmp_path / "x.demo") if event.result >= 0 and event.nr == OPENAT + 1]
    found = json.loads(gdbrr("replay", "--quiet", "--json", tmp_path / "x.demo").expect(125).out)["causes"][0]
    path, tick = str(place / what) if what else str(place), changed[-1].tick
    assert found["what"] == f"the program itself changed {path!r} at tick {tick}, after it had read it natively"
    assert found["advice"].startswith("record with --set file=record")
    # The control: recorded, nothing differs.
    (place / "new").unlink(missing_ok=True)
    gdbrr("record", "--set", "file=record", *words, cwd=place).expect(0)
    gdbrr("replay", tmp_path / "x.demo").expect(0)


@pytest.mark.parametrize(("change", "status"), [(change_size, 125), (Path.unlink, 125), (change_nothing, 0)])
def test_file_that_is_only_asked_about_is_compared(change: Any, status: int, tmp_path: Path) -> None:
    """What stat says is in the program's memory, where a debugger would show it."""
    file = tmp_path / "file"
    file.write_text("one\n")
    gdbrr("record", "-p", "sparse", "-o", "x.demo", "/bin/sh", "-c", "[ -s file ]; echo $?", cwd=tmp_path).expect(0)
    change(file)
    gdbrr("replay", "x.demo", cwd=tmp_path).expect(status)
