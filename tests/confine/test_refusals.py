"""What cannot be recorded is refused in one line with a way out: of root, of an ordinary user, in a container.

Runs in: pytest. May call: gdbrr record, gdbrr replay, gdb.
Owns: nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gdbrr.config import tables
from harness import ROOT, needs, programs, users
from harness.run import Result, gdbrr, run

CALLS = ["io_uring_setup", "unshare", "execve", "arch_prctl", "clone"]
OF = {"execve": "execve of /bin/true"}


def one_line(result: Result) -> str:
    lines = result.err.splitlines()
    assert len(lines) == 1, result.describe()
    return lines[0]


# ---------------------------------------------------------------- what a program does


@pytest.mark.parametrize("call", CALLS)
def test_a_refused_call_is_named_with_reason_and_way_out(call: str, tmp_path: Path) -> None:
    done = gdbrr("record", "-o", "x.demo", programs.build("refused_call"), call, cwd=tmp_path).expect(1)
    row = next(row for row in tables.refusals() if row.name == call)
    assert one_line(done) == (
        f"gdbrr record: the program calls {OF.get(call, call)}, which cannot be recorded: {row.reason}. {row.way_out}"
    )
    assert done.out == "before\n"
    assert not list(tmp_path.iterdir())


def test_an_unknown_call_is_answered_as_by_a_kernel_without_it(tmp_path: Path) -> None:
    gdbrr("record", "-o", "x.demo", programs.build("refused_call"), "unknown", cwd=tmp_path).expect(0)
    assert "511: system calls that were answered as by a kernel without them" in gdbrr("info", tmp_path / "x.demo").out


def test_control_the_program_without_such_a_call(tmp_path: Path) -> None:
    done = gdbrr("record", "-o", "x.demo", programs.build("refused_call"), cwd=tmp_path).expect(0)
    assert done.out == "before\nafter\n"


@pytest.mark.needs("gdb", "gdbserver")
def test_rr_start_says_why_the_recording_ended(tmp_path: Path) -> None:
    program = programs.build("refused_call")
    words = ["gdb", "-batch", "-nx", "-ex", f"source {ROOT / 'gdbinit.py'}", "-ex", "rr-start unshare", program]
    done = run(*words, cwd=tmp_path)
    row = next(row for row in tables.refusals() if row.name == "unshare")
    why = f"the program calls unshare, which cannot be recorded: {row.reason}. {row.way_out}"
    assert f"The recording ended: {why}." in done.out + done.err


# ---------------------------------------------------------------- what a program is


def _compile(tmp_path: Path, *words: str) -> Path:
    (tmp_path / "p.c").write_text("int main(void) { return 0; }\n")
    subprocess.run(["gcc", *words, "-o", "p", "p.c"], cwd=tmp_path, check=True, stdin=subprocess.DEVNULL)
    return tmp_path / "p"


def _refused(place: Path, program: Path, status: int) -> str:
    results = [gdbrr("record", "-o", place / "x.demo", program, cwd=place).expect(status)]
    if users.interpreter():
        results.append(users.ordinary("record", "-o", place / "x.demo", program, cwd=place).expect(status))
    texts = {one_line(result) for result in results}
    assert len(texts) == 1
    assert not list(place.glob("x.demo*"))
    return texts.pop()


@pytest.fixture
def place() -> Iterator[Path]:
    with users.place() as path:
        yield path


def test_static(place: Path) -> None:
    text = _refused(place, _compile(place, "-static"), 1)
    assert "p is statically linked, which gdbrr cannot record" in text and "without -static" in text


def test_not_executable(place: Path) -> None:
    program = _compile(place)
    program.chmod(0o644)
    assert "permission denied. Make it executable with chmod +x" in _refused(place, program, 126)


def test_missing_interpreter_of_a_program(place: Path) -> None:
    program = _compile(place, "-Wl,--dynamic-linker=/nonexistent/ld.so")
    assert "p: its interpreter does not exist. Install its interpreter" in _refused(place, program, 127)


def test_32_bit(place: Path) -> None:
    (place / "old.s").write_text(".globl _start\n_start: mov $1, %eax\n int $0x80\n")
    words = ["gcc", "-m32", "-nostdlib", "-static", "-o", "old", "old.s"]
    subprocess.run(words, cwd=place, check=True, stdin=subprocess.DEVNULL)
    try:
        subprocess.run([place / "old"], stdin=subprocess.DEVNULL, check=False)
    except OSError:
        assert "not in a format that the kernel can run" in _refused(place, place / "old", 126)
        return
    text = _refused(place, place / "old", 1)
    assert "old is a 32-bit program, which gdbrr cannot record. Build it for x86-64" in text


@pytest.mark.needs("ordinary_user")
def test_setuid_as_an_ordinary_user(place: Path) -> None:
    done = users.ordinary("record", "-o", place / "x.demo", "/bin/su", "--version", cwd=place).expect(1)
    assert "su is a setuid or setgid program, which gdbrr cannot record. Run a copy of it" in one_line(done)


@pytest.mark.needs("ordinary_user")
def test_program_that_may_be_run_but_not_read(place: Path) -> None:
    program = _compile(place)
    program.chmod(0o711)
    if os.geteuid() != 0:
        program.chmod(0o111)
    done = users.ordinary("record", "-o", place / "x.demo", program, cwd=place).expect(1)
    assert f"{program} can be executed but not read. Give yourself permission" in one_line(done)


@pytest.mark.needs("ordinary_user")
def test_file_capabilities_as_an_ordinary_user(place: Path) -> None:
    program = _compile(place)
    if not shutil.which("setcap") or run("setcap", "cap_net_raw+ep", program).status:
        pytest.skip(needs.reason("setcap"))
    done = users.ordinary("record", "-o", place / "x.demo", program, cwd=place).expect(1)
    assert "p has file capabilities, which gdbrr cannot record. Run a copy of it without them" in one_line(done)


# ---------------------------------------------------------------- what a machine refuses


@pytest.mark.parametrize("user", ["root", pytest.param("ordinary", marks=pytest.mark.needs("ordinary_user"))])
@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("docker", "In Docker add --security-opt seccomp=unconfined"),
        ("personality", "address space randomisation cannot be switched off here"),
        ("ptrace", "In Docker add --cap-add SYS_PTRACE"),
        ("dispatch", "a kernel without Syscall User Dispatch. Use Linux 5.11 or newer"),
    ],
)
def test_below_a_filter_recording_is_refused(rule: str, text: str, user: str, place: Path) -> None:
    words = ("record", "-o", place / "x.demo", "/bin/echo", "hi")
    done = _below(rule, user, place, *words).expect(1)
    assert text in one_line(done)
    assert done.out == ""
    assert not list(place.iterdir())


@pytest.mark.parametrize("user", ["root", pytest.param("ordinary", marks=pytest.mark.needs("ordinary_user"))])
@pytest.mark.parametrize("rule", ["perf", "landlock"])
def test_below_a_filter_that_is_no_hindrance(rule: str, user: str, place: Path) -> None:
    demo = place / "x.demo"
    assert _below(rule, user, place, "record", "-o", demo, "/bin/echo", "hi").expect(0).out == "hi\n"
    assert _below(rule, user, place, "replay", demo).expect(0).out == "hi\n"


def test_docker_with_randomisation_off_from_outside_records_and_replays(place: Path) -> None:
    """What is left of Docker's default then is no hindrance either."""
    words = ["setarch", "-R", programs.build("sandbox"), "docker", "--"]
    demo = place / "x.demo"
    for verb in (["record", "-o", demo, programs.build("two_threads")], ["replay", demo]):
        python = [*words, sys.executable, "-m", "gdbrr", *verb]
        assert run(*python, cwd=place, env=users.environment()).status == 7


