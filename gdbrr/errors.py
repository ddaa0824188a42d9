"""The one family of expected errors, and the one place that prints them.

Runs in: everywhere, GDB's Python included. May call: the standard library only.
Owns: exit codes. Anything raised that is not a GdbrrError is a bug in gdbrr and keeps its traceback.
"""

from __future__ import annotations

EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_DESYNC = 125


def harmless(text: str, kept: str = "\n\t") -> str:
    """TEXT without what a terminal obeys, but for what is KEPT: names and paths in it may be those of a demo."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in kept else ascii(c)[1:-1] for c in text)


class GdbrrError(Exception):
    """Something a user can act on: one line that says what is wrong, and one that says the way out."""

    def __init__(self, message: str, hint: str = "", exit_code: int = EXIT_ERROR) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code

    def __str__(self) -> str:
        said = f"{self.message}. {self.hint[:1].upper()}{self.hint[1:]}" if self.hint else self.message
        return harmless(said)
