"""Every source file begins by saying what it is for, where it runs, what it may call and what it owns."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from harness import ROOT
from lint import sources

WORDS = ("Runs in:", "May call:", "Owns:")
C_HEADER_LINES = 12


def python_header(text: str) -> str:
    return ast.get_docstring(ast.parse(text)) or ""


def c_header(text: str) -> str:
    lines = text.splitlines()
    header = []
    for line in lines:
        if not line.startswith("//"):
            break
        header.append(line)
    return "\n".join(header[:C_HEADER_LINES])


def complaint(path: Path, text: str) -> str | None:
    if path.suffix == ".py":
        if not text.strip():
            return None  # an empty __init__.py
        header = python_header(text)
    else:
        header = c_header(text)
    missing = [word for word in WORDS if word not in header]
    return f"{path}: its header does not say {' '.join(missing)}" if missing else None


def test_every_file_has_its_header() -> None:
    files = [*sources.python_files("gdbrr", "bench", "gdbinit.py"), *sources.c_files()]
    complaints = [complaint(path.relative_to(ROOT), path.read_text()) for path in files]
    assert [text for text in complaints if text] == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.py", '"""What it is for."""\n'),
        ("x.py", "# Runs in: GDB. May call: nothing. Owns: nothing.\nimport os\n"),
        ("x.c", "#include <stdio.h>\n// Runs in: here\n// May call: nothing\n// Owns: nothing\n"),
    ],
)
def test_check_sees_missing_header(name: str, text: str) -> None:
    assert complaint(Path(name), text) is not None


def test_check_accepts_empty_package() -> None:
    assert complaint(Path("gdbrr/x/__init__.py"), "") is None
