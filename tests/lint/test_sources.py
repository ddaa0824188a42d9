"""The list of the project's files does not depend on git being there."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import ROOT
from lint import sources


@pytest.mark.parametrize(
    "name",
    [
        "build/obj/x.o",
        ".venv/bin/python",
        "gdbrr/_native.abi3.so",
        "preload/gdbrr-launch",
        ".git/config",
        "gdbrr/_engine/abi.def",
        "gdbrr/x/__pycache__/y.pyc",
        "lock.demo",
        "lock.demo.recording/log",
    ],
)
def test_what_is_built_is_not_ours(name: str) -> None:
    assert sources.ignored(Path(name))


@pytest.mark.parametrize("name", ["gdbrr/demo/reader.py", "preload/launch.c", ".ci/run", "tests/golden/one.demo"])
def test_sources_are_ours(name: str) -> None:
    assert not sources.ignored(Path(name))


def test_both_ways_agree() -> None:
    assert [path for path in sources.project_files() if sources.ignored(path.relative_to(ROOT))] == []
