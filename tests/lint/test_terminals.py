"""What the verbs write goes out in one place, which takes from it what a terminal obeys."""

from __future__ import annotations

import ast

from harness import ROOT

WRITERS = {"print", "sys.stdout.write", "sys.stderr.write"}


def writes(source: str) -> list[int]:
    """Lines in which something is written past `tell` and `say`."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return [call.lineno for call in calls if ast.unparse(call.func) in WRITERS]


def test_verbs_write_through_one_place() -> None:
    found = {
        str(path.relative_to(ROOT)): lines
        for path in (ROOT / "gdbrr" / "cli").rglob("*.py")
        if path.name != "words.py" and (lines := writes(path.read_text()))
    }
    assert found == {}


def test_check_sees_what_is_written_elsewhere() -> None:
    assert writes("print(1)\nsys.stderr.write('x')\nprinted(1)\nfile.write('x')\n") == [1, 2]


def test_no_page_is_read_elsewhere() -> None:
    """INVARIANT(page-is-untrusted)"""
    for path in (ROOT / "gdbrr").rglob("*.py"):
        if path != ROOT / "gdbrr" / "ctl" / "control.py":
            text = path.read_text()
            assert "slot.raw" not in text and "slot._raw" not in text and "control._raw" not in text, path
