"""A long file wants to be two, and a full folder as well."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping

from harness import ROOT
from lint import sources

PYTHON_LINES = 400
C_LINES = 500
FILES_IN_A_FOLDER = 15
LIMITS = {".py": PYTHON_LINES, ".c": C_LINES, ".h": C_LINES, ".S": C_LINES, ".cc": C_LINES}
# Folders that hold one small file per case.
FLAT = {"tests/programs", "tests/unit", "tests/golden"}


def long_files(files: Mapping[str, str]) -> list[str]:
    found = []
    for path, text in files.items():
        suffix = path[path.rfind(".") :]
        lines = len(text.splitlines())
        if suffix in LIMITS and lines > LIMITS[suffix]:
            found.append(f"{path}: {lines} lines, more than {LIMITS[suffix]}")
    return found


def full_folders(paths: Iterable[str]) -> list[str]:
    counts = collections.Counter(path.rpartition("/")[0] for path in paths)
    return [
        f"{folder}: {count} files, more than {FILES_IN_A_FOLDER}"
        for folder, count in sorted(counts.items())
        if count > FILES_IN_A_FOLDER and folder not in FLAT
    ]


def test_no_file_is_long() -> None:
    paths = [path for path in sources.project_files() if path.suffix in LIMITS]
    assert long_files({str(path.relative_to(ROOT)): path.read_text() for path in paths}) == []


def test_no_folder_is_full() -> None:
    assert full_folders(str(path.relative_to(ROOT)) for path in sources.project_files()) == []


def test_check_sees_long_file() -> None:
    assert len(long_files({"a.py": "x\n" * (PYTHON_LINES + 1), "b.c": "x\n" * C_LINES})) == 1


def test_check_sees_full_folder() -> None:
    assert len(full_folders(f"gdbrr/x/{number}.py" for number in range(FILES_IN_A_FOLDER + 1))) == 1
