"""Hostile demos, replayed for real: another program's name, recorded bytes that lead an honest program astray.

Runs in: pytest. May call: gdbrr record, gdbrr replay, the timeline.
Owns: nothing.
"""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path
from typing import Any

import pytest

from confine.forge import forge, led_astray, manifest_of
from confine.stage import REFUSED, Yard, deeds, outsider
from fuzz.recordings import Op
from gdbrr.abi import lib
from gdbrr.timeline.timeline import open_demo
from harness import programs
from harness.run import Result, gdbrr
from replay.alter import alter

SYS_GETPPID = 110

NATIVE = ("--set", "time=native", "--set", "random=native", "--set", "device=native")


def record_honest(tmp_path: Path, yard: Yard, other: int, byte: bytes = b".") -> tuple[Path, list[str], Result]:
    """A program that would do everything, but for the byte it reads."""
    tried = [deed for deed in deeds() if deed not in ("int80", "x32")]  # these two are no calls of the gate's kind
    script, demo = tmp_path / "script", tmp_path / "honest.demo"
    script.write_bytes(byte)
    words = [programs.build("outlaw"), "--gate", script, yard.path, str(other), *tried]
    return demo, tried, gdbrr("record", *NATIVE, "-o", demo, *words)


def answers(replay: Result) -> dict[str, str]:
    """What the outlaw said by itself, past the engine: that is shown as an error."""
    assert replay.out == ""
    said = re.findall(r"^(\w+) (ok|E\w+)$", replay.err, re.MULTILINE)
    assert len(said) == len(dict(said))
    return dict(said)


def test_recorded_bytes_that_lead_a_program_astray_change_nothing(tmp_path: Path) -> None:
    yard = Yard(tmp_path / "yard")
    with outsider() as other:
        demo, tried, first = record_honest(tmp_path, yard, other.pid)
        assert first.expect(0).out == ""
        assert gdbrr("replay", demo).expect(0).out == ""
        hostile = led_astray(demo, tmp_path / "hostile.demo", b".", b"x")
        said = answers(gdbrr("replay", hostile))
        assert list(said) == tried
        assert {name: answer for name, answer in said.items() if answer not in REFUSED} == {}
        yard.assert_untouched()
        assert other.poll() is None


@pytest.mark.parametrize("kind", [0, 7, 8], ids=["bytes", "directory", "echo"])
@pytest.mark.parametrize("size", [(1 << 64) - 1, (1 << 64) - 7, 1 << 40, 25])
def test_stores_that_claim_more_than_there_is(kind: int, size: int, tmp_path: Path) -> None:
    """A length near 2^64 has no padding, and fits everywhere where only that is looked at."""
    raw = struct.pack("<QQII", 0, size, kind, 1) + bytes(24)

    def change(ops: list[Op]) -> list[Op]:
        getppid = next(op for op in ops if op.kind == lib.GR_OP_SYS_END and op.nr == SYS_GETPPID + 1)
        getppid.object, getppid.data = len(raw), struct.pack("<I", len(raw)) + raw
        return ops

    demo = tmp_path / "x.demo"
    gdbrr("record", "-o", demo, "--", "/usr/bin/python3", "-S", "-E", "-c", "import os; os.getppid()").expect(0)
    done = gdbrr("replay", alter(demo, tmp_path / "hostile.demo", change)).expect(125)
    assert "outputs that do not fit the program's buffers" in done.err, done.describe()


def test_nor_under_a_debugger(tmp_path: Path) -> None:
    yard = Yard(tmp_path / "yard")
    with outsider() as other:
        demo, _, _ = record_honest(tmp_path, yard, other.pid)
        hostile = led_astray(demo, tmp_path / "hostile.demo", b".", b"x")
        before = _children()
        with open_demo(hostile) as timeline:
            for moment in (timeline.end, timeline.start, timeline.end):
                timeline.seek(moment).drop()
        yard.assert_untouched()
        assert other.poll() is None
        assert _children() == before


