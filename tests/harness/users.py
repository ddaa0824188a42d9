"""Running gdbrr as an ordinary user: as ourselves, or as nobody where the tests run as root.

Runs in: pytest. May call: setpriv.
Owns: the choice of an interpreter that nobody may run, and a place of his own; users who have what a test starts only.
"""

from __future__ import annotations

import functools
import os
import shutil
import site
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness import ROOT
from harness.run import Result, run

NOBODY = 65534
_LONELY = 1 << 20
"""Users from here on are nobody's but a test's."""


@functools.cache
def interpreter() -> list[str] | None:
    """How an ordinary user runs this checkout's Python; None where he cannot."""
    if os.geteuid() != 0:
        return [sys.executable]
    system = f"/usr/bin/python3.{sys.version_info[1]}"
    # setpriv itself still has root's ways when it looks for its program; env has not.
    prefix = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "/usr/bin/env"]
    if not shutil.which("setpriv"):
        return None
    for python in (sys.executable, system):
        try:
            done = subprocess.run(
                [*prefix, python, "-c", "import gdbrr.abi, zstandard"], env=environment(), cwd="/", check=False,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        except OSError:
            continue
        if done.returncode == 0:
            return [*prefix, python]
    return None


def environment() -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), *site.getsitepackages()])
    return {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "PYTHONPATH": path}


def ordinary(*words: str | Path, cwd: Path, before: tuple[str | Path, ...] = (), **env: str) -> Result:
    """`gdbrr WORDS` run by an ordinary user, below BEFORE, with ENV on top of his environment."""
    python = interpreter()
    assert python is not None
    user = python[:-1]
    return run(*user, *before, python[-1], "-m", "gdbrr", *words, cwd=cwd, env={**environment(), **env})


def lonely() -> int:
    """A user who has no processes yet: those that a limit counts are the test's. Only root can be him."""
    return _LONELY + os.getpid()


def as_user(user: int, *words: str | Path, cwd: Path) -> Result:
    """This checkout's Python with WORDS, run by USER."""
    python = interpreter()
    assert python is not None and os.geteuid() == 0
    python = [word.replace(str(NOBODY), str(user)) for word in python]
    return run(*python, *words, cwd=cwd, env={**environment(), "TMPDIR": str(cwd)})


@contextmanager
def place(user: int = NOBODY) -> Iterator[Path]:
    """A directory that the ordinary user may enter and write to; pytest's own are closed to everybody else."""
    path = Path(tempfile.mkdtemp(prefix="gdbrr-user-"))
    if os.geteuid() == 0:
        os.chown(path, user, user)
    try:
        yield path
    finally:
        shutil.rmtree(path)
