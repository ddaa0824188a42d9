"""What a short recording and its replay do not import: modules that take longer to load than the program runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness import ROOT, programs

ALL = {
    "argparse", "array", "collections", "contextlib", "dataclasses", "difflib", "enum", "functools", "hashlib",
    "importlib", "inspect", "json", "locale", "pathlib", "random", "re", "secrets", "shutil", "signal", "site",
    "socket", "tempfile", "threading", "tomli", "tomllib", "typing",
}  # fmt: skip
NOT_IMPORTED = {
    "record": ALL | {"ctypes", "gdbrr.demo.reader"},
    "replay": ALL | {"gdbrr.report.evidence", "gdbrr.launch.record", "gdbrr.demo.pack"},
}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("startup") / "true.demo"


@pytest.mark.parametrize("verb", ["record", "replay"])
def test_what_takes_long_is_not_imported(verb: str, demo: Path) -> None:
    if verb == "replay" and not demo.exists():
        imported(["record", "-o", str(demo), "/bin/true"])
    words = ["record", "-o", str(demo), "/bin/true"] if verb == "record" else ["replay", "--quiet", str(demo)]
    names = imported(words)
    assert "gdbrr.launch.replay" in names if verb == "replay" else "gdbrr.demo.pack" in names
    assert not names & NOT_IMPORTED[verb]


def imported(words: list[str]) -> set[str]:
    """The modules that the command imports, as -X importtime lists them."""
    command = [sys.executable, "-IS", "-X", "importtime", "gdbrr/__main__.py", *words]  # as .venv/bin/gdbrr does
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    rows = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {row.rpartition("|")[2].strip() for row in rows}


def test_what_speaks_against_the_order_is_found_without_them_too(tmp_path: Path) -> None:
    """Where the program had threads, its code is looked at."""
    words = ["record", "-o", str(tmp_path / "x.demo"), str(programs.build("thread_names"))]
    names = imported(words)
    assert "gdbrr.demo.guess" in names and not names & (NOT_IMPORTED["record"] | {"subprocess"})
