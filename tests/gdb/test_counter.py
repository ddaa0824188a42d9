"""The time stamp counter under GDB: its instruction is one step in both directions, its fault nobody's business."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import programs
from harness.run import gdbrr

from .session import session

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")


def test_one_step_over_the_instruction_in_both_directions(tmp_path: Path) -> None:
    program, demo = programs.build("tsc_spin"), tmp_path / "x.demo"
    gdbrr("record", "--set", "tsc=record", "-o", demo, "--", program).expect(0)
    show = ("x/i $pc", "rr-when")
    out = session(
        program,
        *(f"rr-replay {demo}", "break counter", "reverse-continue", *show),
        *("stepi", *show, r'printf "READ %lu %lu\n", $rax, $rdx'),
        *("reverse-stepi", *show, "delete", "stepi", *show, r'printf "READ %lu %lu\n", $rax, $rdx'),
        *("reverse-stepi", "reverse-stepi", *show, "stepi", *show),
    )
    steps = re.findall(r"^=> 0x\w+ <counter(?:\+(\d+))?>:\t(\S+)", out, re.MULTILINE)
    names = [name for _, name in steps]
    assert names[:4] == ["rdtsc", "mov", "rdtsc", "mov"] and names[5] == "rdtsc" and steps[4] < steps[5], out
    reads = re.findall(r"^READ (\d+) (\d+)", out, re.MULTILINE)
    assert len(reads) == 2 and reads[0] == reads[1] and reads[0] != ("0", "0"), out
    ticks = [int(tick) for tick in re.findall(r"^tick (\d+)", out, re.MULTILINE)][1:]
    assert ticks == [ticks[0], *[ticks[0] + 1] * 3, ticks[0], ticks[0]], "shown in front of its tick"
    assert "SIGSEGV" not in out


def test_back_to_the_write_of_what_was_read(tmp_path: Path) -> None:
    program, demo = programs.build("tsc_spin"), tmp_path / "x.demo"
    gdbrr("record", "--set", "tsc=record", "-o", demo, "--", program, "2").expect(0)
    out = session(
        program,
        *(f"rr-replay {demo}", r'printf "END %lu\n", newest', "watch newest", "reverse-continue", "bt 1"),
        *(r'printf "OLD %lu\n", newest', "delete", "finish", r'printf "AGAIN %lu\n", newest'),
    )
    end, old, again = (re.search(rf"^{word} (\d+)", out, re.MULTILINE) for word in ("END", "OLD", "AGAIN"))
    assert end and old and again, out
    assert end[1] == again[1] != old[1]
    assert "note (value=" in out and "SIGSEGV" not in out


def test_recorded_from_gdb_with_a_breakpoint_at_the_instruction() -> None:
    program = programs.build("tsc_spin")
    out = session(
        program,
        *("break counter", "rr-start --set tsc=record", "x/i $pc", "stepi", "x/i $pc", "delete", "break note"),
        *("continue", r'printf "LIVE %lu\n", value', "rr-goto start", "continue", r'printf "PAST %lu\n", value'),
    )
    assert re.findall(r"^=> 0x\w+ <counter\+\d+>:\t(\S+)", out, re.MULTILINE) == ["rdtsc", "mov"], out
    live, past = (re.search(rf"^{word} (\d+)", out, re.MULTILINE) for word in ("LIVE", "PAST"))
    assert live and past and live[1] == past[1] != "0", out
    assert "SIGSEGV" not in out
