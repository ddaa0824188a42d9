"""A replay leaves no file behind, whatever becomes of it: what it unpacks has no name.

Runs in: pytest. May call: gdbrr record, gdbrr replay; starts replays in this process.
Owns: nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from gdbrr.demo.reader import Demo
from gdbrr.launch import replay as replays
from gdbrr.launch import scratch
from harness import programs
from harness.run import gdbrr


class Killed(BaseException):
    """What SIGKILL is to this test: nobody tidies up behind it."""


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    path = tmp_path / "x.demo"
    gdbrr("record", "-o", path, "--", programs.build("spine")).expect(0)
    return path


def none_without_a_name(real: Any) -> Any:
    def opened(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(95, "Operation not supported")
        found: int = real(path, flags, *rest, **more)
        return found

    return opened


@pytest.mark.parametrize("knows_none", [False, True])
def test_what_was_unpacked_has_no_name(
    knows_none: bool, demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looked at in the moment in front of the program's start, where a killed replay once left it."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    seen: list[tuple[bool, list[Path]]] = []

    def launch(engine: Any, start: Any, page: Any, ctl: Path, data: Path, *rest: Any) -> int:
        seen.append((data.stat().st_size > 0, list(place.iterdir())))
        raise Killed

    monkeypatch.setattr("gdbrr.launch.spawn.launch", launch)
    if knows_none:
        monkeypatch.setattr(os, "open", none_without_a_name(os.open))
    with Demo.open(demo) as source, pytest.raises(Killed):
        replays.start(source, flags=0)
    assert seen == [(True, [])]


def test_control_a_file_with_a_name_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with scratch.directory() as made:
        assert list(tmp_path.iterdir()) == [made]
    assert not list(tmp_path.iterdir())
