"""Demos of somebody else: nothing runs before the user has seen what, and said yes, by whatever door they come in.

Runs in: pytest. May call: gdbrr, gdb.
Owns: nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from confine.forge import foreign, forge, manifest_of
from gdbrr.demo import seal
from gdbrr.errors import GdbrrError
from gdbrr.launch import own
from gdbrr.timeline.timeline import open_demo
from harness import ROOT, programs
from harness.run import Result, gdbrr, run


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    gdbrr("record", "--set", "time=native", "-o", tmp_path / "x.demo", programs.build("moments"), "an arg").expect(0)
    return foreign(tmp_path / "x.demo", tmp_path / "foreign.demo")


def assert_refused(text: str, demo: Path) -> None:
    manifest = manifest_of(demo)
    assert f"{demo} was recorded by another user or on another machine, or was changed since." in text
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
    """The control: it is the seal that tells whose it is, not what the demo says of itself."""
    gdbrr("record", "-o", tmp_path / "x.demo", "/bin/true").expect(0)
    gdbrr("replay", forge(tmp_path / "x.demo", tmp_path / "same.demo")).expect(0)
    elsewhere = {**manifest_of(tmp_path / "x.demo")["host"], "id": "0" * 32}
    gdbrr("replay", forge(tmp_path / "x.demo", tmp_path / "moved.demo", host=elsewhere)).expect(0)


def test_a_byte_that_was_changed_breaks_the_seal(tmp_path: Path) -> None:
    """Whichever it is: the checksums of blocks are anybody's to make."""
    gdbrr("record", "-o", tmp_path / "x.demo", "/bin/echo", "words").expect(0)
    whole = (tmp_path / "x.demo").read_bytes()
    key = own.key() or b""
    for at in range(0, len(whole), 97):
        changed = bytearray(whole)
        changed[at] ^= 1
        (tmp_path / "y.demo").write_bytes(changed)
        with open(tmp_path / "y.demo", "rb") as file:
            assert not seal.fits(file.fileno(), key)
    for other in (whole[:-1], whole + b"\0", whole + whole[-20:], whole[:-20]):
        (tmp_path / "y.demo").write_bytes(other)
        with open(tmp_path / "y.demo", "rb") as file:
            assert not seal.fits(file.fileno(), key)
    with open(tmp_path / "x.demo", "rb") as file:
        assert seal.fits(file.fileno(), key)


def test_what_is_made_of_ones_own_is_ones_own(tmp_path: Path) -> None:
    """And of somebody else's it stays theirs."""
    gdbrr("record", "-o", tmp_path / "x.demo", "/bin/echo", "secret-of-mine").expect(0)
    gdbrr("redact", tmp_path / "x.demo", "--env", "-o", tmp_path / "mine.demo").expect(0)
    gdbrr("replay", tmp_path / "mine.demo").expect(0)
    theirs = foreign(tmp_path / "x.demo", tmp_path / "theirs.demo")
    gdbrr("redact", "--trust", theirs, "--env", "-o", tmp_path / "changed.demo").expect(0)
    assert "add --trust" in gdbrr("replay", tmp_path / "changed.demo").expect(1).err


def test_file_and_name_are_both_shown_where_they_differ(tmp_path: Path) -> None:
    gdbrr("record", "-o", tmp_path / "x.demo", "/bin/true").expect(0)
    there = foreign(tmp_path / "x.demo", tmp_path / "there.demo")
    said = gdbrr("replay", there).expect(1).err
    assert "program:           '/bin/true'" in said and "recorded as" not in said and "under the name" not in said
    lying = forge(there, tmp_path / "lying.demo", key=bytes(32), argv=["./true"], cwd=str(tmp_path))
    said = gdbrr("replay", lying).expect(1).err
    assert f"program:           '{tmp_path}/./true'" in said
    assert "recorded as:       '/bin/true'" in said and "under the name:    './true'" in said


def test_the_key_is_nobody_elses_to_read_or_to_choose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    place = next(own.places())
    (tmp_path / "gdbrr").mkdir()
    (tmp_path / "elsewhere").write_bytes(bytes(32))
    place.symlink_to(tmp_path / "elsewhere")
    assert own.key() not in (None, bytes(32)), "no link is followed"
    place.unlink()
    place.write_bytes(bytes(32))
    place.chmod(0o644)
    assert own.key() not in (None, bytes(32)), "one that anybody can read"
    place.unlink()
    monkeypatch.setattr(own, "places", lambda: iter([place]))
    made = own.key()
    assert made == own.key() == place.read_bytes() and place.stat().st_mode & 0o777 == 0o600


def test_terminal_codes_in_a_manifest_do_not_reach_the_terminal(tmp_path: Path) -> None:
    gdbrr("record", "-o", tmp_path / "x.demo", "/bin/true").expect(0)
    middle = foreign(tmp_path / "x.demo", tmp_path / "middle.demo")
    hostile = forge(middle, tmp_path / "h.demo", program="/bin/\x1b[2Jtrue", argv=["true", "\x1b]0;title\x07"])
    assert "\x1b" not in gdbrr("replay", hostile).expect(1).err
