"""Watched places of more bytes than debug registers hold, forwards and back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import programs
from harness.said import NO_MORE

from .session import recorded, whole

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")

WIDE = "watched_wide"
SOURCE = (programs.SOURCES / f"{WIDE}.c").read_text().splitlines()
SHOWN = "set max-value-size unlimited", "set print elements 4"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(programs.build(WIDE), tmp_path_factory.mktemp("wide"))


def played(demo: Path, *commands: str) -> str:
    return whole(programs.build(WIDE), f"rr-replay {demo}", *SHOWN, *commands)


def moments(out: str) -> list[str]:
    return re.findall(r"^tick (\S+) of", out, re.MULTILINE)


def test_every_change_forwards_and_back(demo: Path) -> None:
    """Of 20,000 bytes, among them one that changes and changes back between two operations; what stands beside them
    changes all the time."""
    python = "python for command in ['continue'] * 6 + ['reverse-continue'] * 6: gdb.execute(command)"
    out = played(demo, "rr-goto start", "watch area.data", python)
    stops = re.findall(
        r"Hardware watchpoint 1: .*\n\nOld value = .*\nNew value = .*\n(?:.* in )?main \(\) at \S+:(\d+)", out
    )
    assert len(stops) == 10, out
    assert len(NO_MORE.findall(out)) == 2, out
    # Forwards it stops behind the store of a line, backwards in front of it.
    changed, flipped = "data[", "data[17777] ="
    text = [SOURCE[int(line) - 1] for line in stops[5:]]
    assert [flipped in line for line in text] == [False, True, True, False, False] and all(
        changed in line for line in text
    )


def test_which_byte_it_was(demo: Path) -> None:
    out = played(demo, *["rr-back -w area.data"] * 6, "rr-history -n 2 area.data")
    assert len(re.findall(r"at watched_wide.c:\d+ by thread 1", out)) == 5, out
    assert "does not change before here" in out, out


def test_which_part_of_it_changed(demo: Path) -> None:
    """As the program computes it; GDB shows the first elements of an array only."""
    out = played(
        demo, "rr-history area.data", "rr-history --json area", "rr-back -w area.data", "rr-back 2 -w area.data"
    )
    data = [f"data[{(i + 1) * 7919 % 20000}]" for i in (23, 13, 3)]
    told = [(data[0], 1, 0), ("data[17777]", 0, 5), ("data[17777]", 5, 0), (data[1], 1, 0), (data[2], 1, 0)]
    rows = re.findall(r"^area\.(data\[\d+\]) = (\d+) .*? \(was (\d+) ", out, re.MULTILINE)
    assert [(name, int(new), int(old)) for name, new, old in rows] == told, out
    parts = re.findall(r'"part": "area\.(.*?)"', out)
    assert [part for part in parts if part.startswith("data")] == [name for name, *_ in told], out
    assert parts.count("before") == parts.count("behind") == 24, out
    steps = re.findall(r"^area\.(data\[\d+\]): .*? -> .*? at watched_wide.c:\d+ by thread", out, re.MULTILINE)
    assert steps == [told[0][0], told[2][0]], out


def test_one_instruction_may_fill_it(demo: Path) -> None:
    """A repeated string instruction is one change, behind which there is a moment."""
    out = played(
        demo,
        *("rr-goto start", "watch filled", "continue", "rr-when", "print filled[0] + filled[8999]"),
        *("reverse-continue", "rr-when", "print filled[0] + filled[8999]", "continue", "rr-when", "continue"),
    )
    assert re.findall(r"^\$\d+ = (\d+)$", out, re.MULTILINE) == ["2", "0"], out
    _, _, behind, before, again = moments(out)
    assert behind == again != before and behind.split(":")[0] == before.split(":")[0], out
    assert NO_MORE.search(out), out


def test_beside_a_breakpoint_and_a_step(demo: Path) -> None:
    out = played(
        demo,
        *("break pause_here", "rr-goto start", "watch area.data", *["continue"] * 5, "delete 1", "finish", "next"),
        *("reverse-next", "info watchpoints"),
    )
    stops = re.findall(r"^\n(Breakpoint|Hardware) ", out, re.MULTILINE)
    assert stops == [*["Breakpoint"] * 3, "Hardware", "Breakpoint"], out
    assert "already hit 1 time" in out, out


def test_a_watchpoint_knows_what_the_place_holds_where_one_has_gone(demo: Path) -> None:
    """GDB takes a change to the value that it holds for none: that of the end would hide the only change."""
    out = played(demo, "watch filled[8999]", "rr-goto start", "continue", "print filled[8999]")
    assert "Old value = 0 '\\000'\nNew value = 1 '\\001'" in out and "$1 = 1 " in out, out


def test_moves_with_a_watchpoint_that_gdb_steps_for(demo: Path) -> None:
    out = played(
        demo,
        *("set can-use-hw-watchpoints 0", "rr-goto start", "break pause_here", "continue", "up", "watch i", "delete 1"),
        *("rr-goto 50%", "rr-when", "rr-goto 25%", "rr-when", "watch area.before", "rr-goto 50%", "reverse-continue"),
    )
    assert "Watchpoint 2: i" in out and moments(out)[-5:] == ["28", "28", "14", "14", "28"], out
    assert re.search(r"Watchpoint 3: area.before\n\nOld value = (\d+)\nNew value = (\d+)\n", out), out


READS = "watched_reads"
HELD = "*(char (*)[60000]) (area.data + 4)"


@pytest.fixture(scope="module")
def reads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(programs.build(READS), tmp_path_factory.mktemp("reads"))


def told(out: str) -> list[str]:
    """In which function each stop for a watched place is."""
    what = r"^Hardware (?:access|read) .*\n\n(?:Old value .*\nNew value|Value) .*\n(?:0x\w+ in )?(\w+|\?\?) \("
    return re.findall(what, out, re.MULTILINE)


def test_each_access_forwards_and_back(reads: Path) -> None:
    """Of 60,000 bytes. What stores is in front of the call; what lies beside the place is not told."""
    out = whole(
        programs.build(READS),
        *(f"rr-replay {reads}", *SHOWN, "rr-goto start", f"awatch {HELD}", *["continue"] * 4),
        *["reverse-continue"] * 5,
    )
    code = ["across", "repeated", "swapped"]
    # The C library's function has a name only where its symbols are installed.
    stops = ["read" if name.endswith(("read", "??")) else name for name in told(out)]
    assert stops == [*code, "read", "read", *code[::-1]], out
    assert len(NO_MORE.findall(out)) == 1, out


def test_a_step_over_a_read_tells_it(reads: Path) -> None:
    out = whole(
        programs.build(READS),
        *(f"rr-replay {reads}", *SHOWN, "rr-goto start", "tbreak swapped", "continue", f"rwatch {HELD}"),
        *["next"] * 5,
    )
    assert told(out) == ["swapped"] and "main () at" in out and re.search(r"^\d+\s+pause_here", out, re.MULTILINE), out


GROWS = "heap_grows"


def test_each_change_of_what_a_pointer_leads_to() -> None:
    """GDB shows neither the end of such a place nor, from 64 KiB on, anything of it."""
    moves = "echo MOVES\\n", "rr-back 2 -w *place", "rr-back 5 -w place->data"
    out = whole(programs.build(GROWS), "break seen", "rr-start", "rr-history *place", *moves)
    listed, _, moved = out.partition("MOVES")
    assert re.findall(r"^\(\*place\)\.data\[(\d+)\] = \d+ '(.)'", listed, re.MULTILINE) == [
        ("0", "z"), ("49152", "e"), ("36864", "d"), ("24576", "c"), ("12288", "b"), ("0", "a"),
    ], out  # fmt: skip
    assert re.search(r"^the one at 0x[0-9a-f]+ \(was the one at 0x0\)", listed, re.MULTILINE), out
    assert re.search(r"^\(\*place\)\.data\[49152\]: 0 '\\000' -> 101 'e' at", moved, re.MULTILINE), out
    assert re.search(r"^place->data: the one at 0x0 -> the one at 0x[0-9a-f]+ at", moved, re.MULTILINE), out


@pytest.mark.parametrize("verb", ["watch", "awatch"])
def test_the_unfinished_segment_is_searched_forwards_as_well(verb: str) -> None:
    """Of a process that is being recorded, where it has stopped. A heap has gone on to the place just before."""
    watch = f"python gdb.execute('{verb} *(struct place *) %#x' % int(gdb.parse_and_eval('place')))"
    ways = [f"python for _ in range(8): gdb.execute('{way}')" for way in ("continue", "reverse-continue")]
    commands = watch, "rr-goto start", ways[0], "echo BACK\\n", ways[1]
    out = whole(programs.build(GROWS), *SHOWN, "break seen", "rr-start", *commands)
    forwards, _, back = out.partition("BACK")
    assert [each.count(" watchpoint 2: *(struct place *)") for each in (forwards, back)] == [7, 6], out
