"""The Makefile explains itself and does nothing twice."""

from __future__ import annotations

from harness import ROOT
from harness.run import run


def test_help_lists_the_targets() -> None:
    text = run("make", "-C", ROOT, "--no-print-directory", "help").expect(0).out
    lines = {line.split()[1]: line.split(maxsplit=2)[2] for line in text.splitlines()}
    assert {"help", "build", "demo", "test", "lint", "bench", "docs", "clean"} <= set(lines)
    assert all(lines.values())


def test_no_target_alone_shows_help() -> None:
    assert run("make", "-C", ROOT, "--no-print-directory").expect(0).out.startswith("make help")


def test_what_is_built_is_not_built_again() -> None:
    run("make", "-C", ROOT, "build", limit=100).expect(0)
    result = run("make", "-C", ROOT, "--no-print-directory", "build").expect(0)
    assert result.out == "make: Nothing to be done for 'build'.\n"


def test_ci_calls_what_a_person_would_type() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert lines[-1] == "CI=true exec make test </dev/null"
