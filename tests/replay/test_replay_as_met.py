"""`gdbrr replay` as a user meets it: output once and byte for byte, progress, Ctrl-C, pipes that close, JSON.

Runs in: pytest. May call: gdbrr record, gdbrr replay, a terminal.
Owns: nothing.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fuzz.recordings import Op
from gdbrr.abi import lib
from gdbrr.demo.reader import Demo
from gdbrr.launch import replay as replays
from harness import ROOT, programs
from harness.run import end_session, gdbrr, run, session_members
from harness.terminal import Terminal
from replay.alter import alter

GDBRR = (sys.executable, "-m", "gdbrr")
FLOOD = "".join(f"line {number}\n" for number in range(20000))


@pytest.fixture(scope="module")
def flood(tmp_path_factory: pytest.TempPathFactory) -> Path:
    demo = tmp_path_factory.mktemp("flood") / "flood.demo"
    assert gdbrr("record", "-o", demo, programs.build("honest_flood")).expect(3).out == FLOOD
    return demo


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A demo whose replay takes for ever, and whose recorded time says that it may take long."""
    place = tmp_path_factory.mktemp("endless")
    gdbrr("record", "-o", place / "x.demo", programs.build("honest_loop")).expect(0)

    def change(ops: list[Op]) -> list[Op]:
        at = next(i for i, op in enumerate(ops) if op.kind == lib.GR_OP_SYS_END and op.nr == 319)
        ops[at].data = ops[at].data[:4] + b"\xff" * 8
        ops[at + 1].time = 3600 * 10**6
        return ops

    return alter(place / "x.demo", place / "endless.demo", change)


def test_output_appears_once_and_as_it_was(flood: Path, tmp_path: Path) -> None:
    result = gdbrr("replay", flood).expect(3)
    assert (result.out, result.err) == (FLOOD, "")
    with open(tmp_path / "out", "wb") as out:
        subprocess.run([*GDBRR, "replay", flood], stdout=out, cwd=ROOT, check=False, timeout=60)
    assert (tmp_path / "out").read_text() == FLOOD


def test_quiet_shows_nothing(flood: Path) -> None:
    result = gdbrr("replay", "--quiet", flood).expect(3)
    assert (result.out, result.err) == ("", "")


