"""An honest replay: what differs is said, where, with both stacks and what may be the cause; it never hangs.

Runs in: pytest. May call: gdbrr record, gdbrr replay, gdbrr debug on altered demos.
Owns: the rows of docs/determinism.md about desynchronisation.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from confine.forge import forge
from fuzz.recordings import Op
from gdbrr.abi import lib
from gdbrr.demo.reader import Demo
from gdbrr.errors import EXIT_DESYNC
from harness import programs
from harness.run import Result, gdbrr
from replay.alter import alter

READ, WRITE, CLOCK_GETTIME, GETRANDOM = 0, 1, 228, 318


EACH = ("--order-log", "clock")


def recorded(tmp_path: Path, *words: str | Path) -> tuple[Path, Result]:
    demo = tmp_path / "x.demo"
    return demo, gdbrr("record", "-o", demo, *words, cwd=tmp_path)


def report(demo: Path, status: int = EXIT_DESYNC, *options: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gdbrr("replay", "--quiet", "--json", *options, demo).expect(status).out)
    return found


def functions(stack: list[dict[str, Any]]) -> list[str]:
    return [frame["function"] for frame in stack]


def source(stack: list[dict[str, Any]], function: str) -> str:
    return next(str(frame["source"]) for frame in stack if frame["function"] == function)


def unlock_dropped(ops: list[Op]) -> list[Op]:
    del ops[next(i for i, op in enumerate(ops) if op.kind == lib.GR_OP_MUTEX_UNLOCK)]
    return ops


def write_check(ops: list[Op]) -> list[Op]:
    next(op for op in ops if op.kind == lib.GR_OP_SYS_START and op.nr == WRITE + 1).check ^= 1
    return ops


def write_to_standard_error(ops: list[Op]) -> list[Op]:
    op = next(op for op in ops if op.kind == lib.GR_OP_SYS_START and op.nr == WRITE + 1)
    op.check ^= 1
    op.object = 2
    return ops


# ---------------------------------------------------------------- hard
@pytest.mark.needs("gdb")
def test_both_stacks_have_source_lines(tmp_path: Path) -> None:
    demo, _ = recorded(tmp_path, *EACH, programs.build("spine"))
    altered = alter(demo, tmp_path / "altered.demo", unlock_dropped)
    found = report(altered)
    assert (found["verdict"], found["synchronised"]) == ("desynchronised", False)
    here, agreed = found["stack"], found["agreed_stack"]
    assert functions(here)[0] == "work" and "pthread_mutex_unlock" in source(here, "work")
    assert functions(agreed)[0] == "work" and "pthread_mutex_lock" in source(agreed, "work")
    assert found["program_did"].startswith("MUTEX_UNLOCK") and not found["demo_holds"].startswith("MUTEX_UNLOCK")
    assert found["recorded_operations"][-1]["tick"] == found["tick"] > found["agreed"]
    assert found["run"][0] <= found["tick"] <= found["run"][1]
    text = gdbrr("replay", altered).expect(EXIT_DESYNC).err
    assert f"is desynchronised at tick {found['tick']} of {found['of']}, in thread {found['thread']}" in text
    for part in ("the program was here", "pthread_mutex_unlock(&lock);", "its last call that is as rec", "data race"):
        assert part in text
    assert f"gdbrr debug {altered}     then: rr-goto {found['tick']}" in text


@pytest.mark.needs("gdb")
def test_the_stack_goes_on_behind_the_vdso(tmp_path: Path) -> None:
    def overrun(ops: list[Op]) -> list[Op]:
        op = next(op for op in ops if op.kind == lib.GR_OP_SYS_END and op.nr == CLOCK_GETTIME + 1)
        op.data = (4096).to_bytes(4, "little") + bytes(4096)
        return ops

    demo, _ = recorded(tmp_path, programs.build("spine"))
    found = report(alter(demo, tmp_path / "altered.demo", overrun))
    assert "clock_gettime(CLOCK_MONOTONIC, &now);" in source(found["stack"], "work")
    assert found["call"].startswith("clock_gettime(1, 0x")


@pytest.mark.parametrize("known", [True, False])
def test_without_gdb_there_is_the_place_of_the_call(known: bool, tmp_path: Path) -> None:
    """Also where the program had ended before anybody saw what it had mapped where."""
    demo, _ = recorded(tmp_path, *EACH, programs.build("spine"))
    altered = alter(demo, tmp_path / "altered.demo", unlock_dropped)
    if not known:
        altered = forge(altered, tmp_path / "forged.demo", objects=[])
    result = gdbrr("replay", "--json", "--quiet", altered, env={"GDBRR_GDB": "/nosuchgdb"}).expect(EXIT_DESYNC)
    assert [frame["line"] for frame in json.loads(result.out)["stack"]] == [18]


@pytest.mark.needs("gdb")
@pytest.mark.needs("gdbserver")
def test_a_desynchronised_demo_can_be_debugged_up_to_there(tmp_path: Path) -> None:
    demo, _ = recorded(tmp_path, *EACH, programs.build("spine"))
    altered = alter(demo, tmp_path / "altered.demo", unlock_dropped)
    tick = report(altered)["tick"]
    commands = ["rr-when", "rr-goto start", "continue", "rr-when", f"rr-goto {tick - 1}", "rr-when"]
    words = [word for command in commands for word in ("-ex", command)]
    result = gdbrr("debug", altered, "--", "-batch", *words)
    stops = re.findall(r"^tick (\d+) of (\d+)", result.out, flags=re.MULTILINE)
    assert (str(tick), str(tick)) in stops and (str(tick - 1), str(tick)) == stops[-1], result.describe()
    assert result.out.count("pthread_mutex_unlock(&lock);") >= 2
    ends = re.findall(rf"^tick {tick} of .* thread .*, (\S+:\d+), desync", result.out, flags=re.MULTILINE)
    assert len(ends) > 1 and len(set(ends)) == 1, result.describe()  # however one came there
    assert f"desynchronised behind tick {tick} of " in result.out


def test_another_binary_is_named(tmp_path: Path) -> None:
    program = tmp_path / "program"
    shutil.copy(programs.build("spine"), program)
    demo, _ = recorded(tmp_path, program)
    shutil.copy(programs.build("spine", ["-DOTHER", "-O1"]), program)
    found = report(demo)
    assert found["objects_that_differ"] == [str(program)]
    assert "rebuilt" in found["causes"][0]["what"]
    assert f"not as recorded   {program} (build-id " in gdbrr("replay", demo).err


def test_a_changed_directory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no contents that could be noted while recording, but a descriptor that the replay has open."""
    monkeypatch.chdir(tmp_path)
    Path("d").mkdir()
    demo, _ = recorded(tmp_path, "--set", "file=native", "/bin/ls", "-U", "d")
    assert gdbrr("replay", demo).expect(0).err == ""
    Path("d/new").touch()
    found = report(demo)
    assert found["call"].startswith('getdents64(3 "')
    assert any("so getdents64 of " in cause["what"] and '/d"' in cause["what"] for cause in found["causes"])


