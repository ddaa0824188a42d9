"""What no committed file may hold: promises instead of work, places on one machine, addresses of one network."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import ROOT
from lint import sources

# Spelled in pieces, so that this file does not hold what it looks for.
PROMISES = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK|place" r"holder)\b")
# /home/user is nobody's.
PLACES = re.compile(r"(?<![\w.$}~*])/(?:ho" r"me|ro" r"ot|wo" r"rk|Us" r"ers|o" r"pt|m" r"nt)/(?!user\b)[\w.-]+")
NETWORK = re.compile(r"\b(?:10|192\.168|172\.(?:1[6-9]|2\d|3[01]))(?:\.\d{1,3}){2,3}\b|index-" r"url|sources\." r"list")
FORBIDDEN = {"a promise": PROMISES, "a place on one machine": PLACES, "an address of one network": NETWORK}
BINARY = {".demo", ".png", ".gz", ".zst"}


def complaints(path: Path, text: str) -> list[str]:
    return [
        f"{path}:{number}: {what}: {match.group()}"
        for number, line in enumerate(text.splitlines(), start=1)
        for what, pattern in FORBIDDEN.items()
        if (match := pattern.search(line))
    ]


def test_no_file_holds_them() -> None:
    found = []
    for path in sources.project_files():
        if path.suffix not in BINARY:
            found.extend(complaints(path.relative_to(ROOT), path.read_text()))
    assert found == []


# A bar stands where this file must not hold what it looks for; two strings side by side would be joined by ruff.
@pytest.mark.parametrize(
    "line",
    ["# TO|DO: later", "see /ro|ot/notes", "'/ho|me/someone/x'", "http://10.1.|2.3/simple", "--index-|url x"],
)
def test_check_sees(line: str) -> None:
    assert complaints(Path("x"), line.replace("|", ""))


@pytest.mark.parametrize("line", ["todos los dias", "https://x.org/home/page", "10.2", "$HOME/x", "/home/user/x"])
def test_check_lets_pass(line: str) -> None:
    assert complaints(Path("x"), line) == []