def test_standard_error_goes_where_it_went(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("to standard output\n")
    demo = tmp_path / "x.demo"
    gdbrr("record", "-o", demo, programs.build("honest_lines"), tmp_path / "in.txt").expect(0)
    result = gdbrr("replay", demo).expect(0)
    assert result.out == "to standard output\n" and result.err.startswith("copied in process ")
    assert result.err.count("\n") == 1


def test_a_terminal_shows_what_a_pipe_does(flood: Path) -> None:
    with Terminal(*GDBRR, "replay", flood) as terminal:
        assert terminal.wait() == 3
    assert terminal.seen.decode() == FLOOD.replace("\n", "\r\n")


def shell(script: str) -> subprocess.CompletedProcess[str]:
    words = ["bash", "-c", script]
    return subprocess.run(words, capture_output=True, text=True, cwd=ROOT, stdin=subprocess.DEVNULL, timeout=60)


def test_a_reader_that_goes_away_ends_it_quietly(flood: Path) -> None:
    result = shell(f"{sys.executable} -m gdbrr replay {flood} | head -2; echo ${{PIPESTATUS[0]}}")
    assert (result.stdout, result.stderr) == ("line 0\nline 1\n141\n", "")


def test_closed_outputs_are_no_matter(flood: Path) -> None:
    result = shell(f"{sys.executable} -m gdbrr replay {flood} >&-; echo $?")
    assert (result.stdout, result.stderr) == ("3\n", "")
    result = shell(f"{sys.executable} -m gdbrr replay {flood} 2>&- <&- | md5sum; echo ${{PIPESTATUS[0]}}")
    assert result.stdout.endswith("\n3\n") and result.stderr == ""


def test_a_recording_with_closed_outputs_replays(tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    result = shell(f"{sys.executable} -m gdbrr record -o {demo} {programs.build('honest_flood')} >&- 2>&-; echo $?")
    assert result.stdout == "3\n" and demo.exists()
    assert gdbrr("replay", demo).expect(3).out == ""


def test_a_full_disk_is_said(flood: Path) -> None:
    result = shell(f"{sys.executable} -m gdbrr replay {flood} >/dev/full; echo $? >&2")
    assert result.stderr == (
        "gdbrr replay: the output cannot be written: No space left on device. Make room, or use --quiet\n1\n"
    )


def test_a_slow_reader_that_does_not_block_gets_everything(flood: Path) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    process = subprocess.Popen([*GDBRR, "replay", flood], stdout=writer, cwd=ROOT, start_new_session=True)
    os.close(writer)
    try:
        found = b""
        while piece := os.read(reader, 4096):
            found += piece
            time.sleep(0.0005)  # so that the pipe is full now and then
        assert process.wait(timeout=60) == 3
        assert found.decode() == FLOOD
    finally:
        os.close(reader)
        end_session(process.pid)
        process.wait()


def test_json_is_complete(flood: Path) -> None:
    found = json.loads(gdbrr("replay", "--json", "--quiet", flood).expect(3).out)
    assert found.pop("seconds") > 0
    assert found == {
        "demo": str(flood),
        "verdict": "synchronised",
        "synchronised": True,
        "status": 3,
        "recorded_end": {"kind": "exit", "value": 3},
        "complete": True,
        "ticks": found["of"],
        "of": found["ticks"],
        "soft": None,
        "children": 0,
        "notices": [],
    }


# ---------------------------------------------------------------- Ctrl-C and progress
def test_interrupt_ends_it_with_130_and_leaves_nothing(endless: Path) -> None:
    with Terminal(*GDBRR, "replay", endless, env={"TMPDIR": str(endless.parent)}) as terminal:
        while len(session_members(terminal.pid)) < 1 or not program_of(terminal.pid):
            time.sleep(0.01)
        (pid,) = program_of(terminal.pid)
        terminal.type("\x03")
        assert terminal.wait() == 130
        assert terminal.seen in (b"", b"^C")
        assert not Path(f"/proc/{pid}").exists()
    assert not list(endless.parent.glob("gdbrr-*"))


def test_an_interrupt_while_it_is_launched_leaves_nothing(endless: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script goes on behind its user's Ctrl-C, and what it had started went on with it."""
    wait = os.waitpid

    def interrupted(pid: int, options: int) -> None:
        monkeypatch.setattr(os, "waitpid", wait)
        while not program_of(os.getpid()):
            time.sleep(0.001)
        raise KeyboardInterrupt

    with Demo.open(endless) as demo, pytest.raises(KeyboardInterrupt):
        monkeypatch.setattr(os, "waitpid", interrupted)
        replays.run(demo, echo=False)
    assert not Path(f"/proc/self/task/{os.getpid()}/children").read_text()


def program_of(parent: int) -> list[int]:
    """The child of PARENT that has come to run the program."""
    name = str(programs.build("honest_loop"))
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    found = []
    for child in children:
        try:
            if os.readlink(f"/proc/{child}/exe") == name:
                found.append(int(child))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_program_does_not_outlive_it(number: signal.Signals, endless: Path) -> None:
    process = subprocess.Popen([*GDBRR, "replay", "--quiet", endless], cwd=ROOT, start_new_session=True)
    try:
        deadline = time.monotonic() + 30
        while not program_of(process.pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        (pid,) = program_of(process.pid)
        process.send_signal(number)
        assert process.wait(timeout=30) == -number
        while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not Path(f"/proc/{pid}").exists()
    finally:
        end_session(process.pid)


def test_progress_is_shown_on_a_terminal_and_goes_away(endless: Path) -> None:
    with Terminal(*GDBRR, "replay", "--quiet", endless) as terminal:
        terminal.wait_for("gdbrr: replaying, tick 3 of ")
        terminal.type("\x03")
        assert terminal.wait() == 130
        assert terminal.seen.replace(b"^C", b"").endswith(b"\r\033[K")


def test_progress_stays_out_of_files(endless: Path) -> None:
    process = subprocess.Popen(
        [*GDBRR, "replay", "--quiet", endless], cwd=ROOT, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        while not program_of(process.pid):
            time.sleep(0.01)
        time.sleep(2.5)  # on a terminal it would be shown by then
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30)[1] == b""
        assert process.returncode == 130
    finally:
        end_session(process.pid)


def test_progress_stays_out_of_the_programs_output(endless: Path) -> None:
    """On a terminal that shows both, the bytes are the program's alone."""
    with Terminal(*GDBRR, "replay", endless) as terminal:
        while not program_of(terminal.pid):
            time.sleep(0.01)
        time.sleep(2.5)  # on a terminal of its own it would be shown by then
        terminal.type("\x03")
        assert terminal.wait() == 130
        assert terminal.seen in (b"", b"^C")


def test_nothing_is_left_after_a_desynchronised_one(flood: Path, tmp_path: Path) -> None:
    def change(ops: list[Op]) -> list[Op]:
        ops[5].kind = lib.GR_OP_MUTEX_LOCK
        return ops

    altered = alter(flood, tmp_path / "altered.demo", change)
    place = tmp_path / "tmp"
    place.mkdir()
    run(*GDBRR, "replay", altered, cwd=ROOT, env={"TMPDIR": str(place)}).expect(125)
    assert not list(place.iterdir())


def test_a_limit_of_file_sizes_is_said(flood: Path) -> None:
    """What a replay says stands in a file in memory, which the limit (`ulimit -f`) is for as well."""
    result = run("prlimit", "--fsize=1048576", *GDBRR, "replay", flood, cwd=ROOT).expect(1)
    assert result.out == "" and result.err.count("\n") == 1
    assert result.err.endswith(": File too large. Raise the limit of files (`ulimit -f unlimited`)\n")
