"""The words of a command line as a shell would see them, with what is left of the line at hand.

Runs in: GDB's Python, and without GDB in tests. May call: the standard library and gdbrr.errors; never gdb.
Owns: nothing.
"""

from __future__ import annotations

from gdbrr.errors import GdbrrError

_SPACE = " \t\n"


class Line:
    """A cursor over one line of arguments."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.literal = False
        """Options have ended: `--` was read."""
        self._skip_space()

    def _skip_space(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in _SPACE:
            self.at += 1

    @property
    def done(self) -> bool:
        return self.at >= len(self.text)

    def rest(self) -> str:
        """Everything that is left, as typed."""
        left = self.text[self.at :].strip()
        self.at = len(self.text)
        return left

    def peek(self) -> str:
        """The next word if it could be an option, else an empty string."""
        raw = self.peek_raw()
        return raw if raw.startswith("-") and not self.literal else ""

    def peek_raw(self) -> str:
        """The next word as typed, up to the next space."""
        stop = self.at
        while stop < len(self.text) and self.text[stop] not in _SPACE:
            stop += 1
        return self.text[self.at : stop]

    def skip(self, raw: str) -> None:
        self.at += len(raw)
        self._skip_space()

    def at_last_word(self, raw: str) -> bool:
        """Is RAW, the next word, still being typed?"""
        return self.at + len(raw) == len(self.text)

    def word(self) -> str:
        """The next word: quotes and backslashes join, `'...'` is verbatim."""
        out: list[str] = []
        quote = ""
        while self.at < len(self.text):
            char = self.text[self.at]
            self.at += 1
            if char == quote:
                quote = ""
            elif char == "\\" and quote != "'" and self.at < len(self.text):
                out.append(self.text[self.at])
                self.at += 1
            elif quote:
                out.append(char)
            elif char in "'\"":
                quote = char
            elif char in _SPACE:
                break
            else:
                out.append(char)
        if quote:
            raise GdbrrError(f"a quote {quote} is not closed", hint=f"end the word with {quote}")
        self._skip_space()
        return "".join(out)
