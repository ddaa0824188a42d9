"""Bookmarks beside a demo."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdbrr.errors import GdbrrError
from gdbrr.rsp.process.marks import Marks
from gdbrr.timeline.model import Moment


def test_they_are_there_in_the_next_session(tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    Marks(demo).add("here", Moment(3, 0x1000, 2))
    Marks(demo).add("there", Moment(7))
    assert Marks(demo).all() == {"here": Moment(3, 0x1000, 2), "there": Moment(7)}
    Marks(demo).remove("here")
    assert Marks(demo).find("there") == Moment(7)
    with pytest.raises(GdbrrError, match=r"there is no bookmark here\. Known are: there"):
        Marks(demo).find("here")
    assert [path.name for path in tmp_path.iterdir()] == ["x.demo.marks"]


def test_those_of_a_recording_go_along_when_it_is_saved(tmp_path: Path) -> None:
    marks = Marks()
    marks.add("here", Moment(3))
    marks.copy_beside(tmp_path / "x.demo")
    assert Marks(tmp_path / "x.demo").all() == {"here": Moment(3)}
    assert [path.name for path in tmp_path.iterdir()] == ["x.demo.marks"]
    marks.add("later", Moment(5))
    assert Marks(tmp_path / "x.demo").all() == {"here": Moment(3), "later": Moment(5)}
    marks.copy_beside(tmp_path / "y.demo")
    marks.add("last", Moment(7))
    assert set(Marks(tmp_path / "y.demo").all()) == {"here", "later", "last"}


def test_those_of_a_demo_that_was_there_before_do_not_stay(tmp_path: Path) -> None:
    Marks(tmp_path / "x.demo").add("here", Moment(3))
    marks = Marks()
    marks.copy_beside(tmp_path / "x.demo")
    assert marks.all() == {} and not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["", "3s", "50%", "a b", "../x", "a/b", "x" * 99])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(GdbrrError, match=r"cannot be a bookmark's name"):
        Marks().add(name, Moment(1))


@pytest.mark.parametrize("name", ["start", "end", "live", "e3"])
def test_names_that_mean_something_else_are_refused(name: str) -> None:
    with pytest.raises(GdbrrError, match=f"{name} has a meaning already"):
        Marks().add(name, Moment(1))


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": 3, "b": "x", "../c": "4", "start": "5"}', "[" * 100000, "\0"])
def test_what_somebody_else_wrote_is_not_believed(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.demo.marks").write_text(text)
    assert Marks(tmp_path / "x.demo").all() == {}


def test_where_nothing_can_be_written_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(GdbrrError, match="cannot be written"):
        Marks(tmp_path / "missing" / "x.demo").add("here", Moment(1))
