"""Rules for kinds of descriptor in a profile: what they may say, where they come from, what the engine gets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gdbrr.config import profiles, tables
from gdbrr.config.profiles import Profile, Value
from gdbrr.errors import GdbrrError

RECORD, NATIVE, IGNORE = range(len(tables.MODES))


def resolve_text(tmp_path: Path, text: str, *sets: str) -> Profile:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return profiles.resolve(str(path), None, sets)


def rule(kind: str, mode: str) -> str:
    return f'[[descriptors]]\nkind = "{kind}"\nmode = "{mode}"\n'


def test_rules_for_kinds_of_descriptor(tmp_path: Path) -> None:
    text = """[[descriptors]]
mode = "native"
kind = "directory"
[[descriptors]]
kind = 'random'
mode = "ignore"
"""
    profile = resolve_text(tmp_path, text, "descriptors.null=native", "descriptors.random=record")
    assert profile.values["descriptors.directory"] == Value("native", f"{tmp_path / 'mine.toml'}:3")
    assert profile.values["descriptors.random"] == Value("record", "--set")
    found = {kind.name: mode for kind, mode in zip(tables.kinds(), profile.kinds(), strict=False) if mode}
    assert found == {"directory": 1 + NATIVE, "null": 1 + NATIVE, "random": 1 + RECORD}
    # AND a demo keeps them
    again = Profile.from_json(json.loads(json.dumps(profile.to_json())))
    assert again.kinds() == profile.kinds()
    with pytest.raises(GdbrrError, match="not valid"):
        Profile.from_json(
            {"name": "x", "source": "y", "values": {"descriptors.tty": {"value": "ignore", "origin": "z"}}}
        )


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        ('[[descriptors]]\nmode = "ignore"', 1, "descriptors: each rule is a table with `kind` and `mode`", "e.g."),
        ('descriptors = "random"', 1, "descriptors: each rule is a table", "e.g."),
        (rule("randon", "ignore"), 2, "there is no kind of descriptor 'randon'", "did you mean random?"),
        (rule("random", "nativ"), 2, "descriptors.random = 'nativ' is not a mode", "did you mean native?"),
        (rule("socket", "native"), 2, "descriptors.socket cannot be 'native'", "the only mode it has is record"),
        (rule("null", "ignore") * 2, 2, "descriptors.null has a rule already", "leave one of them out"),
    ],
)
def test_wrong_rule_is_named(text: str, line: int, message: str, hint: str, tmp_path: Path) -> None:
    with pytest.raises(GdbrrError) as caught:
        resolve_text(tmp_path, text)
    assert caught.value.message.startswith(f"{tmp_path / 'mine.toml'}:{line}: {message}")
    assert caught.value.hint.startswith(hint)


@pytest.mark.parametrize("kind", tables.kinds(), ids=lambda kind: kind.name)
def test_a_rule_has_the_modes_of_its_class(kind: tables.Kind, tmp_path: Path) -> None:
    modes = next(cls.modes for cls in tables.classes() if cls.name == kind.cls)
    for mode in tables.MODES:
        if mode in modes:
            assert any(resolve_text(tmp_path, rule(kind.name, mode)).kinds())
        else:
            with pytest.raises(GdbrrError):
                resolve_text(tmp_path, rule(kind.name, mode))
