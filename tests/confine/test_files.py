"""What lies beside a demo, or in a directory that somebody else has sent, leads gdbrr to no other file.

Runs in: pytest. May call: gdbrr record, replay, recover.
Owns: INVARIANT(no-name-is-followed).
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from confine.forge import foreign
from confine.stage import Yard
from gdbrr import files
from gdbrr.launch import own
from harness.run import gdbrr
from replay.alter import alter


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path / "yard")


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """A recording directory as a killed recorder leaves it."""
    place = tmp_path / "left.demo.recording"
    gdbrr("record", "-o", tmp_path / "x.demo", "/bin/sh", "-c", f"cp -r x.demo.recording {place}", cwd=tmp_path).expect(
        0
    )
    return place


def test_a_recording_that_was_sent_is_not_replayed_and_not_written_to(left: Path, yard: Yard) -> None:
    """It was copied, so its seal is that of another file, as it would be in an archive."""
    before = {path.name: path.read_bytes() for path in left.iterdir()}
    for name in ("manifest.json.new", ".manifest.json"):
        (left / name).symlink_to(yard.path / "precious")
    said = gdbrr("replay", left).expect(1).err
    assert f"{left} was not left by a recorder of yours" in said and "add --trust" in said
    for name in ("manifest.json.new", ".manifest.json"):
        (left / name).unlink()
    assert {path.name: path.read_bytes() for path in left.iterdir()} == before
    yard.assert_untouched()


def test_nor_does_its_recovery_follow_a_link(left: Path, yard: Yard, tmp_path: Path) -> None:
    precious = yard.path / "precious"
    for name in ("manifest.json.new", ".manifest.json"):
        (left / name).symlink_to(precious)
    (tmp_path / "left.demo").symlink_to(precious)
    assert "is in the way" in gdbrr("recover", "--keep", left).expect(1).err
    gdbrr("recover", "--keep", left, "-o", tmp_path / "y.demo").expect(0)
    yard.assert_untouched()
    assert "add --trust" in gdbrr("replay", tmp_path / "y.demo").expect(1).err
    gdbrr("replay", "--trust", tmp_path / "y.demo").expect(0)


@pytest.mark.parametrize("name", ["manifest.json", "log", "ctl"])
def test_a_part_that_is_a_link_or_a_pipe_is_refused(left: Path, yard: Yard, name: str, tmp_path: Path) -> None:
    (left / name).rename(tmp_path / "part")
    for make in ("link", "fifo"):
        (left / name).symlink_to(tmp_path / "part") if make == "link" else os.mkfifo(left / name)
        for verb in ("recover", "replay"):
            done = gdbrr(verb, left, limit=30).expect(1)
            assert "Traceback" not in done.err and done.err.count("\n") == 1, done.describe()
        (left / name).unlink()
    assert not (tmp_path / "left.demo").exists()


def test_one_left_by_ones_own_recorder_is_ones_own(tmp_path: Path) -> None:
    """The control: the same directory under another name, with the file that the recorder logged to."""
    script = "mv x.demo.recording left.demo.recording; kill -KILL $PPID"
    gdbrr("record", "-o", tmp_path / "x.demo", "/bin/sh", "-c", script, cwd=tmp_path)
    assert own.recorded(tmp_path / "left.demo.recording")
    manifest = tmp_path / "left.demo.recording" / "manifest.json"
    known = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**known, "argv": ["/bin/sh", "-c", "touch made"]}))
    assert not own.recorded(tmp_path / "left.demo.recording")
    manifest.write_text(json.dumps(known))
    gdbrr("replay", tmp_path / "left.demo.recording")
    assert (tmp_path / "left.demo").exists()


def test_the_mark_of_a_replayed_demo_follows_no_link(yard: Yard, tmp_path: Path) -> None:
    demo, precious = tmp_path / "x.demo", yard.path / "precious"
    gdbrr("record", "--verify", "-o", demo, "/bin/true").expect(0)
    mark = tmp_path / "x.demo.verified"
    assert mark.is_file()
    mark.unlink()
    mark.symlink_to(precious)
    shutil.copy(demo, tmp_path / "y.demo")
    gdbrr("record", "--verify", "-o", demo, "/bin/true")
    yard.assert_untouched()


def test_a_draft_takes_the_place_of_a_link(yard: Yard, tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to(yard.path / "precious")
    files.write(tmp_path / "out", "mine")
    assert (tmp_path / "out").read_text() == "mine" and not (tmp_path / "out").is_symlink()
    yard.assert_untouched()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "yard"]


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path, Path("/dev/zero")):
        with pytest.raises(OSError):
            files.content(path, 100)
    (tmp_path / "large").write_bytes(bytes(101))
    with pytest.raises(OSError):
        files.content(tmp_path / "large", 100)
    (tmp_path / "link").symlink_to(tmp_path / "large")
    with pytest.raises(OSError):
        files.content(tmp_path / "link", 200, follow=False)
    assert files.content(tmp_path / "link", 200) == bytes(101)


SECRET = "the-secret-of-a-private-file"
SOURCE = """#include <unistd.h>
int main(void)
{
#line 1 "%s"
	write(1, "x", 1);
	return getpid() < 0;
}
"""


@pytest.mark.needs("gdb")
def test_a_line_of_a_private_file_is_in_no_report_about_somebody_elses_demo(tmp_path: Path) -> None:
    """Debug information says which file a line is from; whoever made the program says what is in there."""
    (tmp_path / "private").write_text(f"{SECRET}\n{SECRET}\n")
    (tmp_path / "p.c").write_text(SOURCE % (tmp_path / "private"))
    gcc = shutil.which("gcc")
    assert gcc and os.spawnv(os.P_WAIT, gcc, [gcc, "-g", "-w", "-o", str(tmp_path / "p"), str(tmp_path / "p.c")]) == 0
    demo = tmp_path / "x.demo"
    gdbrr("record", "-o", demo, tmp_path / "p").expect(0)
    ours = alter(demo, tmp_path / "ours.demo", lambda ops: ops[:1] + ops[3:])
    theirs = foreign(ours, tmp_path / "theirs.demo")
    for words in (["--trust"], ["--trust", "--json"]):
        done = gdbrr("replay", *words, theirs).expect(125)
        assert SECRET not in done.out + done.err and "main" in done.out + done.err, done.describe()
    assert SECRET in gdbrr("replay", ours).expect(125).err, "the control"
