"""The stage: a program, a demo of it with twelve canned moments, and the stub that serves it."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import programs
from harness.run import run
from ingdb.stage import STUB, Stage


@pytest.fixture(scope="session")
def program() -> tuple[Path, dict[str, int]]:
    """The program, and where breakpoints at its functions are."""
    path = programs.build("back_stub", ["-no-pie"])
    names = ("main", "deposit", "withdraw")
    words: list[str] = []
    for name in names:
        words += ["-ex", f"break {name}"]
    out = run("gdb", "-batch", "-nx", *words, "-ex", "print &balance", path).out
    found = [int(each, 16) for each in re.findall(r"^Breakpoint \d+ at (0x\w+)", out, re.MULTILINE)]
    code = dict(zip(names, found, strict=True))
    variable = re.search(r"(0x\w+) <balance>", out)
    assert variable
    return path, {**code, "balance": int(variable[1], 16)}


@pytest.fixture
def stage(tmp_path: Path, program: tuple[Path, dict[str, int]]) -> Iterator[Stage]:
    path, code = program
    # Twelve moments: the value behind a change is that of the next moment.
    script = [("main", 0, 0), ("main", 0, 0), ("deposit", 0, 0), ("main", 100, 0), ("withdraw", 100, 1),
              ("main", 20, 0), ("main", 20, 0), ("withdraw", 20, 1), ("main", -30, 0), ("main", -30, 0),
              ("main", -30, 0), ("main", -30, 0)]  # fmt: skip
    moments = [{"pc": code[name], "value": value, "thread": thread} for name, value, thread in script]
    (tmp_path / "moments").write_text(json.dumps(moments))
    (tmp_path / "x.demo").touch()
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STUB}" "$@"\n')
    python.chmod(0o755)
    # Not below tmp_path: a socket's path has 107 bytes and no more.
    private = Path(tempfile.mkdtemp())
    env = {
        "STUB_MOMENTS": str(tmp_path / "moments"),
        "STUB_NOTES": str(tmp_path / "notes"),
        "STUB_PROGRAM": str(path),
        "STUB_VARIABLE": f"{code['balance']:x}",
        "XDG_RUNTIME_DIR": str(private),
    }
    yield Stage(tmp_path, path, code, env, private)
    shutil.rmtree(private)
