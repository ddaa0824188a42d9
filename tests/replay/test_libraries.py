"""Libraries lie where they lay while recording, also where the loader's cache has another size by now.

Runs in: pytest. May call: gdbrr record; replays that stand still.
Owns: nothing.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from confine.forge import forge
from gdbrr.demo.reader import Demo
from gdbrr.launch import host
from gdbrr.launch.replay import standing_at
from harness import programs
from harness.run import gdbrr

PAGE = 4096


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    demo = tmp_path_factory.mktemp("libraries") / "x.demo"
    gdbrr("record", "-o", demo, "--", programs.build("spine")).expect(0)
    return demo


def recorded_with(demo: Path, place: Path, pages: int | None) -> Path:
    """The demo, as if the cache had had so many pages."""
    with Demo.open(demo) as opened:
        facts = {name: fact for name, fact in opened.manifest["host"].items() if name != "cache_pages"}
    return forge(demo, place / f"{pages}.demo", host=facts if pages is None else {**facts, "cache_pages": pages})


def maps(demo: Path) -> list[tuple[int, int, str, str]]:
    """Address, length, permissions and file of what the kernel has found a place for, in front of the first tick."""
    with Demo.open(demo) as opened, standing_at(opened, 1, trust=False, limit=60) as replay:
        assert replay
        text = Path(f"/proc/{replay.pid}/maps").read_text()
        rows = re.findall(r"^(7f\w+)-(\w+) (\S+) \S+ \S+ \S+ *(.*)$", text, re.M)
        return [(int(start, 16), int(end, 16) - int(start, 16), perms, name) for start, end, perms, name in rows]


@pytest.mark.parametrize("more", [-1, 1, 70])
def test_they_lie_as_if_the_cache_were_the_recorded_one(more: int, demo: Path, tmp_path: Path) -> None:
    """Which of them the cache moves depends on the kernel: some lie in front of it, or where it has no room."""
    plain, moved = maps(demo), maps(recorded_with(demo, tmp_path, host.cache_pages() + more))
    assert [row[1:] for row in moved] == [row[1:] for row in plain]  # nothing is left of what stood in for it
    assert {before[0] - after[0] for before, after in zip(plain, moved, strict=True)} == {0, more * PAGE}


def test_control_without_the_fact_they_stay(demo: Path, tmp_path: Path) -> None:
    assert maps(recorded_with(demo, tmp_path, None)) == maps(demo)


def test_a_size_that_is_none_is_ignored(demo: Path, tmp_path: Path) -> None:
    for pages in (-1, 1 << 40):
        assert gdbrr("replay", recorded_with(demo, tmp_path, pages)).expect(0).out
