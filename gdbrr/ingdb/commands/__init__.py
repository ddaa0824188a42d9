"""The commands, one file each; importing the package declares them all, in the order in which help shows them.

Runs in: GDB's Python, and without GDB wherever the declarations are read. May call: the command modules.
Owns: the order.
"""

from __future__ import annotations

import importlib

ORDER = ("start", "replay", "back", "history", "goto", "mark", "when", "epochs", "info", "save", "live")

for _name in ORDER:
    importlib.import_module(f"{__name__}.{_name}")
