"""Nothing that a demo names is obeyed by the terminal on which it is shown.

Runs in: pytest. May call: gdb, gdbrr.
Owns: nothing.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

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
