"""A full folder wants to be two. A file is split where it has two subjects, which no number of lines tells."""

from __future__ import annotations

import collections
from collections.abc import Iterable

from harness import ROOT
from lint import sources

FILES_IN_A_FOLDER = 15
# Folders that hold one small file per case.
FLAT = {"tests/programs", "tests/unit", "tests/golden"}


def full_folders(paths: Iterable[str]) -> list[str]:
    counts = collections.Counter(path.rpartition("/")[0] for path in paths)
    return [
        f"{folder}: {count} files, more than {FILES_IN_A_FOLDER}"
        for folder, count in sorted(counts.items())
        if count > FILES_IN_A_FOLDER and folder not in FLAT
    ]


def test_no_folder_is_full() -> None:
    assert full_folders(str(path.relative_to(ROOT)) for path in sources.project_files()) == []


def test_check_sees_full_folder() -> None:
    assert len(full_folders(f"gdbrr/x/{number}.py" for number in range(FILES_IN_A_FOLDER + 1))) == 1
