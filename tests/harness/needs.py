"""What tests may need of the machine, and which skips are therefore expected.

Runs in: pytest. May call: gdbrr's own probes, and PATH.
Owns: the list of needs. A skip for any other reason is unexpected; with CI=true it fails.
"""

from __future__ import annotations

import ctypes.util
import functools
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gdbrr.launch import probes
from harness import pids, users

PREFIX = "this machine has no "


@dataclass(frozen=True)
class Need:
    what: str
    met: Callable[[], bool]
    by_setup: bool
    """Installed by `.ci/setup test`: lacking it is expected on a developer's machine and a failure under CI."""


def tool(name: str, by_setup: bool = True) -> Need:
    return Need(name, lambda: shutil.which(name) is not None, by_setup=by_setup)


def perf_breakpoints() -> bool:
    return bool(probes.run_in_child(probes.perf_breakpoints, 10.0).get("slots"))


def private_mounts() -> bool:
    words = ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/tmp"]
    try:
        return subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL, check=False).returncode == 0
    except OSError:
        return False


def jemalloc() -> str | None:
    """The shared library's name, by which a linker finds it without a package for development."""
    name = ctypes.util.find_library("jemalloc")
    return f"-l:{name}" if name else None


def termdebug() -> bool:
    """Vim with what it needs to show a debugger, and the package that does."""
    known = "execute exists(':Termdebug') ? 'qa!' : 'cq!'"
    words = ["vim", "-Nu", "NONE", "-es", "-c", "packadd termdebug", "-c", known]
    try:
        done = subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def two_cores() -> bool:
    return len(os.sched_getaffinity(0)) >= 2


def avx512() -> bool:
    return " avx512f " in Path("/proc/cpuinfo").read_text()


def ordinary_user() -> bool:
    return users.interpreter() is not None


def any_user() -> bool:
    return os.geteuid() == 0 and ordinary_user()


NEEDS = {
    "gdb": tool("gdb"),
    "gdbserver": tool("gdbserver"),
    "g++": tool("g++"),
    "shellcheck": tool("shellcheck"),
    "perf_breakpoints": Need("perf breakpoints", perf_breakpoints, by_setup=False),
    "private_mounts": Need("right to mount in a namespace of its own", private_mounts, by_setup=False),
    "ordinary_user": Need("ordinary user who could run this checkout", ordinary_user, by_setup=False),
    "any_user": Need("right to be any user, or none who could run this checkout", any_user, by_setup=False),
    **{name: tool(name) for name in ("strace", "sqlite3", "xz", "git", "curl", "tmux", "vim")},
    "perl": tool("perl", by_setup=False),
    "redis-server": tool("redis-server", by_setup=False),
    "termdebug": Need("vim with termdebug", termdebug, by_setup=False),
    "setcap": Need("setcap, or no right to use it", lambda: shutil.which("setcap") is not None, by_setup=False),
    "chosen_pids": Need("right to choose the ids of processes", pids.chosen, by_setup=False),
    "jemalloc": Need("libjemalloc", lambda: jemalloc() is not None, by_setup=True),
    "two_cores": Need("second core", two_cores, by_setup=False),
    "avx512": Need("AVX-512", avx512, by_setup=False),
}


@functools.cache
def met(name: str) -> bool:
    return NEEDS[name].met()


def reason(name: str) -> str:
    return PREFIX + NEEDS[name].what


def expected(text: str) -> bool:
    """May a test be skipped for this reason under CI?"""
    return any(not need.by_setup and text == PREFIX + need.what for need in NEEDS.values())
