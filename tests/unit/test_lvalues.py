"""What an expression depends on, found without GDB."""

from __future__ import annotations

import datetime

import pytest

from gdbrr.errors import GdbrrError
from gdbrr.ingdb.commands.goto import unix_time
from gdbrr.ingdb.watched.lvalues import member, names, parts


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x", []),
        ("head->next->key", ["head", "head->next"]),
        ("*p", ["p"]),
        ("list[i].x", ["list", "i", "list[i]"]),
        ("*(int *)0x1234", ["(int *)0x1234"]),
        ("a + b * c", ["a", "b", "c"]),
        ("(T*)p", ["p"]),
        ("*(char (*)[5])q", ["q", "(char (*)[5])q"]),
        ("*(T(*)[2][3]) 0x1234", ["(T(*)[2][3]) 0x1234"]),
        ("(a)*b", ["a", "b"]),
        ("((struct node*)q)->key", ["q", "(struct node*)q"]),
        ("v[i][j+1]", ["v", "i", "v[i]", "j"]),
        ("N::v.field", ["N::v"]),
        ("p->x@3", ["p", "p->x"]),
        ("**pp", ["pp", "*pp"]),
        # What is not understood is left whole.
        ("sizeof(int)", []),
        ("a <", []),
        ("lambda: 1 2", []),
        ("(" * 300, []),
    ],
)
def test_parts(text: str, found: list[str]) -> None:
    whole, *others = parts(text, lambda name: name == "T")
    assert whole == text
    assert set(found) <= set(others), others
    assert len(others) <= len(found) + 1


@pytest.mark.parametrize("text", ["f(x)", "p->f(1)", "a = 3", "i++", "--i", "a <<= 2"])
def test_what_would_do_something_is_refused(text: str) -> None:
    with pytest.raises(GdbrrError, match=r"calls a function|would change something"):
        parts(text)


def test_names_are_no_members() -> None:
    assert names("a->b.c + N::d[e]") == ["a", "N::d", "e"]


def test_a_time_of_day_is_of_the_day_of_the_recording() -> None:
    started = datetime.datetime(2026, 11, 18, 14, 0, 0).timestamp()
    assert unix_time("14:03:05.5", started) == started + 185.5
    assert unix_time("2026-11-19T00:00", started) == started + 10 * 3600
    assert unix_time("2026-11-19 00:00", started) == started + 10 * 3600
    with pytest.raises(GdbrrError, match="does not tell when"):
        unix_time("14:03", None)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a.b", ("a", "b")),
        ("p->next[i].key", ("p->next[i]", "key")),
        ("((*p).flags)", ("(*p)", "flags")),
        ("((T *) p)->x", ("((T *) p)", "x")),
        ("a.b + c.d", None),
        ("-a.b", None),
        ("(a).b + (c.d)", None),
        ("a.b[1]", None),
        ("a", None),
        ("a{", None),
    ],
)
def test_a_member_as_a_whole(text: str, found: tuple[str, str] | None) -> None:
    assert member(text, lambda name: name == "T") == found
