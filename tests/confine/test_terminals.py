"""Nothing that a demo names is obeyed by the terminal on which it is shown.

Runs in: pytest. May call: gdb, gdbrr.
Owns: nothing.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from confine.forge import foreign
from gdbrr.launch import shown
from harness import ROOT, programs
from harness.run import gdbrr, run

LOUD = "loud\033]0;a title\007\033[7m\n"
OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""All but line feeds and tabs."""


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    folder = tmp_path / LOUD
    folder.mkdir()
    program = folder / LOUD
    shutil.copy(programs.build("loud_names", ["-O0", "-pthread"]), program)
    gdbrr("record", "-o", tmp_path / "x.demo", "--", program, LOUD, env={"LOUD": LOUD}).expect(0)
    return tmp_path / "x.demo"


@pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")
def test_a_session_shows_names(demo: Path) -> None:
    start = (f"source {ROOT / 'gdbinit.py'}", f"rr-replay {demo}", "info gdbrr", "rr-when")
    moves = ("rr-back 2 -w changes", "info threads", "rr-history changes", "rr-goto end", "rr-back -w changes")
    words = [word for each in ("set style enabled off", *start, *moves) for word in ("-ex", each)]
    done = run("gdb", "-nx", "-batch", *words, limit=100)
    said = done.out + done.err
    assert not OBEYED.findall(said) and "not well-formed" not in said, said
    assert r"/loud\x1b]0;a title\x07\x1b[7m\n" in done.out, said
    assert r'Thread 2 "\x1b[7m\xff<&"" stopped' in said and r'1 "\x1b]2;a title\x07"' in said, said
    listed = re.findall(r'^[* ] (\d) +Thread \S+ "(.*)" ', said, re.MULTILINE)
    assert dict(listed) == {"1": r"\x1b]2;a title\x07", "2": r'\x1b[7m\xff<&"'}, said


def test_words_about_a_program_that_is_gone(demo: Path) -> None:
    shutil.rmtree(demo.parent / LOUD)
    for verb in ("replay", "info", "events"):
        done = gdbrr(verb, demo)
        assert not OBEYED.findall(done.out + done.err), done.describe()
    session = run("gdb", "-nx", "-batch", "-x", ROOT / "gdbinit.py", "-ex", f"rr-replay {demo}")
    assert "is not here" in session.err and not OBEYED.findall(session.out + session.err), session.describe()
    assert "is not here" in gdbrr("replay", demo).expect(1).err


ANSWERED = b"\x1b[6n \x1b[21t \x1b]52;c;eA==\x07 \xc2\x9b6n \x9b6n \x1bP+q544e\x1b\\ \x05"
"""To each of these some terminal types an answer."""


def at_a_terminal(*words: object) -> bytes:
    """What COMMAND prints at a terminal."""
    ours, theirs = os.openpty()
    with subprocess.Popen([str(word) for word in words], stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        said = b""
        with contextlib.suppress(OSError):  # its end
            while piece := os.read(ours, 4096):
                said += piece
        os.close(ours)
        assert process.wait(60) == 0, said
    return said


def test_what_somebody_elses_program_prints_types_nothing(tmp_path: Path) -> None:
    (tmp_path / "words").write_bytes(b"\x1b[1;31mred\x1b[0m \xc3\xa4\n" + ANSWERED + b"\n")
    mine = tmp_path / "mine.demo"
    gdbrr("record", "-o", mine, "/bin/cat", tmp_path / "words").expect(0)
    theirs = foreign(mine, tmp_path / "theirs.demo")
    replay = (sys.executable, "-m", "gdbrr", "replay")
    said = at_a_terminal(*replay, "--trust", theirs)
    assert b"\x1b[1;31mred\x1b[0m \xc3\xa4\r\n" in said and rb"\x1b[6n \x1b[21t \x1b]52" in said
    assert not OBEYED.findall(re.sub(rb"\x1b\[[0-9;]*m", b"", said).decode().replace("\r", "")), said
    assert ANSWERED in at_a_terminal(*replay, mine), "the control: one's own is shown as it is"
    assert ANSWERED in subprocess.run([*replay, "--trust", theirs], capture_output=True, check=True).stdout


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_a_sequence_that_comes_in_pieces(size: int) -> None:
    said = b"a\x1b[1;31mred\x1b[0m\x1b[6n \xc3\xa4 \xe2\x82\xac" + ANSWERED + b"end"
    tame, whole = shown._Tamer(), shown._Tamer()
    assert b"".join(tame(said[at : at + size]) for at in range(0, len(said), size)) == whole(said)
