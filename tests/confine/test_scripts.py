"""What a demo brings along, or names, runs nothing in GDB: no scripts inside of its programs or beside them.

A user may trust all folders (`set auto-load safe-path /`); that is about their own files, and no somebody else's demo.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness import ROOT, programs
from harness.run import gdbrr, run

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")

ALL = ("-iex", "set auto-load safe-path /")
SAFE = "$debugdir:$datadir/auto-load"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    copy = tmp_path / "scripted"
    shutil.copy(programs.build("scripted"), copy)
    (tmp_path / "scripted-gdb.py").write_text("import os; open(os.environ['MARK'], 'a').write('beside ')\n")
    return copy


def ran(place: Path, *words: str | Path) -> str:
    """What scripts ran in GDB on these words."""
    mark = place / "mark"
    mark.unlink(missing_ok=True)
    done = run("gdb", "-nx", "-batch", *words, env={"MARK": str(mark)}, limit=100, cwd=place).expect(0)
    assert "auto-load" not in done.out
    return mark.read_text() if mark.exists() else ""


def replayed(demo: Path, *more: str) -> list[str]:
    lines = (f"source {ROOT / 'gdbinit.py'}", f"rr-replay {' '.join(more)} {demo}", "info sharedlibrary", "rr-when")
    return [word for line in lines for word in ("-ex", line)]


def test_what_a_demo_names_runs_nothing(program: Path, tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    gdbrr("record", "-o", demo, "--", program).expect(0)
    assert ran(tmp_path, *replayed(demo)) == ""
    assert ran(tmp_path, *ALL, *replayed(demo, "--trust")) == ""
    # In the next session the user's own word holds again.
    again = ("-ex", f"rr-replay {demo}", "-ex", "show auto-load safe-path")
    during = run("gdb", "-nx", "-batch", *ALL, *replayed(demo, "--trust"), *again[2:], env={"MARK": "/dev/null"})
    behind = run("gdb", "-nx", "-batch", *ALL, *replayed(demo, "--trust"), *again, env={"MARK": "/dev/null"})
    assert f"is {SAFE}." in during.out and "safe to load from any directory" in behind.out


def test_what_a_demo_brings_runs_nothing(program: Path, tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    gdbrr("record", "-o", demo, "--", program).expect(0)
    gdbrr("pack", demo).expect(0)
    program.unlink()
    assert ran(tmp_path, *ALL, *replayed(tmp_path / "x.packed.demo", "--trust")) == ""


def test_control_the_scripts_do_run_in_a_program_of_ones_own(program: Path, tmp_path: Path) -> None:
    assert sorted(ran(tmp_path, *ALL, program).split()) == ["beside", "inside"]


def test_what_lies_beside_a_demo_runs_nothing(tmp_path: Path) -> None:
    """A folder that somebody packed may hold anything that GDB looks for in a folder."""
    demo = tmp_path / "x.demo"
    gdbrr("record", "-o", demo, "--", programs.build("scripted")).expect(0)
    script = "python import os; open(os.environ['MARK'], 'a').write('folder ')\n"
    for name in (".gdbinit", ".gdbearlyinit", "gdbinit", "x.demo-gdb.gdb"):
        (tmp_path / name).write_text(script)
    mark = tmp_path / "mark"
    home = tmp_path / "home"
    home.mkdir()
    environment = {"MARK": str(mark), "HOME": str(home), "XDG_CONFIG_HOME": str(home)}
    done = gdbrr("debug", demo, "--", "-batch", "-ex", "rr-when", cwd=tmp_path, env=environment).expect(0)
    assert "tick " in done.out and not mark.exists(), done.out
    control = run("gdb", "-batch", "-iex", "set auto-load safe-path /", cwd=tmp_path, env=environment)
    assert mark.read_text() == "folder ", control.err


@pytest.mark.parametrize("name", ["|touch mark", "$(touch mark)", "`touch mark`", "a' b \\\" c", "-x mark"])
def test_names_of_sources_and_programs_are_no_commands(name: str, tmp_path: Path) -> None:
    """Debugging information names the source as it likes, and a demo its program."""
    source = tmp_path / "named.c"
    source.write_text(f'#line 1 "{name}"\nint main(void)\n{{\n\treturn 0;\n}}\n')
    program = tmp_path / name.replace("\\", "")
    run("gcc", "-g", "-o", program, source).expect(0)
    demo = tmp_path / "x.demo"
    gdbrr("record", "-o", demo, "--", program).expect(0)
    commands = ("list main", "info source", "break main", "reverse-continue", "rr-when", "backtrace", "info files")
    words = [word for command in commands for word in ("-ex", command)]
    done = run("gdb", "-nx", "-batch", *replayed(demo), *words, cwd=tmp_path, limit=100).expect(0)
    assert not (tmp_path / "mark").exists() and "Breakpoint 1, main ()" in done.out, done.out + done.err


def test_a_line_break_in_the_name_of_a_program_ends_no_command(tmp_path: Path) -> None:
    program = tmp_path / "a\nshell touch mark"
    shutil.copy(programs.build("scripted"), program)
    demo = tmp_path / "x.demo"
    gdbrr("record", "-o", demo, "--", program).expect(0)
    done = run("gdb", "-nx", "-batch", *replayed(demo), cwd=tmp_path, limit=100).expect(0)
    assert not (tmp_path / "mark").exists() and "tick " in done.out, done.out + done.err
