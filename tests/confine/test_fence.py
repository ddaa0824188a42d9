"""The fence around every replay, on its own: what a program inside can do to the world outside, with and without it.

Runs in: pytest. May call: the launcher.
Owns: INVARIANT(every-replay-is-fenced).
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from confine.stage import REFUSED, Run, Yard, deeds, harmless, outsider
from gdbrr.abi import lib
from gdbrr.config import tables
from gdbrr.errors import GdbrrError
from gdbrr.launch import probes, replay
from harness import ROOT, programs

SANDBOXES = pytest.mark.parametrize("rules", [(), ("landlock",)], ids=["landlock", "filter-alone"])
"""The second as on a kernel without Landlock."""

NOT_HERE = {"newer", "x32"}
"""Refused by this kernel with the same words, fence or not."""

PRIVILEGED = {"mount_it", "chroot_it", "reboot_it", "unshare_user", "clone_user", "setns_it", "bpf", "io_uring"}
"""Refused to an ordinary user anyway, or perhaps."""

LANDLOCK_ALONE = {"memory_of", "descriptor_of", "environment_of", "terminal"}
"""By their names nothing but Landlock can tell these files from others."""

COPIES = {"peek_other", "perf_other"}
"""What a timeline's copies need for themselves; other processes are out of reach by Landlock."""

NAMESPACES = {"unshare_user", "clone_user"}
"""Refused to everybody below a changed root, and where an administrator forbids them."""


@pytest.fixture(scope="module")
def outlaw() -> str:
    return str(programs.build("outlaw"))


def children() -> list[str]:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


@SANDBOXES
@pytest.mark.parametrize("flags", [0, lib.GR_SLOT_HOLD_END], ids=["plain", "timeline"])
def test_nothing_outside_can_be_changed(outlaw: str, rules: tuple[str, ...], flags: int, tmp_path: Path) -> None:
    yard = Yard(tmp_path / "yard")
    possible = {"clone_parent"} if flags else set()
    if rules:
        possible |= LANDLOCK_ALONE | (COPIES if flags else set())
    tried = [deed for deed in deeds() if deed not in possible]
    before = children()
    with outsider() as other:
        run = Run(tmp_path, [outlaw, str(yard.path), str(other.pid), *tried], fence=True, flags=flags, rules=rules)
        said = run.wait()
        assert list(said) == tried
        assert {name: answer for name, answer in said.items() if answer not in REFUSED} == {}
        yard.assert_untouched()
        assert other.poll() is None
        assert os.getpriority(os.PRIO_PROCESS, other.pid) == os.getpriority(os.PRIO_PROCESS, 0)
    assert children() == before


@SANDBOXES
def test_what_a_replay_needs_is_allowed(outlaw: str, rules: tuple[str, ...], tmp_path: Path) -> None:
    yard = Yard(tmp_path / "yard")
    said = Run(tmp_path, [outlaw, str(yard.path), "0", *harmless()], fence=True, rules=rules).wait()
    assert said == dict.fromkeys(harmless(), "ok")


def test_control_without_the_fence_every_deed_is_possible(outlaw: str, tmp_path: Path) -> None:
    """Each by itself, because some end what the next one would need."""
    yard = Yard(tmp_path / "yard")
    refused = []
    impossible = set(NOT_HERE)
    if os.geteuid() != 0:
        impossible |= PRIVILEGED
    if not probes.run_in_child(probes.user_namespaces, 10.0)["allowed"]:
        impossible |= NAMESPACES
    for deed in deeds():
        if deed in impossible:
            continue
        yard.reset()
        with outsider() as other:
            said = Run(tmp_path, [outlaw, str(yard.path), str(other.pid), deed], fence=False).wait()
        if said[deed] in REFUSED - ({"EPERM"} if deed == "setsid_it" else set()):
            refused.append((deed, said[deed]))
    assert refused == []


def test_control_the_yard_notices(outlaw: str, tmp_path: Path) -> None:
    yard = Yard(tmp_path / "yard")
    for deed in ("make", "cut", "unlink_it", "rename_it", "chmod_it", "touch", "exec"):
        yard.reset()
        Run(tmp_path, [outlaw, str(yard.path), "0", deed], fence=False).wait()
        with pytest.raises(AssertionError):
            yard.assert_untouched()


