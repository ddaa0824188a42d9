"""What is left when something is killed, or when there is no room: a demo that is true as far as it goes.

Runs in: pytest. May call: gdbrr record, gdbrr recover, gdbrr replay; unshare and mount where they are allowed.
Owns: the rows of docs/determinism.md that name it.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gdbrr.abi import lib
from gdbrr.config import profiles
from gdbrr.demo.reader import Demo
from gdbrr.errors import GdbrrError
from gdbrr.launch import engine, record, recover, replay
from harness import programs
from harness.run import Result, run

GDBRR = (sys.executable, "-m", "gdbrr")
KILLS = 100
FULL = 30
SECONDS = 40.0


@contextmanager
def output_to(path: Path) -> Iterator[None]:
    """Descriptor 1 of this process, which the processes of a replay inherit."""
    kept = os.dup(1)
    with open(path, "wb") as file:
        os.dup2(file.fileno(), 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def killed_recording(place: Path, number: int, seconds: float) -> tuple[Path, bytes]:
    """A demo of a program that was killed after SECONDS, and what it had printed."""
    program = programs.build("busy")
    profile = profiles.resolve(None, program, [])
    request = record.Request([str(program)], dict(os.environ), str(place), profile, engine.find())
    demo = place / f"{number}.demo"
    recording = record.Recording(request, record.recording_of(demo))
    with open(place / "out", "wb") as out, open(os.devnull, "r+b") as nothing:
        pid = recording.start(stdio=(nothing.fileno(), out.fileno(), nothing.fileno()))
        time.sleep(seconds)
        os.kill(pid, signal.SIGKILL)
        recording.end(os.waitpid(pid, 0)[1])
    recording.pack(demo)
    recording.remove()
    return demo, (place / "out").read_bytes()


@pytest.mark.limit(300)
def test_a_program_killed_at_any_point_leaves_a_demo_that_replays(tmp_path: Path) -> None:
    rng = random.Random(time.time_ns())
    begun = time.monotonic()
    printed = 0
    for number in range(KILLS):
        seconds = rng.uniform(0, 0.05)
        demo, out = killed_recording(tmp_path, number, seconds)
        with Demo.open(demo) as opened, output_to(tmp_path / "replayed"):
            assert opened.damage is None
            outcome = replay.run(opened)
        again = (tmp_path / "replayed").read_bytes()
        what = f"killed after {seconds:.4f} s, {outcome}"
        assert outcome.synchronised, what
        assert outcome.status == 128 + signal.SIGKILL, what
        assert out.startswith(again), what
        # At most one write of each thread had happened and was not logged yet.
        assert out.count(b"\n") - again.count(b"\n") <= 2, what
        printed += len(again)
        demo.unlink()
    assert printed, "every program was killed before it began"
    print(f"{KILLS} kills in {time.monotonic() - begun:.1f} s of {SECONDS:g}")


# ---------------------------------------------------------------- the recorder is killed
def killed_recorder(tmp_path: Path, rounds: int, drained: int = 0) -> Path:
    """A recording directory whose recorder is gone, while the program goes on for ROUNDS; it took out so many bytes."""
    demo = tmp_path / "x.demo"
    words = [*GDBRR, "record", "-o", demo, "--", programs.build("busy"), str(rounds)]
    with open(tmp_path / "out", "wb") as out:
        recorder = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.DEVNULL)
        # The launcher may still be there when the program prints already.
        while not (tmp_path / "out").stat().st_size or len(recover.users_of(record.recording_of(demo) / "ctl")) > 2:
            assert recorder.poll() is None
            time.sleep(0.001)
        taken = record.recording_of(demo) / "drained"
        while drained and (not taken.exists() or taken.stat().st_size < drained):
            assert recorder.poll() is None
            time.sleep(0.001)
        recorder.kill()
        recorder.wait()
    assert not demo.exists()
    return record.recording_of(demo)


def await_end(recording: Path) -> None:
    while recover.users_of(recording / "ctl"):
        time.sleep(0.01)


def test_a_recording_without_its_recorder_is_recovered(tmp_path: Path) -> None:
    recording = killed_recorder(tmp_path, 2000)
    await_end(recording)
    result = run(*GDBRR, "recover", recording).expect(0)
    assert "gdbrr: recorded " in result.err
    assert not recording.exists()
    # The program had gone on to its end, and all of it is in the log.
    assert run(*GDBRR, "replay", tmp_path / "x.demo").out.encode() == (tmp_path / "out").read_bytes()


@pytest.mark.parametrize("drained", [1, 2_000_000, 6_000_000])
def test_what_was_taken_out_of_the_log_is_recovered(drained: int, tmp_path: Path) -> None:
    recording = killed_recorder(tmp_path, 3000, drained)
    await_end(recording)
    run(*GDBRR, "recover", recording).expect(0)
    assert not recording.exists()
    assert run(*GDBRR, "replay", tmp_path / "x.demo").expect(0).out.encode() == (tmp_path / "out").read_bytes()


def test_a_recording_that_goes_on_is_not_recovered(tmp_path: Path) -> None:
    recording = killed_recorder(tmp_path, 0)
    users = recover.users_of(recording / "ctl")
    try:
        result = run(*GDBRR, "recover", recording).expect(1)
        assert f"is still being written by process {users[0]}" in result.err
    finally:
        os.kill(users[0], signal.SIGKILL)
    await_end(recording)
    run(*GDBRR, "recover", "--keep", recording).expect(0)
    assert recording.exists()
    again = run(*GDBRR, "replay", tmp_path / "x.demo")
    assert again.out
    assert (tmp_path / "out").read_text().startswith(again.out)


def test_a_folder_that_is_no_recording_is_not_replayed(tmp_path: Path) -> None:
    result = run(*GDBRR, "replay", tmp_path).expect(1)
    assert result.err == f"gdbrr replay: {tmp_path} is not a demo. Name a file that gdbrr record made\n"


@pytest.mark.parametrize(
    ("name", "why"), [("x", "is not called NAME.demo.recording"), ("y.demo.recording", "cannot be opened")]
)
def test_what_is_no_recording_is_not_recovered(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / name).mkdir()
    assert why in run(*GDBRR, "recover", tmp_path / name).expect(1).err


def test_a_demo_is_not_overwritten_by_recover(tmp_path: Path) -> None:
    (tmp_path / "x.demo").write_text("mine")
    (tmp_path / "x.demo.recording").mkdir()
    assert "is in the way" in run(*GDBRR, "recover", tmp_path / "x.demo.recording").expect(1).err
    assert (tmp_path / "x.demo").read_text() == "mine"


# ---------------------------------------------------------------- no room
def limited(tmp_path: Path, *options: str) -> tuple[Path, Result]:
    demo = tmp_path / "x.demo"
    words = ["record", "-o", demo, "--set", "limits.log=1M", *options, "--", programs.build("busy"), "1000"]
    return demo, run(*GDBRR, *words)


def prefix_of(demo: Path, out: str) -> str:
    """What a replay prints, which must be a true beginning of OUT."""
    again = run(*GDBRR, "replay", demo, "--json").expect(0)
    *lines, report = again.out.splitlines(keepends=True)
    assert json.loads(report)["synchronised"], again.describe()
    assert out.startswith("".join(lines))
    return "".join(lines)


def test_a_full_log_stops_the_program(tmp_path: Path) -> None:
    demo, result = limited(tmp_path)
    assert result.status == 1
    assert "the recording ended early: the log has reached its limit of 1048576 bytes" in result.err
    assert "end\n" not in result.out
    assert prefix_of(demo, result.out)


def test_threads_that_come_and_go_take_little_of_the_log(tmp_path: Path) -> None:
    program = programs.build("threads_ever")
    run(*GDBRR, "record", "-o", tmp_path / "x.demo", "--set", "limits.log=8M", "--", program, "1500").expect(0)


def test_more_threads_than_a_demo_holds_are_left_out(tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    result = run(*GDBRR, "record", "-o", demo, "--", programs.build("threads_ever"), "66000").expect(1)
    assert "the recording ended early: the log has reached its limit of 65535 threads" in result.err
    assert prefix_of(demo, result.out).endswith("65000\n")


def test_a_full_log_lets_the_program_go_on(tmp_path: Path) -> None:
    demo, result = limited(tmp_path, "--set", "limits.when_full=go_on")
    assert result.expect(7).out.endswith("end\n")
    assert result.out.count("\n") == 2001
    assert "the log was full; the program went on unrecorded" in result.err
    printed = prefix_of(demo, result.out)
    assert 0 < len(printed) < len(result.out)
    with Demo.open(demo) as opened:
        assert opened.end.kind == "unknown"


@pytest.mark.limit(300)
def test_threads_leave_a_full_log_wherever_they_are(tmp_path: Path) -> None:
    """INVARIANT(mode-is-for-good): an operation of another thread, under way when the log is full, ends as it began."""
    words = ["--set", "limits.log=1M", "--set", "limits.when_full=go_on", "--", programs.build("busy"), "400"]
    for _ in range(FULL):
        assert run(*GDBRR, "record", "-o", tmp_path / "x.demo", *words).expect(7).out.endswith("end\n")


def test_control_without_a_limit_all_of_it_is_recorded(tmp_path: Path) -> None:
    demo, result = limited(tmp_path, "--set", "limits.log=64M")
    assert run(*GDBRR, "replay", demo).expect(7).out == result.out


_ON_SMALL_DISK = """
mount -t tmpfs -o size=3m none "$1" && cd "$1" || exit 99
recovered=$2
shift 2
"$@"
status=$?
"$0" -m gdbrr recover -o "$recovered" x.demo.recording >&2 || exit 98
exit $status
"""


@pytest.mark.needs("private_mounts")
@pytest.mark.parametrize("when_full", ["stop", "go_on"])
def test_a_full_disk_is_no_sigbus(tmp_path: Path, when_full: str) -> None:
    (tmp_path / "disk").mkdir()
    demo = tmp_path / "x.demo"
    words = ["unshare", "-m", "sh", "-c", _ON_SMALL_DISK, sys.executable, tmp_path / "disk", demo]
    words += [*GDBRR, "record", "-o", "x.demo", "--set", f"limits.when_full={when_full}"]
    result = run(*words, "--", programs.build("busy"), "2000", env={"PYTHONPATH": os.pathsep.join(sys.path)}).expect(1)
    assert "No space left on device; the recording is kept in it. Make room, then: gdbrr recover" in result.err
    assert result.out.startswith("a ") or result.out.startswith("b ")
    assert result.out.endswith("end\n") == (when_full == "go_on"), result.describe()
    # Where there is room the rest is done, and the program's output is there up to where the log was full.
    assert 0 < len(prefix_of(demo, result.out)) < len(result.out) + (when_full == "stop")


@pytest.mark.needs("private_mounts")
def test_a_disk_that_is_full_before_is_said(tmp_path: Path) -> None:
    script = 'mount -t tmpfs -o size=256k none "$1" && cd "$1" || exit 99; shift; "$@"; status=$?; ls -A; exit $status'
    words = ["unshare", "-m", "sh", "-c", script, "sh", tmp_path, *GDBRR, "record", "-o", "x.demo", "--", "/bin/true"]
    result = run(*words, env={"PYTHONPATH": os.pathsep.join(sys.path)}).expect(1)
    assert "cannot be written: No space left on device" in result.err
    assert result.out == "", "something is left behind"


_REPLAY_ON_SMALL_DISK = 'mount -t tmpfs -o "size=$1" none "$2" && export TMPDIR="$2" || exit 99; shift 2; exec "$@"'


@pytest.mark.needs("private_mounts")
def test_a_replay_without_room_is_no_sigbus(tmp_path: Path) -> None:
    """INVARIANT(space-before-touch): its control page is on no disk, and its image is written before it is mapped."""
    demo, disk = tmp_path / "x.demo", tmp_path / "disk"
    disk.mkdir()
    first = run(*GDBRR, "record", "-o", demo, "--", programs.build("busy"), "100").expect(7)

    def on(pages: int) -> Result:
        words = ["unshare", "-m", "sh", "-c", _REPLAY_ON_SMALL_DISK, "sh", str(pages * 4096), disk]
        return run(*words, *GDBRR, "replay", demo, env={"PYTHONPATH": os.pathsep.join(sys.path)})

    refused = on(1).expect(1)
    need = re.search(r"has no room for (\d+) bytes", refused.err)
    assert need, refused.describe()
    enough = (int(need[1]) + 4095) // 4096
    for pages in range(enough, enough * 20 // 19 + 4):  # the image fits, and what is left to others, and little else
        again = on(pages)
        assert again.status == 7 or "has no room for" in again.err, again.describe()
        assert again.status == 1 or again.out == first.out
    assert again.status == 7


@pytest.mark.parametrize("verb", ["record", "replay"])
def test_without_a_free_descriptor_a_sentence_says_so_and_no_file_is_left(tmp_path: Path, verb: str) -> None:
    demo, scratch = tmp_path / "x.demo", tmp_path / "scratch"
    scratch.mkdir()
    run(*GDBRR, "record", "-o", demo, "--", "/bin/true").expect(0)
    words = [demo] if verb == "replay" else ["-o", scratch / "y.demo", "--", "/bin/true"]
    least = 4
    while run("prlimit", f"--nofile={least}", sys.executable, "-c", "import gdbrr.cli.main, traceback").status:
        least += 1  # an interpreter needs some by itself
    for limit in range(least, 14):
        done = run("prlimit", f"--nofile={limit}", *GDBRR, verb, *words, env={"TMPDIR": str(scratch)})
        assert done.status == 1 and f"gdbrr {verb}: " in done.err and "Traceback" not in done.err, done.describe()
        assert list(scratch.iterdir()) == [], f"with {limit} descriptors"


# ---------------------------------------------------------------- large operations
def test_an_operation_of_more_than_one_event_replays(tmp_path: Path) -> None:
    big = tmp_path / "big"
    with open(big, "wb") as file:
        for number in range(100):
            file.write(number.to_bytes(4, "little") * (1 << 18))
    code = f"d = open({str(big)!r}, 'rb', buffering=0).read(); print(len(d), hash(d) != 0, d[-4:], d[50 << 20])"
    demo = tmp_path / "x.demo"
    first = run(
        *GDBRR, "record", "--set", "engine.references=off", "-o", demo, "--", "/usr/bin/python3", "-c", code
    ).expect(0)
    with Demo.open(demo) as opened:
        assert sum(event.kind == lib.GR_OP_DATA for event in opened.events()) == 3
    big.unlink()
    assert run(*GDBRR, "replay", demo).expect(0).out == first.out


def test_users_of_a_file_that_is_gone(tmp_path: Path) -> None:
    assert recover.users_of(tmp_path / "none") == []
    with pytest.raises(GdbrrError):
        recover.demo_of(tmp_path / "x.demo")
