"""How the verbs write numbers, sizes and text that a demo brought along.

Runs in: a command of its own. May call: errors, gdbrr.report.words.
Owns: how numbers and sizes read.
"""

from __future__ import annotations

import os
import sys

from gdbrr.errors import EXIT_USAGE, GdbrrError, harmless
from gdbrr.report.words import preview, printable

__all__ = ["number", "positive", "preview", "printable", "say", "seconds", "size", "tell"]

_CLEAR = "\r\033[K"


# INVARIANT(nothing-is-obeyed): whatever a verb writes goes through `tell` or `say`, so nothing that a demo or an engine
# has brought along can make a terminal do anything.
def tell(text: str, end: str = "\n", *, anew: bool = False) -> None:
    """On standard error; ANEW in place of the line that stands there. That nobody reads it changes no exit status."""
    try:
        print(f"{_CLEAR if anew else ''}{harmless(text)}", end=end, file=sys.stderr, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def say(text: str = "", *, flush: bool = False) -> None:
    """A line, or several, on standard output."""
    print(harmless(text), flush=flush)


def number(n: int, noun: str) -> str:
    """'1 thread', '5,120 operations'."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def size(n: int) -> str:
    """Bytes in decimal units: '18.2 kB'."""
    if n < 1000:
        return f"{n} B"
    value = float(n)
    for unit in ("kB", "MB", "GB"):
        value /= 1000
        if value < 999.95:
            return f"{value:.1f} {unit}"
    return f"{value / 1000:.1f} TB"


def positive(option: str, text: str) -> int:
    """The value of an option that is a number from 1 on."""
    if not text.isdecimal() or not int(text):
        raise GdbrrError(f"{option} {text} is no number", f"try: {option} 100", EXIT_USAGE)
    return int(text)


def seconds(option: str, text: str) -> float:
    """The value of an option that is a time."""
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < 1e6:
        raise GdbrrError(f"{option} {text} is no number of seconds", f"try: {option} 30", EXIT_USAGE)
    return found
