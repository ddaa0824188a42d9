"""What tells bytes that are to be taken out wherever else they stand.

Runs in: `gdbrr redact`. May call: the standard library.
Owns: what counts as the same: a value, a word of it, a stretch of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

WINDOW = 16
"""Bytes that are recognised wherever they stand, from twice as many on in a row ..."""
_DISTINCT = 6
"""... if they are of so many kinds at least: zeros and the like are nobody's secret."""
WORD = 8
"""A word of a text is recognised from so many characters on, and a value from so many anywhere ..."""
SHORT = 4
"""... shorter ones, down to this, as words by themselves. What is shorter still stands everywhere."""
_PLAIN_VALUE = 3
"""Kinds of bytes in a value at least."""
_MOST = 256
"""A word has no more characters."""
_PIECE = 4096

_TOKEN = re.compile(rb"[^\s\0\"'=:;,&<>/()\[\]{}]{8,%d}" % _MOST)
"""A word with whatever is glued to it: an address, a host, a key with its dots."""
_RUN = re.compile(rb"[A-Za-z0-9\x80-\xff]{8,%d}" % _MOST)
"""What it is glued from."""
_LETTERS = re.compile(rb"[a-z]+|[A-Z][a-z]+|[A-Z]+")
_BESIDE = rb"\s\0!-/:-@\[-`{-~"
_PLAIN = re.compile(rb"(?:(?<=[%s])|\A)[A-Za-z]{8,%d}(?=[%s]|\Z)" % (_BESIDE, _MOST, _BESIDE))
"""A word of letters alone, beside what stands beside words in texts. In compiled code it is some name."""