def test_a_changed_input_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a short text\n")
    demo, first = recorded(tmp_path, "--set", "file=native", programs.build("honest_lines"), "in.txt", "4")
    first.expect(4)
    gdbrr("replay", demo, cwd=tmp_path).expect(4)
    (tmp_path / "in.txt").write_text("a text that is longer\n")
    found = report(demo)
    assert found["problem"] == "a native call returned 22, while recording 13"
    named = f'"{tmp_path / "in.txt"}"'
    assert found["call"].startswith(f"read(3 {named[:20]}") and found["program_did"] == "SYS_END of read"
    assert f"{str(tmp_path / 'in.txt')!r} changed since the recording" in found["causes"][0]["what"]
    assert found["causes"][1]["advice"] == "record with --set file=record"


def test_the_class_that_should_have_been_recorded_is_named(tmp_path: Path) -> None:
    demo, _ = recorded(tmp_path, "--set", "random=native", programs.build("honest_loop"))
    found = report(demo)
    assert found["verdict"] == "soft", found
    assert found["causes"][0]["advice"] == "record with --set random=record"


# ---------------------------------------------------------------- soft
def test_output_that_differs_is_soft(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("one\n")
    demo, _ = recorded(tmp_path, "--set", "file=ignore", programs.build("honest_lines"), "in.txt", "4")
    (tmp_path / "in.txt").write_text("two\n")
    result = gdbrr("replay", demo).expect(EXIT_DESYNC)
    assert result.out == "two\n" and result.err.startswith("copied in process")
    assert "softly desynchronised: the program wrote other output than recorded, once" in result.err
    found = report(demo)
    assert found["verdict"] == "soft" and found["ticks"] == found["of"]
    expected = {"count": 1, "output": "standard output", "recorded_bytes": 4, "bytes": 4, "thread": 0}
    assert {key: found["soft"][key] for key in expected} == expected
    assert f"{str(tmp_path / 'in.txt')!r} changed since the recording" in found["causes"][0]["what"]
    with Demo.open(demo) as opened:
        event = next(opened.events(start=found["soft"]["tick"]))
        assert (event.kind, event.nr) == (lib.GR_OP_SYS_START, WRITE + 1)


@pytest.mark.parametrize("length", [1, 4, 5, 7, 8, 9, 15, 16, 17, 60])
def test_every_byte_of_the_output_counts(length: int, tmp_path: Path) -> None:
    """INVARIANT(high-bits-count): also those that end up in the upper half of the hash's last word."""
    text = bytearray(b"a" * length)
    (tmp_path / "in.txt").write_bytes(text)
    demo, _ = recorded(tmp_path, "--set", "file=ignore", programs.build("honest_lines"), "in.txt")
    for at in {0, length // 2, length - 1}:
        text[at] ^= 1
        (tmp_path / "in.txt").write_bytes(text)
        assert gdbrr("replay", "--soft-ok", "--quiet", "--json", demo).out.count('"verdict": "soft"') == 1, at
        text[at] ^= 1
    (tmp_path / "in.txt").write_bytes(text)
    assert report(demo, 0)["verdict"] == "synchronised"


def test_soft_ok_gives_the_programs_status(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("one\n")
    demo, _ = recorded(tmp_path, "--set", "file=ignore", programs.build("honest_lines"), "in.txt", "4")
    (tmp_path / "in.txt").write_text("two\n")
    result = gdbrr("replay", "--soft-ok", demo).expect(4)
    assert result.out == "two\n" and "desynchronised" not in result.err
    assert report(demo, 4, "--soft-ok")["verdict"] == "soft"


def test_other_lengths_are_soft_too(tmp_path: Path) -> None:
    """Numbers of another width: the program writes them whole, as it did."""
    demo, first = recorded(tmp_path, programs.build("spine"))

    def other_times(ops: list[Op]) -> list[Op]:
        for op in ops:
            if op.kind == lib.GR_OP_SYS_END and op.nr == CLOCK_GETTIME + 1:
                op.data = op.data[:12] + bytes(8)
        return ops

    altered = alter(demo, tmp_path / "altered.demo", other_times)
    result = gdbrr("replay", "--soft-ok", altered).expect(0)
    assert result.out == f"{first.out.split()[0]} 0\n"
    assert report(altered)["soft"]["bytes"] == len(result.out) != len(first.out)


def test_control_a_check_that_differs_is_seen_in_output_too(tmp_path: Path) -> None:
    demo, first = recorded(tmp_path, programs.build("spine"))
    altered = alter(demo, tmp_path / "altered.demo", write_check)
    assert gdbrr("replay", altered).expect(EXIT_DESYNC).out == first.out
    assert report(altered)["verdict"] == "soft"


def test_another_output_is_not_soft(tmp_path: Path) -> None:
    demo, _ = recorded(tmp_path, programs.build("spine"))
    assert report(alter(demo, tmp_path / "altered.demo", write_to_standard_error))["verdict"] == "desynchronised"


# ---------------------------------------------------------------- never hangs
def endless(ops: list[Op]) -> list[Op]:
    op = next(op for op in ops if op.kind == lib.GR_OP_SYS_END and op.nr == GETRANDOM + 1)
    op.data = op.data[:4] + b"\xff" * 8
    return ops


def own_loop(place: Path) -> Path:
    """The program as nobody else runs it."""
    return Path(shutil.copy(programs.build("honest_loop"), place / "loop"))


def test_a_segment_that_does_not_end_is_desynchronised(tmp_path: Path) -> None:
    demo, _ = recorded(tmp_path, own_loop(tmp_path))
    result = gdbrr("replay", "--json", alter(demo, tmp_path / "altered.demo", endless), limit=30).expect(EXIT_DESYNC)
    found = json.loads(result.out)
    assert found["verdict"] == "desynchronised" and "without coming to its next operation" in found["problem"]
    assert found["seconds"] > 2
    if shutil.which("gdb"):
        assert functions(found["stack"]) == ["count_to", "main"]
    assert not survivors(tmp_path / "loop")


def test_control_without_times_nobody_can_tell(tmp_path: Path) -> None:
    """The bound comes from the demo: where it tells no times, the loop is waited for."""

    def timeless(ops: list[Op]) -> list[Op]:
        for op in endless(ops):
            op.time = 0
        return ops

    demo, _ = recorded(tmp_path, own_loop(tmp_path))
    with pytest.raises(Exception, match="no end within"):
        gdbrr("replay", alter(demo, tmp_path / "altered.demo", timeless), limit=5)
    limit = time.monotonic() + 20
    while survivors(tmp_path / "loop"):  # the kernel ends it when its controller is gone, which takes its time
        assert time.monotonic() < limit


def survivors(program: Path) -> list[str]:
    """Processes of PROGRAM that still run, in this test's own session or any other."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.readlink(entry / "exe") == str(program):
                found.append(entry.name)
        except OSError:
            continue
    return found


@pytest.mark.needs("gdb")
@pytest.mark.needs("gdbserver")
def test_a_demo_with_an_endless_segment_can_be_debugged_up_to_it(tmp_path: Path) -> None:
    demo, _ = recorded(tmp_path, "--set", "epochs.ticks=16", own_loop(tmp_path))
    altered = alter(demo, tmp_path / "altered.demo", endless)
    words = ["-ex", "rr-when", "-ex", "rr-goto start", "-ex", "rr-when"]
    result = gdbrr("debug", altered, "--", "-batch", *words, limit=50)
    tick = report(altered)["tick"]
    assert f"tick {tick} of {tick} (100%)" in result.out and f"tick 0 of {tick} (0%)" in result.out, result.describe()
    assert f"desynchronised behind tick {tick} of " in result.out
    assert not survivors(tmp_path / "loop")


@pytest.mark.parametrize("change", [unlock_dropped, write_check])
def test_the_report_of_an_unaltered_demo_is_short(change: Callable[[list[Op]], list[Op]], tmp_path: Path) -> None:
    demo, _ = recorded(tmp_path, *EACH, programs.build("spine"))
    found = report(demo, 0)
    assert (found["verdict"], found["synchronised"], found["status"]) == ("synchronised", True, 0)
    assert "causes" not in found and found["recorded_end"] == {"kind": "exit", "value": 0}
    assert gdbrr("replay", demo).expect(0).err == ""
    gdbrr("replay", alter(demo, tmp_path / "altered.demo", change)).expect(EXIT_DESYNC)


def test_python_runs_this(tmp_path: Path) -> None:
    """A script's interpreter is what runs; its frames are found through /proc, not through the script."""
    script = tmp_path / "script"
    script.write_text(f"#!{Path(sys.executable).resolve()} -S\nimport os\nos.write(1, b'x')\n")
    script.chmod(0o755)
    demo, first = recorded(tmp_path, script)
    first.expect(0)
    found = report(alter(demo, tmp_path / "altered.demo", write_to_standard_error))
    assert found["verdict"] == "desynchronised" and "write(1, " in found["call"]
