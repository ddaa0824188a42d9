"""What cannot be recorded is refused by name, with a way out; what a demo may not ask for is not done.

Runs in: pytest. May call: gdbrr record, gdbrr replay.
Owns: the rows of docs/determinism.md that name it.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from calls.test_programs import GDBRR, build, check, record
from fuzz.recordings import Op
from gdbrr.abi import lib
from gdbrr.errors import EXIT_DESYNC
from harness import programs
from harness.run import run
from replay.alter import alter

NANOSLEEP, WRITE, UNLINK = 230, 1, 87


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("exec", "the program calls execve of /bin/true, which cannot be recorded: the program replaces itself"),
        ("fork-shared", "a fork with memory that both processes can change"),
        ("clone-vm", "a process that shares the program's memory and runs beside it"),
        ("clone-files", "shares the program's descriptors"),
        ("traced", "the program calls ptrace, which cannot be recorded: a traced process is changed from outside"),
        ("io_uring", "io_uring_setup"),
        ("set-ids", "setuid, setgid or one of their kind, while several threads live"),
        ("int-0x80", "a 32-bit system call (int $0x80)"),
    ],
)
def test_refused_by_name(what: str, said: str, tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    result = run(*GDBRR, "record", "-o", demo, "--", build("calls_refused"), what)
    assert result.status not in (0, 125) or result.status == 1, result.describe()
    assert said in result.err and "gdbrr record: " in result.err
    assert "done" not in result.out and not demo.exists()


def test_control_what_the_child_does_not_get_is_no_reason(tmp_path: Path) -> None:
    first = record(tmp_path / "x.demo", build("calls_refused"), "fork-unshared")
    assert first.out == "done\n"
    check(tmp_path / "x.demo", first)


def test_a_shells_exec_names_the_way_out(tmp_path: Path) -> None:
    words = (*GDBRR, "record", "-o", tmp_path / "x.demo", "--", "/bin/bash", "-c")
    for command in ("exec /bin/true", "/bin/true"):
        assert "add `; exit $?`" in run(*words, command).expect(1).err
    run(*words, "/bin/true; exit $?").expect(0)


def test_a_program_that_is_not_there_is_looked_for(tmp_path: Path) -> None:
    """As natively: who looks for a program tries one folder after the other."""
    code = """import ctypes, os
for name in b"/no/such", b"/etc/passwd", b"/etc/passwd/x", 16:
    assert ctypes.CDLL(None, use_errno=True).execve(ctypes.c_char_p(name) if name != 16 else ctypes.c_void_p(16), 0, 0)
    print(os.strerror(ctypes.get_errno()))