def test_shell_makes_no_file_and_no_process(tmp_path: Path) -> None:
    """What a demo can name. The exec of the shell itself is the one that is allowed."""
    yard = Yard(tmp_path / "yard")
    made = yard.path / "made"
    for script in (f"touch {made}", f": >{made}", f"(echo x) >{made}", f"exec touch {made}"):
        run = Run(tmp_path, ["/bin/sh", "-c", script], fence=True)
        assert os.waitstatus_to_exitcode(os.waitpid(run.pid, 0)[1]) != 0
    yard.assert_untouched()


def test_descriptors_of_the_shell_do_not_get_in(tmp_path: Path) -> None:
    with open(tmp_path / "open", "wb") as file:
        os.set_inheritable(file.fileno(), True)
        for fence, expected in ((True, 1), (False, 0)):
            run = Run(tmp_path, ["/bin/sh", "-c", f"test -e /proc/self/fd/{file.fileno()}"], fence=fence)
            assert os.waitstatus_to_exitcode(os.waitpid(run.pid, 0)[1]) == expected


def test_copies_of_a_timeline_end_with_it(outlaw: str, tmp_path: Path) -> None:
    """clone_parent is how a timeline's copies come to be; one that nobody asked for has its parent's group."""
    script = programs.build("lingerer")
    run = Run(tmp_path, [str(script)], fence=True, flags=lib.GR_SLOT_HOLD_END)
    stray = int(_line(run.out))
    assert os.getpgid(stray) == run.pid
    replay.end_process(run.pid)
    assert not Path(f"/proc/{stray}").exists()


def _line(path: Path) -> str:
    while True:
        text = path.read_text()
        if text.endswith("\n"):
            return text


def test_nobody_else_is_ended_by_a_pid_from_the_page() -> None:
    """INVARIANT(own-children-only)"""
    read_end, write_end = os.pipe()
    shell = subprocess.Popen(["sh", "-c", "sleep 600 & echo $!"], stdout=write_end)
    os.close(write_end)
    grandchild = int(os.read(read_end, 32))
    try:
        shell.wait()
        replay.end_process(grandchild)
        os.kill(grandchild, 0)
        replay.end_process(0)
        replay.end_process(1 << 31)
    finally:
        os.kill(grandchild, signal.SIGKILL)
        os.close(read_end)


@pytest.mark.parametrize("rules", [("filter",)])
def test_no_fence_no_replay(rules: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(GdbrrError, match="must be confined, and the kernel refuses a seccomp filter here") as caught:
        Run(tmp_path, ["/bin/true"], fence=True, rules=rules)
    assert "--security-opt seccomp=unconfined" in caught.value.hint
    Run(tmp_path, ["/bin/true"], fence=False, rules=rules).wait()


def test_root_keeps_only_what_reading_needs(tmp_path: Path) -> None:
    run = Run(tmp_path, ["/bin/grep", "-E", "^(CapEff|CapPrm|NoNewPrivs|Seccomp):", "/proc/self/status"], fence=True)
    os.waitpid(run.pid, 0)
    said = dict(line.split(":\t") for line in run.out.read_text().splitlines())
    kept = int(said["CapPrm"], 16)
    assert kept & ~(1 << 2 | 1 << 14 | 1 << 38) == 0  # CAP_DAC_READ_SEARCH, CAP_IPC_LOCK, CAP_PERFMON
    assert (said["NoNewPrivs"], said["Seccomp"]) == ("1", "2")


ROW = re.compile(r'^FENCE\((\w+), (\w+), "(.{4,})"\)$', re.MULTILINE)
CHANGE_THE_WORLD_BUT = {
    "execve": "ONCE",
    "ioctl": "IOCTL",
    "process_vm_writev": "MEMORY",
    "rt_tgsigqueueinfo": "SIGNAL",
    "tgkill": "SIGNAL",
    "write": "ALLOW",
    "writev": "ALLOW",
}
"""Calls that are never made again on replay, and what is judged where the engine makes one of them for itself."""


def test_the_list_names_calls_and_says_why() -> None:
    """INVARIANT(fence-is-a-list)"""
    rows = ROW.findall((ROOT / "preload" / "tables" / "fence.def").read_text())
    known = {call.name: call for call in tables.syscalls()}
    assert len(rows) == len({name for name, _, _ in rows}) > 150
    assert {name for name, _, _ in rows} <= known.keys()
    allowed = {name: rule for name, rule, _ in rows if rule not in ("ABSENT", "REFUSE")}
    outside = {name: rule for name, rule in allowed.items() if {"IRREV", "REFUSED"} & set(known[name].flags)}
    assert {name: rule for name, rule in outside.items() if name != "perf_event_open"} == CHANGE_THE_WORLD_BUT
    assert not {name for name in allowed if known[name].cls == "net"}
