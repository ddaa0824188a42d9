"""Moves between times at which a library is loaded and times at which it is not."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from harness import programs

from ..session import recorded, whole

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")

PENDING = ("set breakpoint pending on", "break cbrt")
# Without the C library's own symbols one of its aliases may be shown.
HIT = re.compile(r"^Breakpoint 1, .*\b(?:__)?cbrt(?:f64|f32x)?\b", re.MULTILINE)


def past(*commands: str) -> str:
    return whole(programs.build("late_library"), *PENDING, *commands)


def test_a_breakpoint_in_it_waits_where_it_is_not(tmp_path: Path) -> None:
    """INVARIANT(libraries-are-of-here): GDB knows those that are loaded where it stands."""
    demo = recorded(programs.build("late_library"), tmp_path)
    out = past(
        *(f"rr-replay {demo}", "reverse-continue", "print $before = $xmm0.v2_double[0]", "rr-goto start"),
        *("info breakpoints", "continue", "print $xmm0.v2_double[0]", "reverse-continue", "continue", "continue"),
        *("print $xmm0.v2_double[0]", "rr-goto end", "info sharedlibrary"),
    )
    assert len(HIT.findall(out)) == 4, out
    assert re.findall(r"^\$\d = (\d+)$", out, re.MULTILINE) == ["64", "27", "64"], out
    assert out.count("<PENDING>") == 1 and "cannot be inserted" not in out, out
    assert "libm.so" not in out.rpartition("From  ")[2], out


def test_a_recording_that_stopped_in_it() -> None:
    """Its end is a breakpoint of the server's own, in code that is not there at the start."""
    out = past(
        *("rr-start", "continue", "rr-goto start", "continue", "continue", "print $xmm0.v2_double[0]", "rr-goto start"),
        *("rr-goto end", "rr-goto start", "rr-live"),
    )
    assert len(HIT.findall(out)) == 3 and "nothing is recorded behind here" in out, out
    assert re.search(r"^\$1 = 64$", out, re.MULTILINE) and "cannot be inserted" not in out, out
    assert len(re.findall(r"^#0 .*\b(?:__)?cbrt(?:f64|f32x)?\b", out, re.MULTILINE)) == 2, out


def test_breakpoints_that_a_library_takes_along(tmp_path: Path) -> None:
    """INVARIANT(gone-with-its-library): GDB does not take them out when it is closed while the program runs."""
    demo = recorded(programs.build("late_library"), tmp_path)
    out = past(
        *(f"rr-replay {demo}", "reverse-continue", "continue", "rr-goto start", "continue", "print $xmm0.v2_double[0]"),
        *("reverse-continue", "continue", "continue", "continue", "delete", "rr-goto start", "continue", "rr-when"),
    )
    assert len(HIT.findall(out)) == 4 and re.search(r"^\$1 = 27$", out, re.MULTILINE), out
    assert "cannot be inserted" not in out and re.search(r"^tick (\d+) of \1 ", out, re.MULTILINE), out


def test_a_watchpoint_for_what_is_gone(tmp_path: Path) -> None:
    """By a name it goes with the library, of which GDB 16 dies otherwise; at a location it stays."""
    plugin, source = tmp_path / "plugin.so", tmp_path / "plugin.c"
    source.write_text("int state;\nint add(int more)\n{\n\tstate += more;\n\treturn state;\n}\n")
    subprocess.run(["gcc", "-g", "-shared", "-fPIC", "-o", plugin, source], check=True, timeout=60)
    main = tmp_path / "main.c"
    main.write_text(
        "#include <dlfcn.h>\n"
        "int main(void)\n{\n"
        f'\tvoid *plugin = dlopen("{plugin}", RTLD_NOW);\n'
        '\tint (*add)(int) = (int (*)(int))dlsym(plugin, "add");\n'
        "\tadd(3);\n\tadd(4);\n\treturn dlclose(plugin);\n}\n"
    )
    program = tmp_path / "main"
    subprocess.run(["gcc", "-g", "-o", program, main], check=True, timeout=60)
    out = whole(
        program,
        *("set breakpoint pending on", f"rr-replay {recorded(program, tmp_path)}", "break add", "reverse-continue"),
        *("delete", "watch state", "watch -l state", "rr-goto start", "info watchpoints", "delete", "tbreak add"),
        *("continue", "watch state", *["continue"] * 4, "info watchpoints", "rr-when"),
    )
    said = re.compile(r"^Watchpoint (\d) deleted because plugin\.so is not loaded here\. Try: watch -l state$", re.M)
    gone = said.findall(out)
    assert gone == ["2", "5"], out
    assert re.findall(r"^(\d) +hw watchpoint .*$", out, re.MULTILINE) == ["3"], out
    assert re.findall(r"^New value = (.+)$", out, re.MULTILINE) == ["3", "7", "<unreadable>"], out
    assert re.search(r"^tick (\d+) of \1 ", out, re.MULTILINE), out
