"""How the verbs write numbers, sizes and text that a demo brought along.

Runs in: a command of its own. May call: the standard library, gdbrr.report.words.
Owns: how numbers and sizes read, and how help is laid out.
"""

from __future__ import annotations

import argparse
import os
import sys

from gdbrr.report.words import preview, printable

__all__ = ["Layout", "number", "preview", "printable", "size", "tell"]


class Layout(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal. argparse would import shutil at every start to find that out."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


def _columns() -> int:
    try:
        return int(os.environ.get("COLUMNS", "0")) or os.get_terminal_size(1).columns or 80
    except (ValueError, OSError):
        return 80


def tell(text: str, end: str = "\n") -> None:
    """One line on standard error. That nobody reads it is no reason for another exit status."""
    try:
        print(text, end=end, file=sys.stderr, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


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
