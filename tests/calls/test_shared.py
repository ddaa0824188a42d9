"""Files mapped to be shared that other processes write: refused where that can be seen, told where it shows later.

Runs in: pytest. May call: gdbrr record, gdbrr replay; a process of its own that writes.
Owns: the row of docs/determinism.md that names it.
"""

from __future__ import annotations

import json
import mmap
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from calls.test_programs import GDBRR, build
from harness.run import Result, run

NOTICE = "memory shared with another process"
WRITER = """
import mmap, os, sys, time
path, how, told, go = sys.argv[1:]
file = open(path, "r+b")
view = mmap.mmap(file.fileno(), 0) if how == "mapped" else None
if how == "mapped":
    file.close()
print("ready", flush=True)
sys.stdin.read()
"""
COMES = """
import mmap, sys, time
file = open(sys.argv[1], "r+b")
view = mmap.mmap(file.fileno(), 0)
time.sleep(1.2)  # mappings that lived for less than a second are not looked at again
open(sys.argv[2], "w").write("go")
time.sleep(60)
"""
AFTER = """
read x < "$3"
case $2 in
map) exec "$5" -S -c "$6" "$1" "$4" ;;
write) printf other | dd of="$1" conv=notrunc status=none ;;
esac
echo go > "$4"
"""


@pytest.fixture(params=["disk", "memory"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "shared" if request.param == "disk" else Path(f"/dev/shm/gdbrr-test-{os.getpid()}")
    path.write_bytes(b"first".ljust(8192, b"."))
    os.utime(path, (1, 1))
    yield path
    path.unlink()


def record(file: Path, how: str, after: str, tmp_path: Path, *more: str) -> Result:
    """Record calls_shared; when it has mapped FILE, another process does AFTER to it."""
    pipes = [tmp_path / "told", tmp_path / "go"]
    for pipe in pipes:
        os.mkfifo(pipe)
    words = ("/bin/sh", "-c", AFTER, "sh", str(file), after, *map(str, pipes), sys.executable, COMES)
    with subprocess.Popen(words, start_new_session=True) as other:
        try:
            demo = tmp_path / "x.demo"
            return run(*GDBRR, "record", *more, "-o", demo, "--", build("calls_shared"), file, how, *pipes)
        finally:
            other.kill()


@pytest.fixture
def writer(file: Path, request: pytest.FixtureRequest) -> Iterator[int]:
    words = (sys.executable, "-S", "-c", WRITER, str(file), request.param, "", "")
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
        process.stdin.close()


@pytest.mark.parametrize("how", ["read", "write"])
@pytest.mark.parametrize("writer", ["mapped", "open"], indirect=True)
def test_memory_that_another_process_can_write_is_refused(
    file: Path, how: str, writer: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    result = record(file, how, "nothing", tmp_path)
    kind = request.node.callspec.params["writer"]
    assert f"{NOTICE}: {file}, which pid {writer} has {kind} for writing" in result.err, result.describe()
    assert result.status == 1 and not result.out and not (tmp_path / "x.demo").exists()


@pytest.mark.parametrize("how", ["read", "exit", "part"])
def test_a_change_from_outside_is_told(how: str, file: Path, tmp_path: Path) -> None:
    """At the end of the recording, by info and by each replay, also as a field for scripts."""
    demo = tmp_path / "x.demo"
    first = record(file, how, "write", tmp_path).expect(0)
    said = f"{NOTICE}: {file} was changed from outside while it was mapped"
    assert first.out.startswith("first ") and first.out.endswith("\nother\n")
    assert first.err.count(f"gdbrr: {said}") == 1
    again = run(*GDBRR, "replay", demo).expect(125)
    assert f"likely causes     1. {said}" in again.err and again.err.count(said) == 1
    assert run(*GDBRR, "info", demo).out.count(NOTICE) == 1
    assert NOTICE in json.loads(run(*GDBRR, "replay", "--json", "--quiet", demo).out)["notices"][0]


def test_a_writer_that_came_later_is_named(file: Path, tmp_path: Path) -> None:
    first = record(file, "write", "map", tmp_path).expect(0)
    assert f"gdbrr: {NOTICE}: {file}, which pid " in first.err and "has mapped for writing by now" in first.err


def test_a_native_file_that_changes_meanwhile_is_told(file: Path, tmp_path: Path) -> None:
    first = record(file, "read", "write", tmp_path, "--set", "file=native").expect(0)
    assert f"{file} was changed from outside" in first.err


@pytest.mark.parametrize("how", ["read", "exit", "part", "write", "self"])
def test_control_what_nobody_else_writes_is_no_reason(how: str, file: Path, tmp_path: Path) -> None:
    """Neither a mapping that is only read nor the program's own changes."""
    demo = tmp_path / "x.demo"
    first = record(file, how, "nothing", tmp_path).expect(0)
    assert NOTICE not in first.err
    again = run(*GDBRR, "replay", demo).expect(0)
    assert (again.out, again.err) == (first.out, "")


def test_memory_that_was_passed_in_is_refused(tmp_path: Path) -> None:
    """It has no name in any file system, and its writer is the process that started the recording."""
    here, there = socket.socketpair()
    memory = os.memfd_create("passed")
    os.truncate(memory, 8192)
    program = [str(build("calls_shared")), "-", "passed", "-", "-"]
    words = [*GDBRR, "record", "-o", str(tmp_path / "x.demo"), "--", *program]
    with here, there, mmap.mmap(memory, 8192):
        socket.send_fds(here, [b"x"], [memory])
        os.close(memory)
        done = subprocess.run(words, stdin=there, capture_output=True, text=True, check=False, timeout=60)
    assert f"{NOTICE}: /memfd:passed (deleted), which pid {os.getpid()} has mapped for writing" in done.stderr