def test_no_filter_no_replay(place: Path) -> None:
    demo = place / "x.demo"
    gdbrr("record", "-o", demo, "/bin/echo", "hi").expect(0)
    done = _below("filter", "root", place, "replay", demo).expect(1)
    assert "a replay must be confined, and the kernel refuses a seccomp filter here" in one_line(done)
    assert done.out == ""


@pytest.mark.needs("ordinary_user")
def test_ordinary_user_records_and_replays(place: Path) -> None:
    demo = place / "x.demo"
    program = place / "two_threads"
    shutil.copyfile(programs.build("two_threads"), program)
    program.chmod(0o755)
    first = users.ordinary("record", "-o", demo, program, cwd=place).expect(7)
    assert users.ordinary("replay", demo, cwd=place).expect(7).out == first.out


@pytest.mark.needs("ordinary_user")
def test_home_of_somebody_else_is_passed_over(place: Path, tmp_path: Path) -> None:
    """As `sudo -u` leaves it behind."""
    closed = tmp_path / "closed"
    (closed / ".config" / "gdbrr").mkdir(parents=True)
    closed.chmod(0)
    done = users.ordinary("record", "-o", place / "x.demo", "/bin/echo", "hi", cwd=place, HOME=str(closed))
    closed.chmod(0o700)
    assert done.expect(0).out == "hi\n"


def _below(rule: str, user: str, place: Path, *words: str | Path) -> Result:
    before = (programs.build("sandbox"), rule, "--")
    if user == "ordinary":
        return users.ordinary(*words, cwd=place, before=before)
    return run(*before, sys.executable, "-m", "gdbrr", *words, cwd=place, env=users.environment())


@pytest.mark.parametrize(
    ("rule", "status", "found"),
    [
        ("landlock", "limited", "seccomp filter, no Landlock"),
        ("filter", "missing", "no seccomp filter (EINVAL)"),
    ],
)
def test_doctor_knows_the_fence(rule: str, status: str, found: str, place: Path) -> None:
    report = json.loads(_below(rule, "root", place, "doctor", "--json").out)
    finding = next(row for row in report["findings"] if row["name"] == "replay fence")
    assert (finding["status"], finding["found"], finding["required"]) == (status, found, False)
    assert finding["mend"]


def test_doctor_says_what_docker_refuses(place: Path) -> None:
    done = _below("docker", "root", place, "doctor", "--json").expect(1)
    bad = {row["name"] for row in json.loads(done.out)["findings"] if row["status"] == "missing"}
    assert "ASLR control" in bad
