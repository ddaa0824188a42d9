"""Whether a recorded program leaves a processor to what follows it."""

from __future__ import annotations

from pathlib import Path

from gdbrr.timeline.live.room import Room


def had(process: Path, **threads: float) -> None:
    """Each thread ran for the half of so many seconds, and waited for a processor for the other one."""
    for name, seconds in threads.items():
        task = process / "task" / name
        task.mkdir(parents=True, exist_ok=True)
        half = int(seconds * 5e8)
        (task / "schedstat").write_text(f"{half} {half} 17\n")


def test_there_is_room_where_threads_want_less_than_all_processors(tmp_path: Path) -> None:
    room = Room(tmp_path, 10.0, cores=2)
    had(tmp_path, a=1.0, b=0.3)
    assert room.look(11.0)
    had(tmp_path, a=2.0, b=1.3)
    assert not room.look(12.0), "both wanted to run all the time, whoever had the processors"
    had(tmp_path, a=2.5, b=1.3)
    assert room.look(13.0)
    had(tmp_path, a=3.0, b=1.3, c=1.2)
    assert not room.look(14.0), "one that was born meanwhile counts"


def test_one_processor_is_the_programs(tmp_path: Path) -> None:
    room = Room(tmp_path, 0.0, cores=1)
    had(tmp_path, a=1.0)
    assert not room.look(1.0)
    assert room.look(2.0), "it waits"


def test_there_is_room_where_nobody_counts_and_where_it_has_ended(tmp_path: Path) -> None:
    room = Room(tmp_path, 0.0, cores=1)
    assert room.look(1.0)
    (tmp_path / "task" / "a").mkdir(parents=True)
    assert room.look(2.0)
    (tmp_path / "task" / "a" / "schedstat").write_text("")
    assert room.look(3.0)
