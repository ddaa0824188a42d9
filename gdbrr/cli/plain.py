"""Reads the command lines that leave nothing to be said, by what a verb declares to argparse.

argparse takes longer to import than a short program runs. So a verb's `add` is handed a `Declared` first, and what that
does not read for certain (help, mistakes, abbreviations, values that begin with a dash) is left to argparse.

Runs in: a command of its own. May call: nothing of gdbrr.
Owns: REST. A test compares what is read here with what argparse reads.
"""

from __future__ import annotations

from gdbrr.quick.rows import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

REST = "..."
"""argparse.REMAINDER."""


class Words:
    """In place of argparse.Namespace."""

    verb: str

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


class NotPlain(Exception):
    """Something that only argparse knows."""


class Declared:
    """In place of argparse's subparsers, and of the parser that they make."""

    def __init__(self) -> None:
        self._options: dict[str, tuple[str, dict[str, Any]]] = {}
        self._places: list[tuple[str, dict[str, Any]]] = []
        self._found: dict[str, Any] = {}

    def add_parser(self, verb: str, **how: Any) -> Declared:
        return self

    def add_argument(self, *names: str, **how: Any) -> None:
        if not names[0].startswith("-"):
            self._places.append((names[0], how))
            return
        long = next((name for name in names if name.startswith("--")), names[0])
        target = how.get("dest") or long.lstrip("-").replace("-", "_")
        self._options.update((name, (target, how)) for name in names)
        self._found[target] = how.get("default", False if how.get("action") == "store_true" else None)

    def __getattr__(self, name: str) -> Any:
        raise NotPlain

    def read(self, verb: str, words: Sequence[str]) -> Words:
        """The values of WORDS; NotPlain where argparse has to say what they are."""
        found, places, at = {"verb": verb, **self._found}, list(self._places), 0
        while at < len(words):
            word = words[at]
            if places and places[0][1].get("nargs") == REST and (word == "--" or not word.startswith("-")):
                found[places.pop(0)[0]] = list(words[at:])
                break
            if word.startswith("-"):
                at = self._option(found, words, at)
            elif not places:
                raise NotPlain
            else:
                name, how = places.pop(0)
                found[name], at = _value(how, word), at + 1
        if places:
            raise NotPlain
        return Words(**found)

    def _option(self, found: dict[str, Any], words: Sequence[str], at: int) -> int:
        """Take in the option at AT; tells where the next word is."""
        name, equals, value = words[at].partition("=")
        if name not in self._options or (equals and not name.startswith("--")):
            raise NotPlain
        target, how = self._options[name]
        action = how.get("action", "store")
        if action == "store_true":
            if equals:
                raise NotPlain
            found[target] = True
            return at + 1
        if not equals:
            at += 1
            if how.get("nargs") or at >= len(words) or words[at].startswith("-"):
                raise NotPlain
            value = words[at]
        if action == "append":
            found[target] = [*found[target], _value(how, value)]
        elif action == "store":
            found[target] = _value(how, value)
        else:
            raise NotPlain
        return at + 1


_KNOWN = {"action", "choices", "const", "default", "dest", "help", "metavar", "nargs", "type"}


def _value(how: dict[str, Any], word: str) -> Any:
    if how.keys() - _KNOWN or how.get("nargs") not in (None, "?") or word not in how.get("choices", (word,)):
        raise NotPlain
    try:
        return how.get("type", str)(word)
    except Exception:
        raise NotPlain from None