class Marks:
    """CONTENTS are what is taken out; VALUES (with what each is called) are known as wholes as well.

    What stands in PUBLIC, texts that stay, is no secret and not looked for."""

    def __init__(
        self, contents: Iterable[bytes] = (), values: Mapping[str, bytes] | None = None, public: Iterable[bytes] = ()
    ) -> None:
        self._public = Public(public)
        self._words: set[bytes] = set()
        """Of letters alone."""
        self._windows: set[bytes] = set()
        self._heads: dict[bytes, list[bytes]] = {}
        """Words and values that are found anywhere, by their first eight bytes."""
        self._short: dict[bytes, str] = {}
        self._called: dict[bytes, str] = {}
        self._left: set[bytes] = set()
        """What of CONTENTS stands in PUBLIC."""
        self.too_short: list[str] = []
        """Values that are not looked for, because they stand everywhere."""
        self.stay: list[str] = []
        """Values that stand in PUBLIC."""
        for raw in contents:
            self._add(raw)
            whole = raw.strip(b" \t\r\n\0")
            text = whole.isascii() and whole.decode("ascii").isprintable()
            if SHORT <= len(whole) < WORD and len(set(whole)) >= _PLAIN_VALUE and text:
                self._add_value("", whole)
        for name, value in (values or {}).items():
            if len(value) < SHORT or len(set(value)) < _PLAIN_VALUE:
                self.too_short.append(name)
            elif self._public.has_value(value):
                self.stay.append(name)
            else:
                self._add_value(name, value)
                self._add(value, letters=False)  # that a variable holds a word of the language makes that no secret
        # For bytes.isdisjoint at the speed of C: the same eight bytes as numbers.
        self._first = {piece[:WORD] for pieces in (self._heads, self._windows) for piece in pieces}
        self._numbers = {int.from_bytes(head, "little") for head in self._first}
        short = b"|".join(map(re.escape, sorted(self._short)))
        self._shorts = re.compile(rb"(?<![A-Za-z0-9])(?:" + short + rb")(?![A-Za-z0-9])") if short else None

    def __bool__(self) -> bool:
        return bool(self._numbers or self._words or self._short)

    # ---------------------------------------------------------------- what is looked for
    def _add(self, raw: bytes, letters: bool = True) -> None:
        for at in range(0, len(raw) - WINDOW + 1, WINDOW):
            window = raw[at : at + WINDOW]
            if len(set(window)) < _DISTINCT:
                continue
            (self._left if self._public.has(window) else self._windows).add(window)
        for token in set(_TOKEN.findall(raw)):
            for word in (token, *_RUN.findall(token)):
                if len(set(word)) < _DISTINCT:
                    continue
                if self._public.has_word(word):
                    self._left.add(word)
                elif not _LETTERS.fullmatch(word):
                    self._anywhere(word)
                elif letters:
                    self._words.add(word)

    def _add_value(self, name: str, value: bytes) -> None:
        if len(value) < WORD:
            self._short[value] = name
        else:
            self._anywhere(value)
            self._called[value] = name

    def _anywhere(self, pattern: bytes) -> None:
        known = self._heads.setdefault(pattern[:WORD], [])
        if pattern not in known:
            known.append(pattern)

    def leave(self, text: bytes) -> bool:
        """Whether TEXT, one of PUBLIC, has some of CONTENTS in it."""
        return any(piece in text for piece in self._left)

    def name_of(self, found: bytes) -> str:
        """Of the value that FOUND is or holds; empty where nobody named it."""
        named = (name for value, name in {**self._called, **self._short}.items() if name and value in found)
        return next(named, "")

    # ---------------------------------------------------------------- finding it
    def found_in(self, raw: bytes, text: bool = True) -> list[tuple[int, int]]:
        """Where in RAW such bytes stand: ranges in their order, apart from each other.

        Without TEXT it is compiled code, in which words of letters are names that it has by itself."""
        ranges = list(self._found_anywhere(raw))
        if text:
            ranges += [match.span() for match in _PLAIN.finditer(raw) if match.group() in self._words]
        if text and self._shorts:
            ranges += [match.span() for match in self._shorts.finditer(raw)]
        joined: list[tuple[int, int]] = []
        for start, end in sorted(ranges):
            if joined and start <= joined[-1][1]:
                joined[-1] = joined[-1][0], max(end, joined[-1][1])
            else:
                joined.append((start, end))
        return joined

    def _found_anywhere(self, raw: bytes) -> Iterator[tuple[int, int]]:
        first = self._first
        for start in range(0, len(raw) if first else 0, _PIECE):
            piece = raw[start : start + _PIECE + WORD - 1]
            if not self._may_have(piece):
                continue
            for at in range(start, min(start + _PIECE, len(raw) - WORD + 1)):
                head = raw[at : at + WORD]
                if head not in first:
                    continue
                if raw[at : at + WINDOW] in self._windows:
                    yield at, at + WINDOW
                for pattern in self._heads.get(head, ()):
                    if raw.startswith(pattern, at):
                        yield at, at + len(pattern)

    def _may_have(self, piece: bytes) -> bool:
        view = memoryview(piece)
        for at in range(min(WORD, len(piece) - WORD + 1)):
            whole = (len(piece) - at) // WORD * WORD
            if not self._numbers.isdisjoint(view[at : at + whole].cast("Q")):
                return True
        return False


class Public:
    """Texts that stay as they are, as the paths of programs: what they are made of is no secret."""

    def __init__(self, texts: Iterable[bytes]) -> None:
        self._texts = list(dict.fromkeys(texts))
        self._joined = b"\0".join(self._texts)
        self._words = {
            word for text in self._texts for token in _TOKEN.findall(text) for word in (token, *_RUN.findall(token))
        }
        self._parts = {part for text in self._texts for part in text.split(b"/")}

    def has(self, raw: bytes) -> bool:
        return raw in self._joined

    def has_word(self, word: bytes) -> bool:
        return word in self._words

    def has_value(self, value: bytes) -> bool:
        """Whether it is such a text, a part of a path, or a directory on its way."""
        if not value:
            return False
        way = value.rstrip(b"/") + b"/"
        return value in self._parts or any(
            text == value or (value.startswith(b"/") and text.startswith(way)) for text in self._texts
        )
