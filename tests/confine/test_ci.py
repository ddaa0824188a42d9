"""`gdbrr record` in a test run: a demo is kept only when it is worth it, and the program is never hindered.

Runs in: pytest. May call: gdbrr record, gdbrr replay, the sandbox.
Owns: nothing.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as Xml
from collections.abc import Iterator
from pathlib import Path

import pytest

from gdbrr.report import ci
from harness import programs, users
from harness.run import Result, gdbrr, run

ENDS = {
    "exit 0": (0, "passed"),
    "exit 3": (3, "failed"),
    "kill -TERM $$": (143, "failed"),
    "kill -SEGV $$": (139, "crashed"),
}
KEPT = {
    "always": {"passed", "failed", "crashed"},
    "failure": {"failed", "crashed"},
    "crash": {"crashed"},
    "never": set(),
}
LAST = re.compile(
    r"gdbrr: result=(passed|failed|crashed|stopped) (?:status=(\d+)|signal=(SIG\w+))"
    r" demo=(\S+)(?: replay='gdbrr replay (\S+)')?( recorded=no)?"
)


def last(done: Result) -> re.Match[str]:
    found = LAST.fullmatch(done.err.splitlines()[-1])
    assert found, done.describe()
    return found


@pytest.fixture
def place() -> Iterator[Path]:
    with users.place() as path:
        yield path


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("rule", KEPT)
def test_kept_only_then_and_nothing_else_is_left(rule: str, end: str, tmp_path: Path) -> None:
    status, result = ENDS[end]
    done = gdbrr("record", "--save-on", rule, "-o", "x.demo", "/bin/sh", "-c", f"echo out; {end}", cwd=tmp_path)
    assert done.expect(status).out == "out\n"
    line = last(done)
    assert line[1] == result
    assert line[3] == {143: "SIGTERM", 139: "SIGSEGV"}.get(status) and line[2] == (None if line[3] else str(status))
    demo = tmp_path / "x.demo"
    if result in KEPT[rule]:
        assert os.listdir(tmp_path) == ["x.demo"]
        assert line[4] == line[5] == str(demo)
        assert done.err.splitlines()[-2] == f"[[ATTACHMENT|{demo}]]"
        assert gdbrr("replay", demo).expect(status).out == "out\n"
    else:
        assert os.listdir(tmp_path) == []
        assert (line[4], line[5]) == ("none", None)
        assert len(done.err.splitlines()) == 1


def test_without_the_option_the_line_is_the_one_it_was(tmp_path: Path) -> None:
    done = gdbrr("record", "-o", "x.demo", "/bin/true", cwd=tmp_path).expect(0)
    assert len(done.err.splitlines()) == 1 and done.err.startswith("gdbrr: recorded ")


@pytest.mark.parametrize("end", ENDS)
def test_junit_file(end: str, tmp_path: Path) -> None:
    words = ("--save-on", "failure", "--junit", "j.xml", "-o", "x.demo", "/bin/sh", "-c", f'{end} # <&"\x1b')
    done = gdbrr("record", *words, cwd=tmp_path).expect(ENDS[end][0])
    suite = Xml.parse(tmp_path / "j.xml").getroot()[0]
    failed, crashed = ENDS[end][1] == "failed", ENDS[end][1] == "crashed"
    assert suite.get("tests") == "1"
    assert (suite.get("failures"), suite.get("errors")) == (str(int(failed)), str(int(crashed)))
    (case,) = suite
    assert case.get("name") == f'/bin/sh -c {end} # <&"\\x1b'
    assert [child.tag for child in case] == ["failure", "system-out"] * failed + ["error", "system-out"] * crashed
    if failed or crashed:
        attached, line = str(case.findtext("system-out")).splitlines()
        assert attached == f"[[ATTACHMENT|{tmp_path / 'x.demo'}]]"
        assert line == done.err.splitlines()[-1]


def test_a_junit_file_that_cannot_be_written_changes_nothing_else(tmp_path: Path) -> None:
    done = gdbrr("record", "--junit", "none/j.xml", "-o", "x.demo", "/bin/sh", "-c", "exit 4", cwd=tmp_path).expect(4)
    assert "none/j.xml cannot be written" in done.err
    assert last(done)[4] == str(tmp_path / "x.demo")


@pytest.mark.parametrize("user", ["root", pytest.param("ordinary", marks=pytest.mark.needs("ordinary_user"))])
@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("docker", "address space randomisation cannot be switched off here"),
        ("ptrace", "ptrace is not allowed here"),
        ("dispatch", "a kernel without Syscall User Dispatch"),
    ],
)
def test_where_nothing_can_be_recorded_it_runs_without(rule: str, why: str, user: str, place: Path) -> None:
    """Once, to its end, with its own status; the control is test_below_a_filter_recording_is_refused."""
    words = ("record", "--save-on", "crash", "-o", place / "x.demo", "/bin/sh", "-c", "echo once; kill -SEGV $$")
    before = (programs.build("sandbox"), rule, "--")
    if user == "ordinary":
        done = users.ordinary(*words, cwd=place, before=before)
    else:
        done = run(*before, sys.executable, "-m", "gdbrr", *words, cwd=place, env=users.environment())
    assert done.expect(139).out == "once\n"
    assert done.err.startswith(f"gdbrr: not recorded: {'this cannot be recorded: ' * (rule == 'dispatch')}{why}")
    assert "It runs without that" in done.err.splitlines()[0]
    line = last(done)
    assert (line[1], line[4], line[6]) == ("crashed", "none", " recorded=no")
    assert os.listdir(place) == []


@pytest.mark.needs("ordinary_user")
def test_below_what_refuses_perf_events_an_ordinary_user_loses_nothing(place: Path) -> None:
    words = ("record", "--save-on", "failure", "-o", place / "x.demo", "/bin/sh", "-c", "exit 9")
    before = (programs.build("sandbox"), "perf", "--")
    assert last(users.ordinary(*words, cwd=place, before=before).expect(9))[4] == str(place / "x.demo")
    users.ordinary("replay", place / "x.demo", cwd=place, before=before).expect(9)


def test_a_program_that_cannot_be_recorded_runs_without(tmp_path: Path) -> None:
    source = tmp_path / "p.c"
    source.write_text("int main(void) { return 6; }\n")
    subprocess.run(["gcc", "-static", "-o", tmp_path / "p", source], check=True, stdin=subprocess.DEVNULL)
    words = ("-o", tmp_path / "x.demo", tmp_path / "p")
    assert "is statically linked" in gdbrr("record", *words).expect(1).err
    done = gdbrr("record", "--save-on", "failure", *words).expect(6)
    assert "is statically linked" in done.err
    assert last(done)[6]


@pytest.mark.parametrize(
    ("limited", "mib", "what"),
    [
        ("as", 2048, "a log of 4294967296 bytes"),
        ("as", 6144, "a heap"),
        ("data", 64, "threads"),
    ],
)
def test_under_a_limit_of_addresses_it_runs_without(limited: str, mib: int, what: str, tmp_path: Path) -> None:
    """Wholly, or not at all: never with half of the engine."""
    words = (sys.executable, "-m", "gdbrr", "record", "--save-on", "failure", "-o", tmp_path / "x.demo")
    limit = ("prlimit", f"--{limited}={mib << 20}")
    done = run(*limit, *words, "/bin/sh", "-c", "echo once; exit 6", env=users.environment()).expect(6)
    assert done.out == "once\n" and last(done)[6]
    assert f"gdbrr: not recorded: this cannot be recorded: no address space for {what}" in done.err
    assert "ulimit -v unlimited" in done.err


@pytest.mark.parametrize(("program", "status"), [("/nowhere/p", 127), ("/etc/passwd", 126)])
def test_no_program_is_no_reason_to_try_again(program: str, status: int, tmp_path: Path) -> None:
    done = gdbrr("record", "--save-on", "failure", "-o", tmp_path / "x.demo", program).expect(status)
    assert "runs without" not in done.err


def test_a_place_that_cannot_be_written_hinders_nobody(tmp_path: Path) -> None:
    done = gdbrr("record", "--save-on", "failure", "-o", tmp_path / "none" / "x.demo", "/bin/sh", "-c", "echo once")
    assert done.expect(0).out == "once\n"
    assert "there is no directory" in done.err
    assert last(done)[6]


def test_a_call_that_is_refused_in_the_middle_ends_it_and_says_so(tmp_path: Path) -> None:
    """It has run already, so it is not run again."""
    done = gdbrr("record", "--save-on", "failure", "-o", tmp_path / "x.demo", programs.build("refused_call"), "unshare")
    assert last(done.expect(1))[1] == "stopped"
    assert "the program calls unshare" in done.err and done.out == "before\n"
    assert "runs without" not in done.err


@pytest.mark.parametrize("options", [(), ("--set", "limits.when_full=stop")])
def test_a_full_log_lets_it_go_on_unless_told_otherwise(options: tuple[str, ...], tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    words = ("--save-on", "failure", "--set", "limits.log=1M", *options, "-o", demo, programs.build("busy"), "1000")
    done = gdbrr("record", *words)
    if options:
        assert last(done.expect(1))[1] == "stopped"
        assert "the recording ended early: the log has reached its limit of 1048576 bytes" in done.err
    else:
        assert last(done.expect(7))[1] == "failed"
        assert done.out.endswith("end\n")
        assert "the log was full; the program went on unrecorded" in done.err
    assert os.listdir(tmp_path) == ["x.demo"]


_ON_SMALL_DISK = 'mount -t tmpfs -o size=3m none "$1" && cd "$1" || exit 99; shift; "$@"'


@pytest.mark.needs("private_mounts")
def test_a_full_disk_changes_no_status(tmp_path: Path) -> None:
    words = ["unshare", "-m", "sh", "-c", _ON_SMALL_DISK, "sh", tmp_path, sys.executable, "-m", "gdbrr", "record"]
    words += ["--save-on", "failure", "-o", "x.demo", "--", programs.build("busy"), "2000"]
    done = run(*words, env={"PYTHONPATH": os.pathsep.join(sys.path)}).expect(7)
    assert done.out.endswith("end\n")
    assert "No space left on device; the recording is kept in it" in done.err
    assert last(done)[4] == "none"


def test_recordings_beside_each_other_get_names_of_their_own(tmp_path: Path) -> None:
    """As a parallel test run starts them: in one directory, without -o."""
    words = [sys.executable, "-m", "gdbrr", "record", "--save-on", "failure", "/bin/sh", "-c", "exit 5"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    began = [subprocess.Popen(words, cwd=tmp_path, env=env, stdin=-3, stderr=-1, text=True) for _ in range(4)]
    named = set()
    for process in began:
        err = process.communicate()[1]
        assert process.returncode == 5, err
        found = LAST.fullmatch(err.splitlines()[-1])
        assert found
        named.add(found[4])
    assert named == {str(tmp_path / name) for name in os.listdir(tmp_path)} and len(named) == 4


def test_without_any_standard_descriptor(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "gdbrr", "record", "--save-on", "failure", "-o", "x.demo", "/bin/sh", "-c", "exit 3"]
    run("/bin/sh", "-c", '"$@" <&- >&- 2>&-', "sh", *words, cwd=tmp_path).expect(3)
    gdbrr("replay", tmp_path / "x.demo").expect(3)


def test_with_many_runs_the_question_is_another(tmp_path: Path) -> None:
    words = ("--runs", "3", "--save-on", "failure", "-o", tmp_path / "x.demo", "/bin/true")
    assert "Leave --save-on and --junit out" in gdbrr("record", *words).expect(2).err


def test_names_with_anything_in_them_stay_one_line() -> None:
    shown = ci.line(ci.Run(["p"], -11, 0.0, Path("/a b/x\n'y'.demo")))
    assert "\n" not in shown and shown.startswith("gdbrr: result=crashed signal=SIGSEGV demo=")
