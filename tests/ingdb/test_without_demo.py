"""gdbrr's commands and settings in GDB before any demo is open; `gdbrr debug`."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from harness import ROOT
from harness.run import run
from ingdb.stage import Stage, gdb

pytestmark = pytest.mark.needs("gdb")


def test_help_is_the_declaration() -> None:
    text = gdb("help rr-back").out
    assert text.startswith("Go back in time: to the start of this epoch, to a change, or to a place in the code.\n")
    assert "Usage: rr-back [COUNT] [-w EXPR | -b LOCATION]\n" in text
    assert "  COUNT        how many epoch starts" in text


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("rr-back", "rr-back: no demo is open. Try: rr-replay FILE"),
        ("rr-when", "rr-when: no demo is open. Try: rr-replay FILE"),
        ("rr-save x", "rr-save: no demo is open. Try: rr-replay FILE"),
        ("rr-live", "rr-live: no demo is open. Try: rr-replay FILE"),
        ("rr-goto", "rr-goto: MOMENT is missing. Try: help rr-goto"),
        ("rr-back x", "rr-back: COUNT must be a whole number of at least 1, not 'x'. Try: help rr-back"),
        ("rr-replay no.demo", "rr-replay: there is no file no.demo. Try: rr-start, or gdbrr record PROGRAM"),
        ("rr-start", "rr-start: no program is loaded. Try: file PROGRAM"),
        ("set gdbrr nonsense 1", "set gdbrr: there is no setting nonsense. Try: help set gdbrr"),
        ("show gdbrr nonsense", "show gdbrr: there is no setting nonsense. Try: show gdbrr"),
        ("set gdbrr epoch-ticks 1", "set gdbrr: epoch-ticks cannot be '1'. It goes from 16 to 1G"),
    ],
)
def test_errors_are_one_line_with_a_way_out(command: str, error: str) -> None:
    assert gdb(command).err.strip() == error


def test_a_script_in_python_may_source_it(tmp_path: Path) -> None:
    """Whose `__file__` that of a sourced file is, too."""
    script = tmp_path / "mine.py"
    script.write_text(f"import gdb\ngdb.execute('source {ROOT / 'gdbinit.py'}')\ngdb.execute('rr-when')\n")
    result = run("gdb", "-nx", "-batch", "-x", script)
    assert "rr-when: no demo is open" in result.err, result.describe()


def test_settings_are_set_and_shown() -> None:
    text = gdb(
        "show gdbrr epoch-ticks", "set gdbrr epoch-ticks 64", "show gdbrr epoch-ticks", "set gdbrr epoch-ticks 1",
        "show gdbrr epoch-ticks", "show gdbrr verbose", "set gdbrr verbose on", "show gdbrr verbose",
    ).out.splitlines()  # fmt: skip
    assert text == ["4096", "64 (default 4096)", "64 (default 4096)", "off", "on (default off)"]


def test_show_lists_all_settings() -> None:
    names = {line.partition(":")[0] for line in gdb("show gdbrr").out.splitlines()}
    assert {"checkpoints", "epoch-bytes", "epoch-ticks", "python", "verbose"} <= names


def test_sourcing_twice_is_harmless() -> None:
    result = gdb(f"source {ROOT / 'gdbinit.py'}", "rr-when")
    assert result.err.strip() == "rr-when: no demo is open. Try: rr-replay FILE"


def test_nothing_but_gdbrr_comes_in_reach() -> None:
    """GDB's Python is another one than the project's: no directory of packages may be added to its path."""
    script = "python import sys; print(sorted(p for p in sys.path if 'gdbrr' in p or 'packages' in p))"
    before = run("gdb", "-batch", "-nx", "-ex", script).out
    assert gdb(script).out == before


def test_it_works_from_an_installed_package(tmp_path: Path) -> None:
    """An installed package has gdbinit.py and the tables below gdbrr/_engine."""
    package = tmp_path / "lib" / "python3.99" / "site-packages" / "gdbrr"
    engine = package / "_engine"
    shutil.copytree(ROOT / "gdbrr", package, ignore=shutil.ignore_patterns("__pycache__", "_engine"))
    shutil.copytree(ROOT / "preload" / "tables", engine / "tables")
    shutil.copy(ROOT / "gdbinit.py", engine)
    (tmp_path / "x.demo").touch()
    result = gdb("show gdbrr epoch-ticks", "rr-replay x.demo", init=engine / "gdbinit.py", cwd=tmp_path)
    assert result.out.strip() == "4096"
    assert result.err.strip() == "rr-replay: no python3.99 was found to run the server. Try: set gdbrr python PATH"


def test_verbose_adds_the_traceback() -> None:
    text = gdb("set gdbrr verbose on", "rr-when").err
    assert "Traceback" in text
    assert text.strip().endswith("rr-when: no demo is open. Try: rr-replay FILE")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("rr-back -w bal", ["rr-back -w balance"]),
        ("rr-back 2 -b withd", ["rr-back 2 -b withdraw"]),
        ("rr-goto s", ["rr-goto start"]),
        ("rr-replay x.d", ["rr-replay x.demo"]),
        ("rr-back -", ["rr-back -b", "rr-back -w"]),
        ("rr-w", ["rr-when"]),
        ("rr-start --order ra", ["rr-start --order random"]),
        ("rr-start --set time=", [f"rr-start --set time={mode}" for mode in ("ignore", "native", "record")]),
        ("rr-start --set tim", [f"rr-start --set time={mode}" for mode in ("ignore", "native", "record")]),
        ("rr-start --set net=native -p g", ["rr-start --set net=native -p game"]),
    ],
)
def test_completion(stage: Stage, line: str, expected: list[str]) -> None:
    assert stage.gdb(f"complete {line}", open=False).out.splitlines() == expected


def test_debug_starts_gdb_on_the_demo(stage: Stage) -> None:
    shown = stage.place / "gdb"
    shown.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    shown.chmod(shown.stat().st_mode | stat.S_IXUSR)
    env = {**os.environ, "GDBRR_GDB": str(shown), "PYTHONPATH": str(ROOT)}
    demo = stage.place / "a 'b.demo"
    demo.touch()
    words = [sys.executable, "-m", "gdbrr", "debug", str(demo), "--", "-batch"]
    out = subprocess.run(words, env=env, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
    assert out[:2] == ["-q", "-x"]
    assert out[2] == str(ROOT / "gdbinit.py")
    assert out[3:5] == ["-ex", f"set gdbrr python {sys.executable}"]
    assert out[5:] == ["-ex", f"rr-replay '{stage.place}/a '\"'\"'b.demo'", "-batch"]


def test_debug_names_the_way_out_without_gdb(stage: Stage) -> None:
    env = {**os.environ, "PATH": str(stage.private), "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-m", "gdbrr", "debug", str(stage.place / "x.demo")]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert done.stderr.strip() == (
        "gdbrr debug: there is no gdb. Install it (Debian, Ubuntu: apt-get install gdb gdbserver)"
    )
