"""What other tools say about the sources: compilers, ruff, mypy, shellcheck, and the generators of pages."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness import ROOT
from harness.run import run
from lint import sources

pytestmark = pytest.mark.limit(300)


def test_engine_compiles_without_a_warning(tmp_path: Path) -> None:
    run("make", "-C", ROOT, f"BUILD={tmp_path}", "WERROR=-Werror", "engine", limit=280).expect(0)


@pytest.mark.needs("g++")
def test_test_programs_compile_without_a_warning() -> None:
    from harness import programs

    names = [path.stem for path in sources.project_files() if path.parent == programs.SOURCES and path.suffix != ".h"]
    assert names
    for name in names:
        programs.build(name, ["-ldl"])


def test_ruff() -> None:
    run(sys.executable, "-m", "ruff", "check", "--no-cache", ROOT, cwd=ROOT).expect(0)


def test_mypy() -> None:
    run(sys.executable, "-m", "mypy", "--strict", "gdbrr", cwd=ROOT, limit=280).expect(0)


@pytest.mark.needs("shellcheck")
def test_shellcheck() -> None:
    scripts = [path for path in sources.project_files() if path.suffix == ".sh" or is_shell(path)]
    assert ROOT / ".ci" / "setup" in scripts
    run("shellcheck", "-s", "sh", *scripts, cwd=ROOT).expect(0)


def is_shell(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.readline().rstrip() in (b"#!/bin/sh", b"#!/bin/bash")


@pytest.mark.parametrize("module", ["gdbrr.report.docs", "gdbrr.ingdb.docs"])
def test_generated_pages_are_fresh(module: str) -> None:
    run(sys.executable, "-m", module, "--check", cwd=ROOT).expect(0)
