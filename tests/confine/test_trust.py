"""Demos of somebody else: nothing runs before the user has seen what, and said yes, by whatever door they come in.

Runs in: pytest. May call: gdbrr, gdb.
Owns: nothing.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from confine.forge import foreign, forge, manifest_of
from gdbrr.errors import GdbrrError
from gdbrr.launch import host
from gdbrr.timeline.timeline import open_demo
from harness import ROOT, programs
from harness.run import Result, gdbrr, run


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    gdbrr("record", "--set", "time=native", "-o", tmp_path / "x.demo", programs.build("moments"), "an arg").expect(0)
    return foreign(tmp_path / "x.demo", tmp_path / "foreign.demo")


def assert_refused(text: str, demo: Path) -> None:
    manifest = manifest_of(demo)
    assert f"{demo} was recorded by another user or on another machine." in text
    assert f"program:           {manifest['program']!r}" in text
    assert "arguments:         'an arg'" in text
    assert "executed natively: memory, thread, time. If you trust it, add --trust" in text


def test_gdbrr_replay(demo: Path) -> None:
    assert_refused(gdbrr("replay", demo).expect(1).err, demo)
    gdbrr("replay", "--trust", demo).expect(0)


def test_gdbrr_serve(demo: Path) -> None:
    done = gdbrr("serve", demo).expect(1)
    assert done.out == ""
    assert_refused(done.err, demo)


def test_python(demo: Path) -> None:
    with pytest.raises(GdbrrError) as caught:
        open_demo(demo)
    assert_refused(str(caught.value), demo)
    open_demo(demo, trust=True).close()


def in_gdb(*commands: str) -> Result:
    words: list[str] = ["gdb", "-batch", "-nx"]
    for each in (f"source {ROOT / 'gdbinit.py'}", f"set gdbrr python {sys.executable}", *commands):
        words += ["-ex", each]
    return run(*words)


@pytest.mark.needs("gdb", "gdbserver")
def test_rr_replay(demo: Path) -> None:
    done = in_gdb(f"rr-replay {demo}", "rr-when")
    assert "rr-replay: " in done.err
    assert_refused(done.err, demo)
    assert "rr-when: no demo is open" in done.err
    done = in_gdb(f"rr-replay --trust {demo}", "rr-when")
    assert "tick " in done.out


@pytest.mark.needs("gdb", "gdbserver")
def test_gdbrr_debug(demo: Path) -> None:
    env = {"PYTHONPATH": str(ROOT)}
    done = run(sys.executable, "-m", "gdbrr", "debug", demo, "--", "-nx", "-batch", env=env)
    assert_refused(done.err, demo)
    done = run(sys.executable, "-m", "gdbrr", "debug", "--trust", demo, "--", "-nx", "-batch", env=env)
    assert "tick " in done.out and "--trust" not in done.err


def test_own_demo_needs_nothing(tmp_path: Path) -> None:
    """The control: it is the host's id that asks for trust."""
    gdbrr("record", "-o", tmp_path / "x.demo", "/bin/true").expect(0)
    gdbrr("replay", forge(tmp_path / "x.demo", tmp_path / "same.demo")).expect(0)


def test_terminal_codes_in_a_manifest_do_not_reach_the_terminal(tmp_path: Path) -> None:
    gdbrr("record", "-o", tmp_path / "x.demo", "/bin/true").expect(0)
    middle = foreign(tmp_path / "x.demo", tmp_path / "middle.demo")
    hostile = forge(middle, tmp_path / "h.demo", program="/bin/\x1b[2Jtrue", argv=["true", "\x1b]0;title\x07"])
    assert "\x1b" not in gdbrr("replay", hostile).expect(1).err


def test_another_user_of_this_machine_is_somebody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = host.host_id()
    monkeypatch.setattr(os, "getuid", lambda: 4242)
    assert host.host_id() != mine
