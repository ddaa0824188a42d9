"""Every system call behind the engine's constructor is made in the engine's gate, as strace sees it.

Left out: children, which are processes of their own and run without the engine (they are told apart by their pid), and
what stands in front of the constructor, the loader's own work.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from door.strace import Escapes, read, trace
from harness import ROOT, programs

pytestmark = pytest.mark.needs("strace")

SQL = "create table t(a,b); insert into t values(1,random()); select count(*), strftime('%s') > 0 from t;"
PROGRAMS = {
    "ls": ["ls", "-lR", "/usr/share/doc/libc6", "/etc", "/dev"],
    "python": ["/usr/bin/python3", "-c", "import json, random, subprocess, time; print(random.random(), time.time())"],
    "python-threads": [
        "/usr/bin/python3",
        "-c",
        "import threading as t\nx = [t.Thread(target=lambda: open('/etc/hosts').read()) for _ in range(8)]\n"
        "[i.start() for i in x]\n[i.join() for i in x]",
    ],
    "sqlite3": ["sqlite3", ":memory:", SQL],
    "gzip": ["gzip", "-kc", "/bin/bash"],
    "tar": ["tar", "-C", "/usr/share/doc", "-cf", "/dev/null", "libc6", "gcc"],
    "awk": ["awk", 'BEGIN { srand(); for (i = 0; i < 2000; i++) print rand() > "/dev/null"; print systime() }'],
    "xz": ["xz", "-T2", "-kc", "--block-size=65536", "/bin/bash"],
    "git": ["git", "-C", str(ROOT), "log", "-20", "--stat", "--no-pager"],
    "find": ["find", "/etc", "-newer", "/etc/hosts", "-type", "f"],
    "sort": ["sort", "--parallel=2", "-S1M", "-R", "/etc/services"],
    "bash": ["bash", "-c", "for i in 1 2 3; do echo $(( i * RANDOM )) | cat; done; read x < /etc/hosts; echo $x"],
    "perl": ["perl", "-e", "print rand(), time(), qx(echo child); opendir D, '/'; print readdir D"],
    "curl": ["curl", "-sS", "-m", "5", "file:///etc/hosts"],
}
NEEDS = {"sqlite3", "xz", "git", "curl", "perl"}


@pytest.mark.parametrize("patch", [True, False], ids=["patched", "trapped"])
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.needs(n) if n in NEEDS else ()) for n in PROGRAMS])
def test_no_call_escapes(name: str, patch: bool, tmp_path: Path) -> None:
    word, *rest = PROGRAMS[name]
    seen = trace([shutil.which(word) or word, *rest], tmp_path, patch)
    assert seen.outside == []
    assert seen.calls > 20, (tmp_path / "out").read_text(errors="replace")
    if not patch:
        assert seen.traps > 20


def test_patching_takes_the_traps_away(tmp_path: Path) -> None:
    program = programs.build("many_calls")
    (tmp_path / "off").mkdir()
    (tmp_path / "on").mkdir()
    trapped, patched = trace([program], tmp_path / "off", False), trace([program], tmp_path / "on", True)
    assert trapped.outside == patched.outside == []
    assert trapped.threads == patched.threads == 5
    assert trapped.traps > 4000
    # Under a tracer sites are patched only where nothing has to be moved.
    assert patched.traps < trapped.traps * 0.6


CALL = "12 [00007ffff7fb1020] getppid() = 1"
ARM = "12 [00007ffff7fb1000] prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0x7ffff7fb1000, 0x100, 0) = 0"


def test_check_sees_an_escape() -> None:
    early, late = "12 [00007ffff7e00000] brk(NULL) = 0", "12 [00007ffff7e00002] getppid() = 1"
    assert read("\n".join([early, ARM, CALL])) == Escapes(1, 1, [], 0)
    assert read("\n".join([ARM, CALL, late])) == Escapes(2, 1, [late], 0)


def test_check_tells_threads_from_children() -> None:
    clone = "12 [00007ffff7fb1020] clone(child_stack=NULL, flags={}SIGCHLD) = 13"
    outside = "13 [00007ffff7e00002] getppid() = 1"
    assert read("\n".join([ARM, clone.format(""), outside])).outside == []
    assert read("\n".join([ARM, clone.format("CLONE_THREAD|"), outside])).outside == [outside]
    first = "12 [00007ffff7fb1020] clone(flags=CLONE_THREAD <unfinished ...>"
    second = "12 [00007ffff7fb1020] <... clone resumed>) = 13"
    assert read("\n".join([ARM, first, second, outside])).outside == [outside]
