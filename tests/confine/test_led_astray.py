"""A program that was led astray by what a demo says it has read, and turns on whatever replays it.

Runs in: pytest. May call: gdbrr record, gdbrr replay, the timeline.
Owns: INVARIANT(page-is-untrusted), INVARIANT(page-stays-whole).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from confine.forge import led_astray
from gdbrr import abi
from gdbrr.errors import GdbrrError
from gdbrr.timeline.timeline import open_demo
from harness import ROOT, programs
from harness.run import gdbrr

HEADER = ROOT / "preload" / "abi.h"
GDBRR = (sys.executable, "-m", "gdbrr")


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    layout = hashlib.sha256(HEADER.read_bytes()).hexdigest()
    program = programs.build("led", ["-O1", "-pthread", f"-DLAYOUT={layout[:8]}"])
    folder = tmp_path_factory.mktemp("led")
    (folder / "script").write_bytes(b".")
    gdbrr("record", "-o", folder / "honest.demo", program, folder / "script").expect(0)
    return folder / "honest.demo"


@pytest.fixture
def hostile(honest: Path, tmp_path: Path, letter: str) -> Path:
    return led_astray(honest, tmp_path / "hostile.demo", b".", letter.encode())


def children(pid: int) -> list[int]:
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(word) for word in path.read_text().split()]
    return found


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def test_the_honest_one_replays(honest: Path) -> None:
    """The control: by itself it does nothing of that."""
    gdbrr("replay", honest).expect(0)


@pytest.mark.parametrize(
    ("letter", "said"),
    [
        ("t", "threads, more than its demo needs"),
        ("e", "without coming to its next operation"),
        ("b", "the program has tampered with its pages"),
        ("n", "without coming to its next operation"),
        ("p", ""),
        ("h", "without coming to its next operation"),
        ("s", "exited with 0 at tick"),
    ],
)
def test_a_replay_ends_with_a_sentence(hostile: Path, letter: str, said: str) -> None:
    done = gdbrr("replay", hostile, limit=100)
    assert done.status != 0 and said in done.err, done.describe()
    assert "Traceback" not in done.err and "\x1b" not in done.err, done.describe()
    assert not done.out


@pytest.mark.parametrize("letter", ["t", "e", "b", "n", "p", "s"])
def test_nor_does_a_timeline_follow_it(hostile: Path, letter: str) -> None:
    before = children(os.getpid())
    with contextlib.suppress(GdbrrError), open_demo(hostile) as timeline:
        for moment in (timeline.end, timeline.start):
            timeline.seek(moment).drop()
    assert children(os.getpid()) == before


@pytest.mark.parametrize("letter", ["i"])
def test_what_feeds_the_shell_is_out_of_reach(hostile: Path, letter: str) -> None:
    """A pipe can be opened once more through /proc, for writing as well, and Landlock says nothing about pipes."""
    given, feeding = os.pipe()
    try:
        done = subprocess.run([*GDBRR, "replay", str(hostile)], stdin=given, capture_output=True, timeout=60)
        assert b"Traceback" not in done.stderr
        os.set_blocking(given, False)
        with pytest.raises(BlockingIOError):
            os.read(given, 10)
    finally:
        os.close(given)
        os.close(feeding)


def test_the_page_cannot_be_cut_off() -> None:
    with abi.made_ctl() as (page, fd):
        for size in (0, abi.CTL_SIZE + 4096):
            with pytest.raises(PermissionError):
                os.ftruncate(fd, size)
        page.close()


@pytest.mark.parametrize("letter", ["h"])
def test_one_that_was_stopped_from_outside_is_named(hostile: Path, letter: str) -> None:
    with subprocess.Popen([*GDBRR, "replay", str(hostile)], stderr=subprocess.PIPE, stdin=subprocess.DEVNULL) as replay:
        limit = time.monotonic() + 60
        while not (found := [pid for pid in children(replay.pid) if name_of(pid) == "led"]):
            assert time.monotonic() < limit
        os.kill(found[0], signal.SIGSTOP)
        said = replay.communicate(timeout=60)[1].decode()
    assert "was stopped by a signal" in said and "Traceback" not in said
    assert replay.returncode != 0


def test_output_stays_behind_what_was_there(tmp_path: Path) -> None:
    """A replay has a pipe of the controller's, so the file that it is shown in is not its own to change."""
    log = tmp_path / "log"
    gdbrr("record", "-o", tmp_path / "x.demo", "/bin/echo", "again").expect(0)
    log.write_text("before\n")
    with open(log, "ab") as file:
        subprocess.run([*GDBRR, "replay", str(tmp_path / "x.demo")], stdout=file, check=True)
    assert log.read_text() == "before\nagain\n"
