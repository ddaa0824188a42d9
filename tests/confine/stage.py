"""Programs under the launcher with and without the fence, and an outsider who must not be touched.

Runs in: pytest. May call: the launcher, the harness.
Owns: the directory the program may not change, the outsider.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gdbrr import abi
from gdbrr.launch import spawn
from gdbrr.launch.engine import Engine
from harness import ROOT, programs

LAUNCHER = ROOT / "preload" / "gdbrr-launch"
REFUSED = {"EPERM", "EACCES", "ENOSYS"}


@contextmanager
def outsider() -> Iterator[subprocess.Popen[bytes]]:
    """A process of the same user that has nothing to do with the replay."""
    process = subprocess.Popen(["sleep", "600"])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


class Yard:
    """A directory with one precious file in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reset()

    def reset(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir()
        precious = self.path / "precious"
        precious.write_text("precious\n")
        os.utime(precious, (1, 1))
        self._before = self._look()

    def _look(self) -> object:
        found = {}
        for path in self.path.rglob("*"):
            st = path.stat()
            content = path.read_bytes() if path.is_file() else b""
            found[path.name] = (content, st.st_mode, st.st_uid, st.st_mtime, os.listxattr(path))
        return found

    def assert_untouched(self) -> None:
        assert self._look() == self._before


def under(tmp_path: Path, rules: Sequence[str]) -> Path:
    """A launcher that works below the refusals of tests/programs/sandbox.c."""
    if not rules:
        return LAUNCHER
    script = tmp_path / f"launch-{'-'.join(rules)}"
    script.write_text(f'#!/bin/sh\nexec {programs.build("sandbox")} {" ".join(rules)} -- {LAUNCHER} "$@"\n')
    script.chmod(0o755)
    return script


class Run:
    """One program under the launcher, in the mode of a recording or of a replay but without the engine."""

    def __init__(
        self, tmp_path: Path, argv: Sequence[str], *, fence: bool, flags: int = 0, rules: Sequence[str] = ()
    ) -> None:
        self.out = tmp_path / "out"
        self._before = _children()
        for name in ("ctl", "data"):
            (tmp_path / name).unlink(missing_ok=True)
        (tmp_path / "data").write_bytes(bytes(abi.lib.GR_UNIT))
        with abi.map_ctl(tmp_path / "ctl", create=True) as page, open(self.out, "wb") as out:
            page.c.mode = abi.lib.GR_MODE_REPLAY if fence else abi.lib.GR_MODE_RECORD
            page.slot(0).flags = flags
            start = spawn.Start(
                argv[0], argv, ["PATH=/usr/bin:/bin"], None, bytes(16), spawn.stack_limit(), die_with_parent=True,
                no_core=True, stdio=(0, out.fileno(), 2),
            )  # fmt: skip
            engine = Engine(tmp_path / "libgdbrr.so", under(tmp_path, rules))
            self.pid = spawn.launch(engine, start, page, tmp_path / "ctl", tmp_path / "data")

    def wait(self) -> dict[str, str]:
        """What the outlaw says about its deeds. A child that it gave to this process ends with it."""
        os.waitpid(self.pid, 0)
        for pid in _children() - self._before:
            os.waitpid(pid, 0)
        return dict(line.split(" ") for line in self.out.read_text().splitlines())


def _children() -> set[int]:
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


def deeds() -> list[str]:
    """Those that must be refused; the last six of the program's list must not."""
    return _all()[:-6]


def harmless() -> list[str]:
    return _all()[-6:]


def _all() -> list[str]:
    text = programs.find("outlaw").read_text()
    return [part.partition(")")[0] for part in text[text.index("} deeds[] = {") :].split("DEED(")[2:]]
