"""A profile as a file: what differs from the defaults, as docs/profiles.md describes it.

Runs in: `gdbrr suggest`. May call: errors, config.
Owns: the text, and the check that it says what the profile said.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from gdbrr.config import profiles, schema
from gdbrr.config.profiles import Profile
from gdbrr.errors import GdbrrError


def text(profile: Profile, about: Sequence[str]) -> str:
    """PROFILE in TOML, with ABOUT as the comment that it begins with."""
    tops: list[str] = []
    sections: dict[str, list[str]] = {}
    rules: list[str] = []
    for key, value in profile.values.items():
        section, _, name = key.partition(".")
        if value.value == _default(key):
            continue
        shown = json.dumps(value.value, ensure_ascii=False)
        if section in profiles.RULES:
            rules += ["", f"[[{section}]]", f"{profiles.RULES[section]} = {json.dumps(name, ensure_ascii=False)}"]
            rules.append(f"mode = {shown}")
        elif name:
            sections.setdefault(section, []).append(f"{name} = {shown}")
        else:
            tops.append(f"{key} = {shown}")
    lines = [f"# {line}".rstrip() for line in about]
    lines += ["", *tops] if tops else []
    for section, rows in sections.items():
        lines += ["", f"[{section}]", *rows]
    return "\n".join([*lines, *rules]) + "\n"


def _default(key: str) -> object:
    """What holds where a profile does not name KEY; rules and calls have no such value: they are always named."""
    known = schema.keys().get(key)
    return known.default if known else None


def write(path: Path, profile: Profile, about: Sequence[str]) -> None:
    """INVARIANT(written-as-found): read again, the file is the profile that was found."""
    try:
        path.write_text(text(profile, about), encoding="utf-8")
    except OSError as error:
        raise GdbrrError(f"{path} cannot be written: {error.strerror}", "choose another place with -o") from None
    again = profiles.resolve(str(path.absolute()), None, ())
    known = {key: value.value for key, value in profile.values.items()}
    if {key: value.value for key, value in again.values.items()} != known:
        raise GdbrrError(f"{path} does not say what was found", "report it: this is a fault of gdbrr")
