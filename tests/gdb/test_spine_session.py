"""The spine, driven from GDB as a user does: recorded, gone back in, and the last write of a variable found.

Runs in: pytest. May call: gdb with gdbinit.py.
Owns: the session that has to work from the first day on.
"""

from __future__ import annotations

import re

import pytest

from harness import programs

from .session import EPOCH_TICKS, session

pytestmark = pytest.mark.needs("gdb", "gdbserver")


def values(text: str, name: str) -> list[int]:
    return [int(value) for value in re.findall(rf"{name} = (-?\d+)", text)]


def test_from_a_breakpoint_back_to_the_last_write() -> None:
    out = session(
        programs.build("spine"),
        "break puts_total",
        "rr-start",
        "rr-when",
        'printf "AT_END total = %ld turns = %ld\\n", total, turns',
        "watch total",
        "reverse-continue",
        "rr-when",
        'printf "BEFORE total = %ld turns = %ld\\n", total, turns',
        "info line",
        "rr-back",
        "rr-when",
        'printf "EPOCH turns = %ld\\n", turns',
        "delete",
        "rr-goto end",
        'printf "AGAIN total = %ld turns = %ld\\n", total, turns',
    )
    words = ("AT_END", "AGAIN", "BEFORE")
    end, again, before = (re.search(rf"{word} total = (\d+) turns = (\d+)", out) for word in words)
    assert end and again and before, out
    assert end.groups() == again.groups(), "the end of the replay is where the recording stopped"
    assert end[2] == "40" and before[2] == "39", "the last addition is undone, and what came behind it"
    old, new = values(out, "Old value")[0], values(out, "New value")[0]
    assert (str(old), str(new)) == (end[1], before[1]), "going back shows the value falling to what it was"
    assert "total += now.tv_nsec % 1000;" in out
    moments = list(dict.fromkeys(re.findall(r"^tick (\S+)", out, re.MULTILINE)))
    ticks = [int(moment.partition(":")[0]) for moment in moments]
    write, epoch, last = ticks
    assert moments[1] == str(epoch) and epoch == write // EPOCH_TICKS * EPOCH_TICKS, "rr-back: the start of this epoch"
    assert epoch <= write <= last
