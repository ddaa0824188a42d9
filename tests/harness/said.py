"""What GDB says, in the words of each of its versions.

Runs in: pytest. May call: the standard library.
Owns: nothing.
"""

from __future__ import annotations

import re

ENDS = ("No more reverse-execution history", "Reached end of recorded history")
"""At the start and the end of time: up to GDB 15, and from 16 on."""
NO_MORE = re.compile("|".join(ENDS))
NO_POINTS = re.compile("No breakpoints(?: or|,) watchpoints")
