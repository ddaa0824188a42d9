"""What GDB says, in the words of each of its versions.

Runs in: pytest. May call: gdb.
Owns: nothing.
"""

from __future__ import annotations

import re
import subprocess
from functools import cache

ENDS = ("No more reverse-execution history", "Reached end of recorded history")
"""At the start and the end of time: up to GDB 15, and from 16 on."""
NO_MORE = re.compile("|".join(ENDS))
NO_POINTS = re.compile("No breakpoints(?: or|,) watchpoints")


@cache
def version() -> int:
    said = subprocess.run(["gdb", "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"\b(\d+)\.\d+", said.splitlines()[0])
    assert found, said
    return int(found[1])


def says_again() -> bool:
    """Whether this GDB announces the first stop of a session for the last one of the session before: from 14 on."""
    return version() >= 14


def waits_for_ever(line: str) -> bool:
    """Whether GDB says in LINE that it will never end: a server was killed that had not read all. From 14 on."""
    return version() >= 14 and "Error detected on fd" in line
