"""The texts of a manifest: which of them are redacted, which have to stay, and which mean nothing.

Runs in: `gdbrr redact`. May call: demo, gdbrr.sparse.marks.
Owns: what a demo's own paths are. What is in no list here is looked at all the same, and cannot be taken out.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gdbrr.demo import manifest as manifests

if TYPE_CHECKING:
    from gdbrr.sparse.marks import Marks

FILL = "x"
"""Texts have no zeros."""

_PATHS = {
    "program": "the program's path",
    "cwd": "the directory",
    "engine": "the engine's path",
    "objects": "paths of libraries",
    "inputs": "paths of files that are read again",
    "written": "paths of files that were written",
    "profile": "the profile",
    "carried": "paths of carried files",
}
"""Without these a demo does not replay, or says nothing about why."""
_BLANKED = ("notices", "minimised", "host")
_WORDS = frozenset("gdbrr order random end threads limits signals build_id sha256 kind".split())
"""Keys below which nothing is anybody's text: checked by gdbrr.demo.manifest."""


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape" if _is_bytes(text) else "surrogatepass")


def _is_bytes(text: str) -> bool:
    """Whether its lone surrogates are those of os.fsdecode; others come from nobody's disk."""
    return all(not "\ud800" <= c <= "\udfff" or "\udc80" <= c <= "\udcff" for c in text)


def own(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(what it is, the text) of what stays: a demo's own paths."""
    for key, what in _PATHS.items():
        for text in _strings(manifest.get(key)):
            yield what, text
    if manifest["argv"]:
        yield "argument 0", manifest["argv"][0]
    for text in manifest.get("carried", {}).get("argv", ())[:1]:
        yield "argument 0", text


def kept(env: Sequence[str], gone: Collection[str]) -> list[bytes]:
    """The names of variables, and what the values of others than those that are GONE are made of."""
    rows = [entry.partition("=") for entry in env]
    parts = [part for name, _, value in rows if name not in gone for part in encoded(value).split(b":") if part]
    return [*(encoded(name) for name, _, _ in rows), *parts]


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from () if key in _WORDS or key == "argv" else _strings(part)
    elif isinstance(value, Sequence):
        for part in value:
            yield from _strings(part)


def redacted(manifest: Mapping[str, Any], marks: Marks) -> dict[str, Any]:
    """The keys that are others without what MARKS know."""
    found = {key: _blanked(manifest[key], marks) for key in _BLANKED if key in manifest}
    found["argv"] = [*manifest["argv"][:1], *_blanked(manifest["argv"][1:], marks)]
    found["env"] = [blanked_value(entry, marks) for entry in manifest["env"]]
    carried = manifest.get("carried")
    if carried:
        found["carried"] = {**carried, "argv": [*carried["argv"][:1], *_blanked(carried["argv"][1:], marks)]}
    return {key: value for key, value in found.items() if value != manifest[key]}


def _blanked(value: Any, marks: Marks) -> Any:
    if isinstance(value, str):
        return blanked(value, marks)
    if isinstance(value, Mapping):
        return {key: _blanked(part, marks) for key, part in value.items()}
    return [_blanked(part, marks) for part in value] if isinstance(value, list) else value


def blanked(text: str, marks: Marks) -> str:
    """TEXT, as many bytes long as it was."""
    raw = encoded(text)
    for start, end in marks.found_in(raw):
        raw = raw[:start] + FILL.encode() * (end - start) + raw[end:]
    return os.fsdecode(raw) if _is_bytes(text) else raw.decode("utf-8", "surrogatepass")


def blanked_value(entry: str, marks: Marks) -> str:
    name, _, value = entry.partition("=")
    return f"{name}={blanked(value, marks)}"


def left(manifest: Mapping[str, Any], marks: Marks) -> Iterator[tuple[str, bytes]]:
    """(where, the bytes) of what MARKS find and what is not one of the demo's own paths."""
    for key, value in manifest.items():
        if key in _WORDS or key in _PATHS:
            continue
        if key == "env":
            value = [entry.partition("=")[2] for entry in value]
        known = key in manifests.REQUIRED or key in manifests.OPTIONAL
        texts = _strings(value) if known else [key, *_keys_and_strings(value)]
        for text in texts:
            raw = encoded(text)
            for start, end in marks.found_in(raw):
                yield f"the manifest's {key!r}", raw[start:end]
    for text in manifest.get("carried", {}).get("argv", ())[1:]:
        raw = encoded(text)
        for start, end in marks.found_in(raw):
            yield "the arguments of the packed program", raw[start:end]


def _keys_and_strings(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield key
            yield from _keys_and_strings(part)
    elif isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for part in value:
            yield from _keys_and_strings(part)
