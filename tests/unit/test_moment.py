"""Moments as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdbrr.errors import GdbrrError
from gdbrr.timeline.model import Moment

ticks = st.integers(0, (1 << 64) - 1)


@given(ticks)
def test_tick_survives_text(tick: int) -> None:
    assert Moment.parse(str(Moment(tick))) == Moment(tick)


@given(ticks, ticks, st.integers(1, 1 << 40))
def test_moment_in_a_segment_survives_text(tick: int, pc: int, nth: int) -> None:
    assert Moment.parse(str(Moment(tick, pc, nth))) == Moment(tick, pc, nth)


def test_form_is_that_of_the_glossary() -> None:
    assert str(Moment(120, 0x401136, 2)) == "120:0x401136#2"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "-1",
        "1:",
        "1:2#3",
        "1:0x2",
        "1:0x2#",
        "1:0xG#1",
        " 1",
        "1 ",
        "1:0x1#1x",
        "12e3",
        "\N{FULLWIDTH DIGIT ONE}",
    ],
)
def test_anything_else_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(GdbrrError, match="A moment is TICK") as caught:
        Moment.parse(text)
    assert repr(text) in caught.value.message
