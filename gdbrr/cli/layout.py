"""How help is laid out.

Runs in: a command of its own, when argparse is needed (see plain.py). May call: argparse.
Owns: the width of help.
"""

from __future__ import annotations

import argparse
import os


class Layout(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal. argparse would import shutil at every start to find that out."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


def _columns() -> int:
    try:
        return int(os.environ.get("COLUMNS", "0")) or os.get_terminal_size(1).columns or 80
    except (ValueError, OSError):
        return 80
