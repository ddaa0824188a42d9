"""Command lines as they are read at once, against what argparse makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdbrr.cli import main, record
from gdbrr.cli.plain import Declared, NotPlain

WORDS = {
    "record": [
        "-o", "x.demo", "--output", "-p", "--set", "time=native", "--order", "serial", "--order=pct", "--digest=7",
        "--verify", "--save-on", "crash", "never", "--save-on=failure", "--junit", "--runs", "--until", "--", "true",
        "--seed=", "-oy", "--ver", "--help", "-h", "-", "a b", "",
    ],
    "replay": ["x.demo", "--json", "--quiet", "--check", "--soft-ok", "--trust", "--", "-", "y", "--tru", "-h", ""],
}  # fmt: skip


def plain(verb: str, words: list[str]) -> dict[str, Any] | None:
    declared: Any = Declared()
    try:
        main.load(verb).add(declared)
        return vars(declared.read(verb, words))
    except NotPlain:
        return None


@pytest.mark.parametrize("verb", WORDS)
@given(data=st.data())
def test_what_is_read_at_once_is_what_argparse_reads(verb: str, data: Any) -> None:
    words = data.draw(st.lists(st.sampled_from(WORDS[verb]), max_size=7))
    found = plain(verb, words)
    if found is not None:
        args, unknown = main.build_parser([verb]).parse_known_args([verb, *words])
        assert not unknown and found == vars(args)


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("record", ["true"]),
        ("record", ["-o", "x.demo", "true", "-o", "--", "-x"]),
        ("record", ["--set", "a=b", "--set=c=d", "--verify", "--", "true"]),
        ("record", ["--order", "random", "--seed", "7:3", "--save-on", "crash", "./t"]),
        ("replay", ["x.demo"]),
        ("replay", ["--quiet", "x.demo", "--json"]),
    ],
)
def test_usual_command_lines_are_read_at_once(verb: str, words: list[str]) -> None:
    assert plain(verb, words) is not None


def test_values_have_their_types() -> None:
    found = plain("record", record.prepare(["--digest", "-o", "x.demo", "true", "1"]))
    assert found is not None
    assert (
        found["digest"] == str(record.DIGEST)
        and found["output"] == Path("x.demo")
        and found["command"] == ["true", "1"]
    )
    assert found["sets"] == [] and found["verify"] is False and found["junit"] is None


@pytest.mark.parametrize("verb", [verb for verb in main.VERBS if verb not in WORDS])
def test_other_verbs_are_left_to_argparse_where_in_doubt(verb: str) -> None:
    assert plain(verb, ["--help"]) is None and plain(verb, ["--no-such-option"]) is None
