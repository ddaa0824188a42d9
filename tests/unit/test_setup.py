""".ci/setup on machines that lack something: one line without root, apt-get with it, and never a question."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from harness import ROOT
from harness.run import Result, run

TOOLS = ("sh", "dirname", "mkdir", "tr", "grep", "env", "tail", "cat", "sed", "chmod", "gcc", "as", "ld")
PYTHON = Path(sys.executable).resolve()  # of the system, not of .venv


class Machine:
    """A checkout of its own, and a PATH that holds TOOLS and what a test puts there."""

    def __init__(self, place: Path) -> None:
        self.checkout = place / "checkout"
        self.bin = place / "bin"
        self.calls = place / "calls"
        shutil.copytree(ROOT / ".ci", self.checkout / ".ci")
        shutil.copy(ROOT / "pyproject.toml", self.checkout)
        self.bin.mkdir()
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found
            (self.bin / tool).symlink_to(found)
        self.calls.touch()
        self.command("ldconfig", "")  # else that of the system is asked which libraries there are

    def command(self, name: str, script: str) -> None:
        path = self.bin / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >>"{self.calls}"\n{script}\n')
        path.chmod(0o755)

    def setup(self, level: str = "run") -> Result:
        environment = {"PATH": str(self.bin), "PYTHON": str(PYTHON)}
        return run(self.bin / "sh", self.checkout / ".ci" / "setup", level, env=environment)

    def has_all_that_is_required(self) -> None:
        """Also an environment, whose Python says yes to everything."""
        self.command("gdb", "echo 1")
        for tool in ("gdbserver", "g++", "shellcheck"):
            self.command(tool, "")
        python = self.checkout / ".venv" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(f'#!/bin/sh\ncase "$*" in *purelib*) echo "{self.checkout}" ;; esac\n')
        python.chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_without_root_one_line_says_what_is_missing(machine: Machine) -> None:
    machine.command("id", "echo 1000")
    machine.command("sudo", "exit 1")
    machine.command("apt-get", "")
    result = machine.setup().expect(1)
    assert result.err == ("gdbrr: missing on this machine: gdb gdbserver. As root: apt-get install gdb gdbserver\n")
    assert not any(call.startswith("apt-get") for call in machine.calls.read_text().splitlines())


def test_without_apt_one_line_says_what_is_missing(machine: Machine) -> None:
    machine.command("id", "echo 0")
    assert machine.setup().expect(1).err.startswith("gdbrr: missing on this machine: gdb gdbserver.")


def test_root_installs_without_a_question(machine: Machine) -> None:
    machine.command("id", "echo 0")
    machine.command("apt-get", 'echo "frontend $DEBIAN_FRONTEND"; test "$(cat)" = ""')
    result = machine.setup().expect(1)  # this apt-get installs nothing, and that is noticed
    assert "still missing after installation: gdb gdbserver" in result.err
    [call] = [call for call in machine.calls.read_text().splitlines() if call.startswith("apt-get")]
    assert " -y " in call
    assert call.endswith("install --no-install-recommends gdb gdbserver")
    assert "frontend noninteractive" in (machine.checkout / "build" / "setup.log").read_text()


def test_sudo_is_used_only_where_it_asks_for_nothing(machine: Machine) -> None:
    machine.command("id", "echo 1000")
    machine.command("sudo", 'test "$1" = -n && shift && exec "$@"')
    machine.command("true", "exit 0")
    machine.command("apt-get", "")
    machine.setup().expect(1)
    calls = machine.calls.read_text()
    assert "\nsudo -n env DEBIAN_FRONTEND=noninteractive apt-get" in calls


def test_lists_are_fetched_when_the_first_attempt_fails(machine: Machine) -> None:
    machine.command("id", "echo 0")
    machine.command("apt-get", 'case "$*" in *update*) ;; *) exit 100 ;; esac')
    result = machine.setup().expect(1)
    assert "could not install gdb gdbserver. As root: apt-get install gdb gdbserver" in result.err
    verbs = [call.split()[-1] for call in machine.calls.read_text().splitlines() if call.startswith("apt-get")]
    assert verbs == ["gdbserver", "update", "gdbserver"]


def test_what_only_some_tests_look_at_is_no_condition(machine: Machine) -> None:
    machine.has_all_that_is_required()
    machine.command("curl", "")
    machine.command("id", "echo 1000")
    machine.command("sudo", "exit 1")
    assert machine.setup("test").expect(0).err == (
        "gdbrr: tests that need strace sqlite3 xz-utils git tmux vim libjemalloc2 will be skipped. "
        "As root: apt-get install strace sqlite3 xz-utils git tmux vim libjemalloc2\n"
    )
    assert machine.setup("run").expect(0).err == ""


def test_what_some_tests_look_at_is_installed(machine: Machine) -> None:
    machine.has_all_that_is_required()
    machine.command("id", "echo 0")
    machine.command("apt-get", "")
    machine.setup("test").expect(0)
    [call] = [call for call in machine.calls.read_text().splitlines() if call.startswith("apt-get")]
    assert call.endswith("install --no-install-recommends strace sqlite3 xz-utils curl git tmux vim libjemalloc2")


def test_all_that_is_missing_is_installed_at_once(machine: Machine) -> None:
    machine.command("id", "echo 0")
    machine.command("apt-get", "")
    machine.setup("test").expect(1)
    [call] = [call for call in machine.calls.read_text().splitlines() if call.startswith("apt-get")]
    assert call.endswith("gdb gdbserver g++ shellcheck strace sqlite3 xz-utils curl git tmux vim libjemalloc2")
