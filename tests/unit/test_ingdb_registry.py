"""Commands as declarations: parsing, errors with a way out, help, completion; without GDB.

Runs in: pytest. May call: gdbrr.ingdb's modules that do not need gdb.
Owns: nothing.
"""

from __future__ import annotations

import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

import pytest

import gdbrr.ingdb.commands  # noqa: F401  (declares them)
from gdbrr.errors import GdbrrError
from gdbrr.ingdb import registry
from gdbrr.ingdb.registry import arg, commands, count, option, rr_command
from gdbrr.ingdb.words import Line


@pytest.fixture
def own_table(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Declarations of a test do not reach the real table."""
    monkeypatch.setattr(registry, "_commands", {})
    yield


def named(name: str) -> registry.Command:
    return next(each for each in commands() if each.name == name)


def parse(line: str) -> Namespace:
    name, _, text = line.partition(" ")
    return named(name).parse(text)


def wrong(line: str) -> str:
    with pytest.raises(GdbrrError) as caught:
        parse(line)
    return str(caught.value)


# ---------------------------------------------------------------- declaring


def test_declaring_needs_no_gdb() -> None:
    script = "import sys, gdbrr.ingdb.docs, gdbrr.ingdb.params, gdbrr.ingdb.link; sys.exit('gdb' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=30)


def test_commands_are_the_contract() -> None:
    assert [each.name for each in commands()] == [
        "rr-start", "rr-replay", "rr-back", "rr-history", "rr-goto", "rr-mark", "rr-when", "rr-epochs", "info gdbrr",
        "rr-save", "rr-live",
    ]  # fmt: skip


@pytest.mark.usefixtures("own_table")
def test_duplicates_are_refused() -> None:
    rr_command("rr-x")(documented)
    with pytest.raises(ValueError, match="rr-x is declared twice"):
        rr_command("rr-x")(documented)


@pytest.mark.usefixtures("own_table")
def test_a_docstring_must_begin_with_a_sentence() -> None:
    def mute(session: Any, args: Namespace) -> None: ...

    with pytest.raises(ValueError, match="must begin with one line that is a sentence"):
        rr_command("rr-x")(mute)


@pytest.mark.usefixtures("own_table")
def test_only_the_last_argument_takes_the_rest() -> None:
    with pytest.raises(ValueError, match="only the last"):
        rr_command("rr-x", args=(arg("A", rest=True), arg("B")))(documented)


def documented(session: Any, args: Namespace) -> None:
    """Do it.

    Slowly.
    """


@pytest.mark.usefixtures("own_table")
def test_help_is_sentence_usage_arguments_details() -> None:
    rr_command("rr-x", args=(arg("COUNT", int, 1, "how many"), option("-w", "EXPR", "what")))(documented)
    assert commands()[0].help() == (
        "Do it.\nUsage: rr-x [-w EXPR] [COUNT]\n\n  COUNT    how many\n  -w EXPR  what\n\nSlowly."
    )


def test_help_explains_every_argument_and_fits_a_terminal() -> None:
    for command in commands():
        lines = command.help().splitlines()
        assert lines[0].endswith("."), command.name
        assert lines[1].startswith(f"Usage: {command.name}"), command.name
        assert max(map(len, lines)) <= 110, command.name
        for each in (*command.args, *command.options):
            assert each.name in lines[1], (command.name, each.name)
            assert each.help, (command.name, each.name)


# ---------------------------------------------------------------- parsing

PLAIN: dict[str, Any] = {"p": None, "set": [], "order": None, "seed": None}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("rr-back", {"count": 1, "w": None, "b": None}),
        ("rr-back 3", {"count": 3, "w": None, "b": None}),
        ("rr-back -w a", {"count": 1, "w": "a", "b": None}),
        ('rr-back 2 -w  v["a b"] + (x -1) ', {"count": 2, "w": 'v["a b"] + (x -1)', "b": None}),
        ("rr-back -b bug.c:4", {"count": 1, "w": None, "b": "bug.c:4"}),
        ("rr-replay 'a b.demo'", {"demo": "a b.demo", "trust": False, "start": False, "check": False}),
        ("rr-replay a\\ b.demo", {"demo": "a b.demo", "trust": False, "start": False, "check": False}),
        ("rr-replay -- -odd", {"demo": "-odd", "trust": False, "start": False, "check": False}),
        ("rr-replay --trust x.demo", {"demo": "x.demo", "trust": True, "start": False, "check": False}),
        ("rr-replay x.demo --trust", {"demo": "x.demo", "trust": True, "start": False, "check": False}),
        ("rr-goto 120", {"moment": {"moment": "120"}}),
        ("rr-goto 120:0x401136#2", {"moment": {"moment": "120:0x401136#2"}}),
        ("rr-goto +3s", {"moment": {"later": 3.0}}),
        ("rr-goto -250ms", {"moment": {"later": -0.25}}),
        ("rr-goto 1.5s", {"moment": {"seconds": 1.5}}),
        ("rr-goto 14:03:05.5", {"moment": {"date": "14:03:05.5"}}),
        ("rr-goto 2026-11-18 14:03:05", {"moment": {"date": "2026-11-18 14:03:05"}}),
        ("rr-goto 2026-11-18T14:03", {"moment": {"date": "2026-11-18T14:03"}}),
        ("rr-goto before-it", {"moment": {"mark": "before-it"}}),
        ("rr-mark -d x", {"d": True, "name": "x"}),
        ("rr-history -n 3 --csv a + b", {"n": 3, "csv": True, "json": False, "expr": "a + b"}),
        ("rr-goto start", {"moment": {"where": "start"}}),
        ("rr-goto end", {"moment": {"where": "end"}}),
        ("rr-goto 12.5%", {"moment": {"percent": 12.5}}),
        ("rr-goto e12", {"moment": {"epoch": 12}}),
        ("rr-start", {**PLAIN, "arg": ""}),
        ("rr-start --set a=b -p full --set c=d", {**PLAIN, "p": "full", "set": ["a=b", "c=d"], "arg": ""}),
        ("rr-start --order pct --seed 7 x", {**PLAIN, "order": "pct", "seed": "7", "arg": "x"}),
        ("rr-start -- -v 'x y' $HOME", {**PLAIN, "arg": "-v 'x y' $HOME"}),
        ("rr-start x -p y", {**PLAIN, "arg": "x -p y"}),
        ("rr-when", {}),
    ],
)
def test_parse(line: str, expected: dict[str, Any]) -> None:
    assert vars(parse(line)) == expected


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("rr-back x", "COUNT must be a whole number of at least 1, not 'x'. Try: help rr-back"),
        ("rr-back 0", "COUNT must be a whole number of at least 1, not '0'. Try: help rr-back"),
        ("rr-back -q 1", "there is no option -q. Try: help rr-back"),
        ("rr-start -c 1", "there is no option -c; what is none goes behind --. Try: help rr-start"),
        ("rr-back -w", "-w needs EXPR. Try: help rr-back"),
        ("rr-back 1 2", "'2' is too much. Try: help rr-back"),
        ("rr-replay", "DEMO is missing. Try: help rr-replay"),
        ("rr-replay 'a", "a quote ' is not closed. End the word with '"),
        ("rr-when now", "'now' is too much. Try: help rr-when"),
        ("rr-goto 101%", "101% is behind the end. Try: rr-goto end"),
        ("rr-goto 3h", "'3h' is no moment. Try: rr-goto 120, start, end, 50%, +3s or e3"),
        ("rr-goto 12:34#5", "'12:34#5' is no moment. Try: rr-goto 120, start, end, 50%, +3s or e3"),
    ],
)
def test_errors_name_the_argument_and_a_way_out(line: str, said: str) -> None:
    assert wrong(line) == said


def test_count_takes_ascii_digits_only() -> None:
    assert count("12") == 12
    for text in ("-1", "1.5", "", "\u00b2", "\uff11"):
        with pytest.raises(ValueError, match="whole number"):
            count(text)


@pytest.mark.usefixtures("own_table")
def test_an_int_argument_says_what_it_wants() -> None:
    rr_command("rr-x", args=(arg("N", int, 1, "how many"),))(documented)
    with pytest.raises(GdbrrError, match="N must be a whole number, not 'x'"):
        commands()[0].parse("x")


class Shut:
    """A session without a demo."""

    def require(self) -> None:
        raise GdbrrError("no demo is open", hint="try: rr-replay FILE")


def test_commands_need_a_demo_unless_they_open_one() -> None:
    for command in commands():
        if not command.opens:
            line = "1" if any(each.required for each in command.args) else ""
            with pytest.raises(GdbrrError, match="no demo is open"):
                registry.run(command, Shut(), line)  # type: ignore[arg-type]
    assert {each.name for each in commands() if each.opens} == {"rr-start", "rr-replay"}


# ---------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("  a  b ", ["a", "b"]),
        ("a'b c'd", ["ab cd"]),
        ('"a\\"b" \'a\\b\'', ['a"b', "a\\b"]),
        ("'' x", ["", "x"]),
        ("\\ x", [" x"]),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    line, found = Line(text), []
    while not line.done:
        found.append(line.word())
    assert found == expected


# ---------------------------------------------------------------- completion


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("rr-back -", ("option", "-")),
        ("rr-back -w ", ("expression", "")),
        ("rr-back -w a->b", ("expression", "a->b")),
        ("rr-back -w a + b", ("expression", "a + b")),
        ("rr-back 3 -b ma", ("location", "ma")),
        ("rr-back 3", ("", "3")),
        ("rr-replay cra", ("file", "cra")),
        ("rr-replay ", ("file", "")),
        ("rr-replay a b", ("", "b")),
        ("rr-replay --trust cra", ("file", "cra")),
        ("rr-goto e", ("moment", "e")),
        ("rr-start -p x --seed ", ("", "")),
        ("rr-start one tw", ("file", "one tw")),
        ("rr-start -- -x", ("file", "-x")),
        ("rr-when ", ("", "")),
    ],
)
def test_completion(line: str, expected: tuple[str, str]) -> None:
    name, _, text = line.partition(" ")
    assert named(name).completion(text) == expected
