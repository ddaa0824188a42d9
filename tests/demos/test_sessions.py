"""Every demonstration plays as its page says, through the same door as `make demo`."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import pytest

from harness import ROOT
from harness.run import run

SHOW = ROOT / "demos" / "show.py"
NAMES = sorted(path.parent.name for path in ROOT.glob("demos/*/session.gdb"))


def show_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("show", SHOW)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_demonstrations() -> None:
    assert "overdraft" in NAMES


@pytest.mark.limit(400)
@pytest.mark.needs("gdb", "gdbserver")
@pytest.mark.parametrize("name", NAMES)
def test_session_goes_as_expected(name: str) -> None:
    run("make", "-C", ROOT, f"build/demos/{name}").expect(0)
    run(sys.executable, SHOW, name, limit=350).expect(0)


@pytest.mark.parametrize("name", NAMES)
def test_page_says_the_commands_of_the_session(name: str) -> None:
    page = (ROOT / "demos" / name / "README.md").read_text()
    lines = (ROOT / "demos" / name / "session.gdb").read_text().splitlines()
    for line in lines:
        if line and not line.startswith("#"):
            assert f"`{line}`" in page


def test_expected_lines_must_come_in_order() -> None:
    missing = show_module().missing
    assert missing("^a\n^b$\n", "a1\nxb\nb\n") is None
    assert missing("^b$\n^a", "a1\nb\n") == "^a"
    assert missing("c", "a\nb\n") == "c"


def test_echo_shows_lines_as_they_are() -> None:
    show = show_module()
    words = show.commands('# a\nprint "x\\n"\n')
    assert words == ["-ex", "echo \\n# a\\n", "-ex", 'echo (gdb) print \\"x\\\\n\\"\\n', "-ex", 'print "x\\n"']
    shown = run("gdb", "-nx", "-batch", *words).expect(0).out
    assert shown.startswith('\n# a\n(gdb) print "x\\n"\n$1 = ')
