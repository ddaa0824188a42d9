"""Going back behind the end of the main thread, from GDB."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import programs
from harness.run import gdbrr

from .session import session

pytestmark = pytest.mark.needs("gdb", "gdbserver")


def test_main_has_left_and_is_not_listed(tmp_path: Path) -> None:
    program = programs.build("leader_leaves")
    demo = tmp_path / "x.demo"
    gdbrr("record", "-o", demo, "--", program).expect(0)
    out = session(
        program,
        f"rr-replay {demo}",
        "info threads",
        "watch counter",
        "reverse-continue",
        'printf "AT %d\\n", counter',
        "info threads",
        "bt",
        *["reverse-continue"] * 15,
        'printf "MAIN %d\\n", counter',
        "bt 2",
    )
    listed = [re.findall(r"^[* ] +\d+ +Thread", part, re.M) for part in re.split(r"AT \d+", out)]
    assert "AT 20" in out and [len(part) for part in listed] == [1, 1] and "heir" in out, out
    live = session(
        program,
        "break late",
        "rr-start",
        "info threads",
        "watch counter",
        "reverse-continue",
        'printf "AT %d\\n", counter',
        "rr-live",
        "delete",
        "continue",
    )
    assert len(re.findall(r"^[* ] +\d+ +Thread", live, re.M)) == 2 and "AT 10" in live and "exited normally" in live, (
        live
    )
    assert re.search(r"MAIN 5\n(?s:.*)in main \(\)", out), out