"""
    words = (sys.executable, "-c", code)
    natively = run(*words).expect(0).out
    assert len(set(natively.splitlines())) == 4
    first = record(tmp_path / "x.demo", *words)
    assert first.out == natively
    check(tmp_path / "x.demo", first)


def test_the_name_of_a_refused_program_is_shown_escaped(tmp_path: Path) -> None:
    program = tmp_path / "\x1b[31m"
    program.symlink_to("/bin/true")
    code = "import os, sys; os.execv(sys.argv[1], ['true'])"
    words = (*GDBRR, "record", "-o", tmp_path / "x.demo", "--", sys.executable, "-c", code, program)
    assert f"execve of '{tmp_path}/\\x1b[31m', which" in run(*words).expect(1).err


# ---------------------------------------------------------------- what the demo says
def stores_dropped(ops: list[Op]) -> list[Op]:
    """What a vfork child stored, and what writes did to views: gone."""
    for op in ops:
        if op.kind == lib.GR_OP_SYS_END and op.object:
            keep = len(op.data) - op.object - 4
            op.object, op.data = 0, op.data[:keep]
    return ops


@pytest.mark.parametrize("name", ["calls_spawn", "calls_views"])
def test_control_stores_dropped_show(name: str, tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    first = record(demo, build(name))
    result = run(*GDBRR, "replay", alter(demo, tmp_path / "altered.demo", stores_dropped))
    assert result.out != first.out


def stores_overrun(ops: list[Op]) -> list[Op]:
    """A store that claims more bytes than the event holds."""
    op = next(op for op in ops if op.kind == lib.GR_OP_SYS_END and op.object)
    at = len(op.data) - op.object
    op.data = op.data[: at + 8] + (1 << 40).to_bytes(8, "little") + op.data[at + 16 :]
    return ops


def stores_into_the_engine(ops: list[Op]) -> list[Op]:
    op = next(op for op in ops if op.kind == lib.GR_OP_SYS_END and op.object)
    at = len(op.data) - op.object
    op.data = op.data[:at] + int(lib.GR_CTL_ADDR).to_bytes(8, "little") + op.data[at + 8 :]
    return ops


def made_again(nr: int) -> Callable[[list[Op]], list[Op]]:
    def change(ops: list[Op]) -> list[Op]:
        for op in ops:
            if op.kind == lib.GR_OP_SYS_START and op.nr == nr + 1:
                op.flags = lib.GR_ACT_NATIVE
        return ops

    return change


@pytest.mark.parametrize("change", [stores_overrun, stores_into_the_engine])
def test_control_bad_stores_are_reported(change: Callable[[list[Op]], list[Op]], tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    record(demo, build("calls_views"))
    result = run(*GDBRR, "replay", alter(demo, tmp_path / "altered.demo", change)).expect(EXIT_DESYNC)
    assert "do not fit" in result.err


@pytest.mark.parametrize(("profile", "nr"), [("default", WRITE), ("sparse", UNLINK), ("sparse", WRITE)])
def test_a_demo_cannot_widen_its_profile(profile: str, nr: int, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    (place / "input").write_text("hello")
    demo = tmp_path / "x.demo"
    record(demo, build("calls_files"), place, profile=profile)
    result = run(*GDBRR, "replay", alter(demo, tmp_path / "altered.demo", made_again(nr))).expect(EXIT_DESYNC)
    assert "that its profile does not allow" in result.err
    assert [path.read_text() for path in place.iterdir()] == ["hello"]


# ---------------------------------------------------------------- limits of the shell
def test_a_low_limit_of_descriptors_is_the_programs(tmp_path: Path) -> None:
    """The soft limit that the program sees is its own, and the engine needs none of it."""
    command = 'ulimit -Sn 12; exec "$@"'
    demo = tmp_path / "x.demo"
    limits = "import resource,os; print(resource.getrlimit(7)[0], sorted(os.listdir('/proc/self/fd')))"
    words = ("/bin/sh", "-c", command, "sh", *GDBRR, "record", "-o", demo, "--", "/usr/bin/python3", "-Sc", limits)
    first = run(*words)
    assert first.status == 0, first.describe()
    assert first.out == "12 ['0', '1', '2', '3']\n"
    check(demo, first)
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 12


@pytest.mark.parametrize(
    ("option", "more", "name"),
    [
        ("address", [], "AddressSanitizer"),
        ("address", ["-static-libasan"], "AddressSanitizer"),
        ("thread", [], "ThreadSanitizer"),
        ("leak", [], "LeakSanitizer"),
    ],
)
def test_a_sanitizer_in_the_place_of_the_engine(option: str, more: list[str], name: str, tmp_path: Path) -> None:
    program = programs.build("two_threads", ["-pthread", f"-fsanitize={option}", *more])
    result = run(*GDBRR, "record", "-o", tmp_path / "x.demo", "--", program)
    assert f"is built with -fsanitize={option}, which gdbrr cannot record: {name} takes the places" in result.err


def test_a_sanitizer_of_undefined_behaviour_is_recorded(tmp_path: Path) -> None:
    """And its replay compared with itself."""
    program = programs.build("two_threads", ["-pthread", "-fsanitize=undefined"])
    status = run(*GDBRR, "record", "-o", tmp_path / "x.demo", "--", program).status
    result = run(*GDBRR, "replay", "--check", tmp_path / "x.demo").expect(status)
    assert "replayed twice, the state was the same" in result.err
