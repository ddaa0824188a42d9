"""The line that tells how far a command is, as each place for it wants it."""

from __future__ import annotations

from gdbrr.rsp.link import Manner, Where


def test_progress_is_shown_as_its_place_wants_it() -> None:
    """Where GDB draws nothing but that text is touched; to a front end each line is a whole record."""
    drawn, front = Where("", Manner.DRAWN), Where("", Manner.MI)
    assert drawn.shown("gdbrr: 5%", "gdbrr: 100%") == "\0337\033[?7l  gdbrr: 5%  \033[?7h\0338"
    assert drawn.cleared("gdbrr: 5%") == "\0337\033[?7l           \033[?7h\0338"
    assert front.shown("gdbrr: 5%", "") == '~"gdbrr: 5%\\n"\n' and front.cleared("gdbrr: 5%") == ""
