"""`gdbrr record` and `gdbrr replay`: as if alone, then the same again."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gdbrr.demo import seal
from gdbrr.demo.reader import Demo
from gdbrr.demo.writer import Writer
from gdbrr.files import draft
from gdbrr.launch import host, own
from harness import ROOT, programs
from harness.run import gdbrr

LINE = re.compile(r"gdbrr: recorded [\d,]+ operations? of (\d+) threads? in (\d+) epochs? to (\S+) \([\d.]+ \w+\)\n\Z")
ENV = {**os.environ, "PYTHONPATH": str(ROOT)}
GDBRR = [sys.executable, "-m", "gdbrr"]


@pytest.fixture(scope="module")
def two_threads() -> Path:
    return programs.build("two_threads")


def test_records_as_if_alone_and_replays_the_same(two_threads: Path, tmp_path: Path) -> None:
    recorded = gdbrr("record", two_threads, cwd=tmp_path).expect(7)
    line = LINE.match(recorded.err)
    assert line
    assert line.groups() == ("3", "1", "two_threads-1.demo")
    assert [path.name for path in tmp_path.iterdir()] == ["two_threads-1.demo"]
    replayed = gdbrr("replay", "two_threads-1.demo", cwd=tmp_path).expect(7)
    assert replayed.out == recorded.out
    assert replayed.err == ""
    assert gdbrr("replay", "--quiet", "two_threads-1.demo", cwd=tmp_path).expect(7).out == ""


def test_two_recordings_differ(two_threads: Path, tmp_path: Path) -> None:
    # The negative control: without a demo, the program's output is another one each time.
    outputs = {gdbrr("record", two_threads, cwd=tmp_path).expect(7).out for _ in range(3)}
    assert len(outputs) > 1
    assert len(list(tmp_path.glob("two_threads-[123].demo"))) == 3


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["/bin/echo", "--", "a"], "-- a"),
        (["--", "/bin/echo", "--", "a"], "-- a"),
        (["-o", "x.demo", "/bin/echo", "-o", "y", "--help"], "-o y --help"),
        (["-o", "x.demo", "--set", "time=record", "--", "/bin/echo", "--set", "", "b"], "--set  b"),
    ],
)
def test_arguments_are_handed_over_as_they_are(words: list[str], printed: str, tmp_path: Path) -> None:
    assert gdbrr("record", *words, cwd=tmp_path).expect(0).out == printed + "\n"


def test_no_program() -> None:
    assert "no program is named" in gdbrr("record").expect(2).err
    assert "no program is named" in gdbrr("record", "-o", "x.demo", "--").expect(2).err


def test_program_killed_by_a_signal(two_threads: Path, tmp_path: Path) -> None:
    recorded = gdbrr("record", "-o", "x.demo", two_threads, "crash", cwd=tmp_path).expect(134)
    done = gdbrr("replay", "--quiet", "--json", "x.demo", cwd=tmp_path).expect(134)
    report = json.loads(done.out)
    assert (report["synchronised"], report["status"], report["ticks"]) == (True, 134, report["of"])
    assert gdbrr("replay", "x.demo", cwd=tmp_path).expect(134).out == recorded.out
    assert not list(tmp_path.glob("core*"))


def test_manifest_says_what_was_recorded(two_threads: Path, tmp_path: Path) -> None:
    gdbrr("record", "-o", "x.demo", "--set", "epochs.ticks=50", two_threads, "a b", cwd=tmp_path, env={"SEEN": "yes"})
    with Demo.open(tmp_path / "x.demo") as demo:
        manifest = demo.manifest
        assert manifest["program"] == str(two_threads)
        assert manifest["argv"] == [str(two_threads), "a b"]
        assert "SEEN=yes" in manifest["env"]
        assert not any(entry.startswith("LD_PRELOAD") for entry in manifest["env"])
        assert manifest["cwd"] == str(tmp_path)
        assert manifest["end"] == {"kind": "signal", "value": signal.SIGABRT}
        objects = {Path(row["path"]).name: row for row in manifest["objects"]}
        assert set(objects["two_threads"]["build_id"]) <= set("0123456789abcdef")
        assert len(demo.epochs) > 2


def test_program_that_is_not_there(tmp_path: Path) -> None:
    done = gdbrr("record", "./nothing", cwd=tmp_path).expect(127)
    assert done.err == "gdbrr record: ./nothing: no such program. Check the path\n"
    assert list(tmp_path.iterdir()) == []


def test_program_that_nobody_may_execute(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("text")
    assert gdbrr("record", "./text", cwd=tmp_path).expect(126).err.startswith("gdbrr record: ./text: permission denied")
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


def test_output_is_not_lost_over_an_unfinished_recording(two_threads: Path, tmp_path: Path) -> None:
    (tmp_path / "x.demo.recording").mkdir()
    done = gdbrr("record", "-o", "x.demo", two_threads, cwd=tmp_path).expect(1)
    assert "x.demo.recording is in the way" in done.err


def test_recording_stops_at_its_size_limit_and_keeps_what_it_has(tmp_path: Path) -> None:
    words = ["-o", "x.demo", "--set", "limits.log=1M", "--", "/bin/cat", "/dev/zero"]
    with open(tmp_path / "out", "wb") as out:
        done = subprocess.run(
            [*GDBRR, "record", *words], cwd=tmp_path, env=ENV, stdin=subprocess.DEVNULL, stdout=out,
            stderr=subprocess.PIPE, timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert b"the log has reached its limit" in done.stderr
    with Demo.open(tmp_path / "x.demo") as demo:
        assert demo.ticks > 4


def _start(*words: str | Path, cwd: Path) -> tuple[subprocess.Popen[bytes], int]:
    """`gdbrr record` and its program, once that has printed `ready` and waits for a line."""
    process = subprocess.Popen(
        [*GDBRR, "record", "-o", "x.demo", *words], cwd=cwd, env=ENV, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert process.stdout
    assert process.stdout.readline() == b"ready\n"
    while True:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for child in children:
            if len(children) == 1 and Path(f"/proc/{child}/syscall").read_text().startswith("0 0x0 "):
                return process, int(child)
        time.sleep(0.001)


def _rest(process: subprocess.Popen[bytes]) -> tuple[int, bytes, bytes]:
    """Status and output. Its input stays open until the output has ended: an end of input would be an answer too."""
    assert process.stdout
    out = process.stdout.read()
    _, err = process.communicate(timeout=30)
    return process.returncode, out, err


SHELL = "trap 'echo got it; exit 3' TERM INT; echo ready; read line"


def test_sigterm_goes_to_the_program(tmp_path: Path) -> None:
    process, _ = _start("/bin/sh", "-c", SHELL, cwd=tmp_path)
    process.terminate()
    status, out, err = _rest(process)
    assert (status, out) == (3, b"got it\n"), err
    assert LINE.match(err.decode())


def test_interrupt_of_the_terminal_is_the_programs(tmp_path: Path) -> None:
    process, _ = _start("/bin/sh", "-c", SHELL, cwd=tmp_path)
    os.killpg(process.pid, signal.SIGINT)
    status, out, err = _rest(process)
    assert (status, out) == (3, b"got it\n"), err


def test_recording_survives_the_death_of_its_controller(tmp_path: Path) -> None:
    process, program = _start("/bin/sh", "-c", "echo ready; read line; echo more; exit 5", cwd=tmp_path)
    watched = os.pidfd_open(program)
    process.kill()
    assert process.wait(30) == -signal.SIGKILL
    assert process.stdin
    assert process.stdout
    process.stdin.write(b"line\n")
    process.stdin.flush()
    assert process.stdout.read() == b"more\n"
    poll = select.poll()
    poll.register(watched, select.POLLIN)
    assert poll.poll(30_000)
    os.close(watched)
    process.communicate()
    # As it would be if the controller had been about to note what is mapped.
    (tmp_path / "x.demo.recording" / ".manifest.json.0123456789abcdef").write_text("{")
    done = gdbrr("replay", "x.demo.recording", cwd=tmp_path).expect(0)
    assert done.out == "ready\nmore\n"
    assert "it is in x.demo now" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["x.demo"]


def test_recording_that_goes_on_is_not_packed_away(tmp_path: Path) -> None:
    process, program = _start("/bin/sh", "-c", "echo ready; read line", cwd=tmp_path)
    done = gdbrr("replay", "x.demo.recording", cwd=tmp_path).expect(1)
    assert "still being written by process" in done.err
    assert str(program) in done.err
    process.communicate()
    assert process.returncode == 1
    gdbrr("replay", "x.demo", cwd=tmp_path).expect(1)


def test_program_sees_its_terminal(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    words = [*GDBRR, "record", "-o", "x.demo", "/bin/sh", "-c", "test -t 0 && test -t 1 && echo terminal; exit 6"]
    process = subprocess.Popen(words, cwd=tmp_path, env=ENV, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE)
    os.close(theirs)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 6, err
    assert os.read(ours, 100) == b"terminal\r\n"
    os.close(ours)
    assert gdbrr("replay", "x.demo", cwd=tmp_path).expect(6).out == "terminal\n"


# ---------------------------------------------------------------- replays that are refused, or go wrong


def test_missing_program_is_named(two_threads: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copy(two_threads, tmp_path / "copy"))
    gdbrr("record", "-o", "x.demo", copy, cwd=tmp_path).expect(7)
    wanted = host.build_id(copy)
    copy.unlink()
    assert len(wanted) == 40
    for words in (("replay", "x.demo"), ("debug", "x.demo", "--", "-nx", "-batch")):
        said = gdbrr(*words, cwd=tmp_path).err
        assert f"{copy}, which the demo was recorded from, is not here. Put it back: that of build-id {wanted}" in said
    gdbrr("replay", "x.demo", cwd=tmp_path).expect(1)


SOURCE = """
#include <stdio.h>
#include <time.h>
int main(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return %s;
}
"""


def _compile(tmp_path: Path, result: str) -> Path:
    source, program = tmp_path / "changing.c", tmp_path / "changing"
    source.write_text(SOURCE % result)
    subprocess.run(["gcc", "-g", "-Wl,--build-id", "-o", program, source], check=True, stdin=subprocess.DEVNULL)
    return program


def test_changed_program_is_desynchronised_and_the_report_says_why(tmp_path: Path) -> None:
    program = _compile(tmp_path, "0")
    gdbrr("record", "-o", "x.demo", program, cwd=tmp_path).expect(0)
    _compile(tmp_path, 'puts("something else") < 0')
    done = gdbrr("replay", "x.demo", cwd=tmp_path).expect(125)
    assert done.err.startswith("gdbrr replay: x.demo is desynchronised at tick ")
    assert "in thread 0" in done.err
    assert f"not as recorded   {program}" in done.err
    assert "was rebuilt or updated since the recording" in done.err
    assert "gdbrr events x.demo --thread 0 --from " in done.err
    report = json.loads(gdbrr("replay", "--json", "--quiet", "x.demo", cwd=tmp_path).expect(125).out)
    assert report["synchronised"] is False
    assert report["objects_that_differ"] == [str(program)]
    assert report["demo_holds"] != report["program_did"]


def test_other_exit_status_is_not_synchronised(tmp_path: Path) -> None:
    program = _compile(tmp_path, "0")
    gdbrr("record", "-o", "x.demo", program, cwd=tmp_path).expect(0)
    _compile(tmp_path, "1")
    gdbrr("replay", "x.demo", cwd=tmp_path).expect(125)


def _edited(tmp_path: Path, demo: Path, own_key: bool = True, **changes: object) -> Path:
    """The same demo with another manifest; without OWN_KEY as somebody else would make it."""
    edited = tmp_path / "edited.demo"
    with Demo.open(demo) as source, draft(edited) as file:
        writer = Writer(file, {**source.manifest, **changes})
        for thread in range(len(source.threads)):
            for number in source.stream_blocks(thread)[0]:
                block = source.block(number)
                writer.stream(thread, source.raw(number), block.items, block.base, block.first, block.last)
        for which in range(source.order_blocks):
            _, runs, positions = source.order(which)
            writer.order(runs.tobytes(), sum(runs[1::2]), positions.tobytes())
        writer.finish([(row.start, row.bytes, None) for row in source.epochs])
        if own_key:
            seal.put(file, own.key() or b"")
    return edited


def test_demo_of_somebody_else_needs_trust(two_threads: Path, tmp_path: Path) -> None:
    gdbrr("record", "-o", "x.demo", two_threads, cwd=tmp_path).expect(7)
    foreign = _edited(tmp_path, tmp_path / "x.demo", own_key=False)
    done = gdbrr("replay", foreign).expect(1)
    assert str(two_threads) in done.err
    assert "executed natively: " in done.err
    assert "--trust" in done.err
    gdbrr("replay", "--trust", foreign).expect(7)


def test_a_library_that_is_not_found_is_no_recording_and_no_replay(tmp_path: Path) -> None:
    directory = tmp_path / "lib"
    directory.mkdir()
    (tmp_path / "f.c").write_text("int f(void) { return 5; }\n")
    (tmp_path / "main.c").write_text("int f(void);\nint main(void) { return f(); }\n")
    for words in (["-shared", "-fPIC", "-o", "lib/libf.so", "f.c"], ["-o", "uses_f", "main.c", "-Llib", "-lf"]):
        subprocess.run(["gcc", *words], cwd=tmp_path, check=True, stdin=subprocess.DEVNULL)
    alone = gdbrr("record", "-o", "x.demo", "./uses_f", cwd=tmp_path).expect(127)
    assert "before the engine started, so nothing was recorded" in alone.err
    assert not list(tmp_path.glob("*.demo*"))
    gdbrr("record", "-o", "x.demo", "./uses_f", cwd=tmp_path, env={"LD_LIBRARY_PATH": str(directory)}).expect(5)
    gdbrr("replay", "x.demo", cwd=tmp_path).expect(5)
    elsewhere = _edited(tmp_path, tmp_path / "x.demo", env=[f"LD_ORIGIN_PATH={directory}"])
    done = gdbrr("replay", elsewhere, cwd=tmp_path).expect(125)
    assert "LD_ORIGIN_PATH, set while recording, is not honoured from a demo" in done.err
    assert "look closer       ldd " in done.err


def test_loader_variables_of_a_demo_are_not_honoured(two_threads: Path, tmp_path: Path) -> None:
    env = {"LD_DEBUG_OUTPUT": str(tmp_path / "debug"), "LD_DEBUG": "libs"}
    subprocess.run(
        [*GDBRR, "record", "-o", "x.demo", two_threads], cwd=tmp_path, env=ENV, check=False, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    with Demo.open(tmp_path / "x.demo") as demo:
        before = demo.manifest["env"]
    changed = _edited(tmp_path, tmp_path / "x.demo", env=[*before, *(f"{k}={v}" for k, v in env.items())])
    gdbrr("replay", changed)
    assert not list(tmp_path.glob("debug*"))
    preload = _edited(tmp_path, tmp_path / "x.demo", env=[*before, "LD_PRELOAD=/tmp/evil.so"])
    assert "/tmp/evil.so, which LD_PRELOAD of the demo names, is none of" in gdbrr("replay", preload).expect(1).err
    audit = _edited(tmp_path, tmp_path / "x.demo", env=[*before, "LD_AUDIT=/tmp/evil.so"])
    assert "recording was made with LD_AUDIT" in gdbrr("replay", audit).expect(1).err
    refused = gdbrr("record", two_threads, cwd=tmp_path, env={"LD_AUDIT": "/tmp/no-such.so"}).expect(1)
    assert "a program with LD_AUDIT cannot be recorded" in refused.err