def _children() -> str:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text()


def test_control_the_same_bytes_while_recording(tmp_path: Path) -> None:
    """What the replays above are spared: nobody fences a recording in, and the gate obeys everybody."""
    yard = Yard(tmp_path / "yard")
    script, demo = tmp_path / "script", tmp_path / "x.demo"
    script.write_bytes(b"x")
    tried = ["make", "socket_inet", "fork_it", "kill_it", "unlink_it"]
    with outsider() as other:
        words = [programs.build("outlaw"), "--gate", script, yard.path, str(other.pid), *tried]
        said = gdbrr("record", "-o", demo, *words).expect(0).out
        assert said == "".join(f"{deed} ok\n" for deed in tried)
        assert other.wait(10) != 0
    with pytest.raises(AssertionError):
        yard.assert_untouched()


@pytest.mark.parametrize(
    "argv",
    [
        ["/bin/sh", "-c", "touch %s/made"],
        ["/bin/sh", "-c", ": > %s/made"],
        ["/usr/bin/touch", "%s/made"],
        ["/bin/rm", "-f", "%s/precious"],
        ["/bin/cp", "/etc/passwd", "%s/made"],
    ],
    ids=lambda argv: Path(argv[0]).name,
)
def test_demo_that_names_another_program(argv: list[str], tmp_path: Path) -> None:
    yard = Yard(tmp_path / "yard")
    gdbrr("record", "-o", tmp_path / "x.demo", "/bin/true").expect(0)
    argv = [word.replace("%s", str(yard.path)) for word in argv]
    hostile = forge(tmp_path / "x.demo", tmp_path / "hostile.demo", program=argv[0], argv=argv)
    assert gdbrr("replay", hostile).status == 125
    yard.assert_untouched()
    made = [path.name for path in tmp_path.iterdir()]
    assert sorted(made) == ["hostile.demo", "x.demo", "yard"]


def test_paths_of_a_manifest_are_not_written(tmp_path: Path) -> None:
    yard = Yard(tmp_path / "yard")
    gdbrr("record", "-o", tmp_path / "x.demo", "/bin/true").expect(0)
    precious = str(yard.path / "precious")
    changes: dict[str, Any] = {
        "engine": {"path": precious, "build_id": "00"},
        "objects": [{"path": precious, "build_id": "00", "base": 0}],
        "cwd": str(yard.path),
    }
    gdbrr("replay", forge(tmp_path / "x.demo", tmp_path / "hostile.demo", **changes))
    yard.assert_untouched()


def test_paths_of_a_manifest_that_would_hang_a_reader_do_not(tmp_path: Path) -> None:
    gdbrr("record", "-o", tmp_path / "x.demo", "/bin/false").expect(1)
    os.mkfifo(tmp_path / "fifo")
    rows = [{"path": str(tmp_path / "fifo"), "build_id": "00", "base": 0}]
    changes: dict[str, Any] = {"program": "/bin/echo", "argv": ["/bin/echo", "x"], "objects": rows}
    hostile = forge(tmp_path / "x.demo", tmp_path / "hostile.demo", **changes)
    assert "not as recorded" in gdbrr("replay", hostile, limit=20).expect(125).err


@pytest.mark.parametrize(
    ("key", "value"),
    [("calls.unlink", "native"), ("calls.openat", "write"), ("classes.net", "native"), ("fence", "off")],
)
def test_profile_of_a_demo_cannot_widen_anything(key: str, value: str, tmp_path: Path) -> None:
    gdbrr("record", "-o", tmp_path / "x.demo", "/bin/true").expect(0)
    profile = manifest_of(tmp_path / "x.demo")["profile"]
    profile["values"][key] = {"value": value, "origin": "me"}
    hostile = forge(tmp_path / "x.demo", tmp_path / "hostile.demo", profile=profile)
    assert "the demo's profile is not valid" in gdbrr("replay", hostile).expect(1).err
