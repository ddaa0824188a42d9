"""What GDB reads of the process behind a replay: its files in /proc, and a core dump without the engine."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from harness import programs
from harness.run import gdbrr, run

from .session import whole

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")

MOST = 20 << 20


@pytest.mark.parametrize("how", ["replayed", "recorded"])
def test_a_core_dump_of_a_moment(tmp_path: Path, how: str) -> None:
    program, demo, core = programs.build("past_calls"), tmp_path / "x.demo", tmp_path / "core"
    gdbrr("record", "-o", demo, "--", program).expect(0)
    start = (f"rr-replay {demo}", "break holding", "reverse-continue")
    out = whole(
        program,
        *(start if how == "replayed" else ("break holding", "rr-start")),
        *("info proc", f"gcore {core}", "print total"),
        *("thread apply all -q backtrace 1", "info proc mappings", "stepi", "rr-when"),
    )
    assert f"exe = '{program}'" in out
    assert "libgdbrr.so" in out, "the engine's code is a library like others"
    starts = [int(start, 16) for start in re.findall(r"^ *0x([0-9a-f]+) +0x[0-9a-f]+ +0x", out, re.MULTILINE)]
    assert starts and not [start for start in starts if 0x20 <= start >> 40 < 0x2A], "its memory is nobody's business"
    assert re.search(r"^(tick|recording:) \d+", out[out.rindex("Mapped") :], re.MULTILINE), out
    assert 0 < core.stat().st_size < MOST
    total = re.search(r"^\$1 = (\d+)$", out, re.MULTILINE)
    assert total, out
    words = ["-ex", "print total", "-ex", "thread apply all -q backtrace 1", "-ex", "print *stdout"]
    looked = run("gdb", "-nx", "-batch", *words, program, core, limit=60).out
    assert f"$1 = {total[1]}\n" in looked, looked
    frames = sorted(re.findall(r"^#0 .*? (?:in )?(\w+) \(", looked, re.MULTILINE))
    assert len(frames) >= 3 and "holding" in frames, looked


def test_threads_of_a_core_dump_have_their_registers_and_variables(tmp_path: Path) -> None:
    """The C library's own word for who is who is the process's, which is gone; the ids are the recording's everywhere.
    What the engine keeps in its library is not the program's."""
    program, demo, core = programs.build("scenes", ["-O0"]), tmp_path / "x.demo", tmp_path / "core"
    gdbrr("record", "-o", demo, "--", program, "deadlock").expect(4)
    look = ("thread apply all -q print mine", "thread apply all -q backtrace 1")
    there = ("thread apply all -q set var mine = $_gthread * 7", f"gcore {core}", r"echo LOOK\n", *look)
    out = whole(program, f"rr-replay {demo}", *there).partition("LOOK\n")[2]
    words = [word for line in ("set width 0", *look, "info sharedlibrary") for word in ("-ex", line)]
    looked = run("gdb", "-nx", "-batch", *words, program, core, limit=60)
    listed = looked.out[looked.out.index("\n$1 ") :]  # behind the frame that GDB shows first
    values, frames = r"^\$\d+ = (\d+)$", r"^#0 .*? (?:in )?(\w+) \("
    for shown, count in ((values, 3), (frames, 3)):
        found = [sorted(re.findall(shown, text, re.MULTILINE)) for text in (out, listed)]
        assert len(found[0]) == count and found[0] == found[1], (out, looked)
    assert sorted(re.findall(values, out, re.MULTILINE)) == ["14", "21", "7"], out
    assert "general-purpose registers" not in looked.err and "unavailable" not in looked.out, looked
    code = re.search(r"^0x(\w+) .*/libgdbrr\.so$", looked.out, re.MULTILINE)
    assert code is not None, looked
    parts = run("readelf", "-lW", core).expect(0).out
    written = [int(start, 16) - int(code[1], 16) for start in re.findall(r"LOAD +\S+ 0x(\w+) .* RW ", parts)]
    assert written and not [start for start in written if 0 <= start < 6 << 20], parts


@pytest.mark.parametrize("how", ["replayed", "recorded"])
def test_nobody_is_missing_behind_the_kernels_own_library(tmp_path: Path, how: str) -> None:
    """The engine replaces its functions; the unwind tables that came with them would leave out who called."""
    program, demo = programs.build("spine"), tmp_path / "x.demo"
    gdbrr("record", "-o", demo, "--", program).expect(0)
    start = (f"rr-replay {demo}",) if how == "replayed" else ("break puts_total", "rr-start")
    out = whole(program, *start, *(word for tick in range(40, 52) for word in (f"rr-goto {tick}", "backtrace 4")))
    inside = re.findall(r"^#0  0x\w+ in clock_gettime \(\)\n(#1 .*)\n(#2 .*)$", out, re.MULTILINE)
    assert len(inside) >= 2, out
    assert all("clock_gettime" in one and " in work (" in two for one, two in inside), out


def test_what_is_kept_is_for_nobody_else(tmp_path: Path) -> None:
    """A demo holds what its program read. A copy of one has the rights that its owner gave it."""
    program, first, second = programs.build("past_values"), tmp_path / "first.demo", tmp_path / "second.demo"
    before = os.umask(0)
    try:
        out = whole(program, "break fibonacci", "rr-start", f"rr-save {first}")
        assert first.stat().st_mode & 0o777 == 0o600, out
        first.chmod(0o640)
        out = whole(program, f"rr-replay {first}", f"rr-save {second}", f"rr-replay {second}", "rr-when")
    finally:
        os.umask(before)
    assert second.stat().st_mode & 0o777 == 0o640 and "(100%)" in out, out


def test_what_is_no_demo_leaves_the_open_one_alone(tmp_path: Path) -> None:
    """One that is shorter than a head, one that has another, one whose end is missing, and one that is open already."""
    program, demo = programs.build("past_values"), tmp_path / "x.demo"
    gdbrr("record", "-o", demo, "--", program).expect(0)
    (tmp_path / "short").write_bytes(b"x")
    (tmp_path / "other").write_bytes(bytes(4096))
    (tmp_path / "cut").write_bytes(demo.read_bytes()[:600])
    wrong = [f"rr-replay {tmp_path / name}" for name in ("short", "other", "cut")]
    out = whole(
        program, f"rr-replay {demo}", "rr-goto 20", "echo HERE\\n", *wrong, "rr-when", "reverse-stepi", "rr-when"
    )
    here = out.partition("HERE")[2]
    assert here.count("rr-replay: ") == 3 and re.search(r"^tick 20 of ", here, re.MULTILINE), out
    assert "no demo is open" not in out and re.search(r"^tick 1\d:", here, re.MULTILINE), out
    # Nor does it end a recording.
    out = whole(program, "break fibonacci", "rr-start", "delete", *wrong, "rr-when", "continue")
    assert "recording: " in out and "exited normally" in out and "killed" not in out, out
