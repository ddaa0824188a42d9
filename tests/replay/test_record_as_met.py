"""`gdbrr record` as a user meets it: places, refusals, statuses, keys, signals.

Runs in: pytest. May call: gdbrr record, gdbrr replay, a terminal.
Owns: nothing.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gdbrr.demo.reader import Demo
from harness import ROOT, programs
from harness.run import end_session, gdbrr, run
from harness.terminal import Terminal

GDBRR = (sys.executable, "-m", "gdbrr")


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["-o", "no/where/x.demo", "true"], 1, "there is no directory no/where. Make it with mkdir -p no/where"),
        (["-o", "/proc/x.demo", "true"], 1, "/proc cannot be written"),
        (["-o", ".", "true"], 1, ". is a directory. Name the demo's file with -o"),
        (["-o", "main.c", "true"], 1, "main.c is there already and is no demo"),
        (["-o", "/dev/null", "true"], 1, "/dev/null is there already and is no demo"),
        (["nosuchprogram"], 127, "nosuchprogram: no such program"),
        (["./nosuchprogram"], 127, "./nosuchprogram: no such program"),
        (["./main.c"], 126, "./main.c: permission denied"),
        (["./script"], 126, "./script is not in a format that the kernel can run"),
        (["/tmp"], 126, "/tmp is a directory"),
        ([], 2, "no program is named. Try: gdbrr record --help"),
        (["--nope", "true"], 2, "there is no option --nope. Try: gdbrr record --help"),
        (["--set", "time", "true"], 1, "--set time: this is not CLASS=MODE"),
        (["--set", "time=never", "true"], 1, "'never' is not a mode"),
        (["-p", "nosuchprofile", "true"], 1, "there is no profile 'nosuchprofile'"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(words: list[str], status: int, says: str, tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text("int main;")
    (tmp_path / "script").write_text("no first line")
    (tmp_path / "script").chmod(0o755)
    before = sorted(tmp_path.iterdir())
    result = gdbrr("record", *words, cwd=tmp_path).expect(status)
    assert result.err.startswith("gdbrr record: ") and result.err.count("\n") == 1 and says in result.err
    assert result.out == "" and sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "main.c").read_text() == "int main;" and Path("/dev/null").is_char_device()


def test_an_older_demo_is_replaced(tmp_path: Path) -> None:
    for status in (3, 4):
        gdbrr("record", "-o", "x.demo", "sh", "-c", f"exit {status}", cwd=tmp_path).expect(status)
    with Demo.open(tmp_path / "x.demo") as demo:
        assert demo.end.value == 4
    assert [path.name for path in tmp_path.iterdir()] == ["x.demo"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_signal_that_ends_it_is_the_status(number: signal.Signals, tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    gdbrr("record", "-o", demo, "sh", "-c", f"kill -{number.value} $$").expect(128 + number)
    gdbrr("replay", demo).expect(128 + number)


def test_the_last_line_counts_what_the_demo_holds(tmp_path: Path) -> None:
    result = gdbrr("record", "-o", "x.demo", programs.build("spine"), cwd=tmp_path).expect(0)
    with Demo.open(tmp_path / "x.demo") as demo:
        size = f"{(tmp_path / 'x.demo').stat().st_size / 1000:.1f} kB"
        said = f"gdbrr: recorded {demo.ticks:,} operations of 3 threads in 1 epoch to x.demo ({size})\n"
        assert result.err == said


def test_standard_input_is_the_programs(tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    first = run(*GDBRR, "record", "-o", demo, "cat", stdin=b"typed\n", cwd=ROOT).expect(0)
    assert first.out == "typed\n"
    assert run(*GDBRR, "replay", demo, stdin=b"something else\n", cwd=ROOT).expect(0).out == "typed\n"


def test_options_reach_the_manifest(tmp_path: Path) -> None:
    words = ["-p", "sparse", "--set", "time=native", "--set", "epochs.ticks=64"]
    gdbrr("record", "-o", "x.demo", *words, programs.build("spine"), cwd=tmp_path).expect(0)
    with Demo.open(tmp_path / "x.demo") as demo:
        values = demo.manifest["profile"]["values"]
        assert demo.manifest["profile"]["name"] == "sparse" and values["epochs.ticks"]["value"] == 64
        assert len(demo.epochs) > 1


def test_interrupt_goes_to_the_program(tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    with Terminal(*GDBRR, "record", "-o", demo, programs.build("honest_nap"), cwd=tmp_path) as terminal:
        terminal.wait_for("asleep in process")
        terminal.type("\x03")
        assert terminal.wait() == 130
    assert b"gdbrr: recorded" in terminal.seen and b"Traceback" not in terminal.seen
    with Demo.open(demo) as opened:
        assert (opened.end.kind, opened.end.value) == ("signal", signal.SIGINT)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_recorder_is_handed_on(number: signal.Signals, tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    program = programs.build("honest_nap")
    words = [*GDBRR, "record", "-o", demo, program]
    before = signal.signal(number, signal.SIG_DFL)  # below `nohup`, a hangup is ignored by all
    try:
        recorder = subprocess.Popen(
            words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
    finally:
        signal.signal(number, before)
    try:
        assert recorder.stdout and b"asleep" in recorder.stdout.readline()
        os.kill(recorder.pid, number)
        _, err = recorder.communicate(timeout=30)
    finally:
        end_session(recorder.pid)
        recorder.communicate()
    assert recorder.returncode == 128 + number and err.startswith(b"gdbrr: recorded ")
    with Demo.open(demo) as opened:
        assert (opened.end.kind, opened.end.value) == ("signal", number)


def test_a_terminal_program_has_the_terminal(tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    with Terminal(*GDBRR, "record", "-o", demo, programs.build("honest_keys"), size=(20, 70), cwd=tmp_path) as terminal:
        terminal.wait_for("ready")
        terminal.type("a")
        terminal.wait_for("key a at 20 by 70")
        terminal.resize(33, 111)
        terminal.type("b")
        terminal.wait_for("key b at 33 by 111")
        terminal.type("q")
        assert terminal.wait() == 5
        assert terminal.settings() == terminal.before
    with Terminal(*GDBRR, "replay", demo, size=(24, 80), cwd=tmp_path) as again:
        assert again.wait() == 5
        assert again.settings() == again.before
    assert again.seen == terminal.seen[: terminal.seen.index(b"gdbrr: recorded")]
    # A terminal puts a carriage return in front of every line feed, a pipe does not.
    piped = run(*GDBRR, "replay", demo, cwd=ROOT).expect(5).out
    assert piped.replace("\n", "\r\n").encode() == again.seen
