"""Vector registers below gdbserver: those before 14 take every processor's state to be laid out as Intel's are.

Runs in: pytest. May call: gdb with gdbinit.py, gdbrr record.
Owns: nothing.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import programs
from harness.run import gdbrr

from ..session import recorded, whole

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints", "avx512")

LINE = re.compile(r"^([a-z])\1{62}$", re.MULTILINE)


def kept() -> Path:
    return programs.build("vector_kept")


def test_a_breakpoint_in_the_recorded_process_leaves_them(tmp_path: Path) -> None:
    """Else the program itself goes on with other values, and its replay is another one."""
    demo = tmp_path / "x.demo"
    out = whole(
        kept(),
        *(
            "break passed",
            "rr-start --order serial",
            r'printf "%c\n", $zmm16.v64_int8[62]',
            "continue",
            f"rr-save {demo}",
        ),
    )
    line = LINE.search(out)
    assert line and f"\n{line[1]}\n" in out, out
    assert gdbrr("replay", demo).expect(0).out == f"{line[0]}\n"


@pytest.mark.parametrize("place", ["stored", "drawn"])
def test_from_where_a_move_has_landed_they_are_stored(tmp_path: Path, place: str) -> None:
    """By the program, and by memset, which uses them where the processor has them."""
    demo = recorded(kept(), tmp_path, "--order", "serial")
    line = gdbrr("replay", demo).expect(0).out.strip()
    out = whole(kept(), f"rr-replay {demo}", f"rr-back -w {place}", "stepi", f"print {place}")
    assert f"$1 = '{line[0]}' <repeats 63 times>" in out, out
