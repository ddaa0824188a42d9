"""Commands on demos of a real program that were bent and sealed again: they end in a status of their own or one line.

Runs in: pytest. May call: gdbrr record, and each verb that takes a demo.
Owns: nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fuzz import demo_fuzz
from gdbrr.errors import EXIT_DESYNC
from harness import ROOT, programs
from harness.run import Result, gdbrr, run

SEED = 1
EACH = 6
"""Mutants for each command."""

OPEN = """
import sys
from gdbrr.errors import GdbrrError
from gdbrr.timeline.timeline import open_demo
try:
    with open_demo(sys.argv[1], trust=True) as timeline:
        print(timeline.end)
except GdbrrError as error:
    assert str(error).isprintable(), error
    sys.exit(1)
"""

COMMANDS: dict[str, tuple[str, ...]] = {
    "info": ("info",),
    "info, for scripts": ("info", "--json"),
    "events": ("events",),
    "replay": ("replay", "--trust"),
    "replay, for scripts": ("replay", "--trust", "--json", "--check"),
    "redact": ("redact", "--trust", "--class", "file", "--class", "time", "--env", "-o", "out.demo"),
    "redact, what there is": ("redact", "--trust"),
    "minimize": ("minimize", "--trust", "--keep", "output", "--tries", "4", "-o", "out.demo"),
    "pack": ("pack", "--trust", "-o", "out.demo"),
}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    where = tmp_path_factory.mktemp("good")
    gdbrr("record", "-o", where / "x.demo", "--", programs.build("calls_events"), cwd=where).expect(0)
    return (where / "x.demo").read_bytes()


def mutants(good: bytes, first: int) -> list[tuple[int, bytes]]:
    return [(n, demo_fuzz.mutant(n, SEED, [good], demo_fuzz.SEALED)[1]) for n in range(first, first + EACH)]


def check(result: Result, number: int) -> None:
    assert "Traceback" not in result.err, f"mutant {number}\n{result.describe()}"
    assert result.status in (0, 1, 2, EXIT_DESYNC, 128 + 6, 128 + 9, 128 + 11) or not result.err, result.describe()


@pytest.mark.limit(200)
@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_ends_in_a_traceback(name: str, good: bytes, tmp_path: Path) -> None:
    first = EACH * list(COMMANDS).index(name)
    for number, raw in mutants(good, first):
        (tmp_path / "mutant.demo").write_bytes(raw)
        (tmp_path / "out.demo").unlink(missing_ok=True)
        verb, *options = COMMANDS[name]
        check(gdbrr(verb, *options, "mutant.demo", cwd=tmp_path, limit=60), number)


@pytest.mark.limit(200)
def test_no_session_ends_in_a_traceback(good: bytes, tmp_path: Path) -> None:
    for number, raw in mutants(good, EACH * len(COMMANDS)):
        (tmp_path / "mutant.demo").write_bytes(raw)
        check(run(sys.executable, "-c", OPEN, tmp_path / "mutant.demo", cwd=ROOT, limit=60), number)
