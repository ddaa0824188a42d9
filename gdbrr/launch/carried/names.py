"""The two names of a carried file: the one that the recorded program knows, and where it lies on this machine.

Runs in: commands outside GDB and the server. May call: /proc of a process.
Owns: what a placed demo's directory holds: root/ with every file under its recorded name, run/ with what is executed,
`program` with its recorded name.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

ROOT, RUN, PROGRAM = "root", "run", "program"
PREFIX = "gdbrr-carried-"


class Names(NamedTuple):
    """Of the demo whose files lie in BASE."""

    base: Path
    program: bytes
    """The file that is executed, as the recording has it."""

    @property
    def root(self) -> Path:
        return self.base / ROOT

    def here(self, recorded: bytes) -> bytes:
        """Where a file of the recording lies, whether the demo brings it or not."""
        return os.path.join(os.fsencode(self.root), os.path.normpath(b"/" + recorded).lstrip(b"/"))

    def recorded_in(self, text: bytes) -> bytes:
        """The other way round, in TEXT."""
        run, root = os.fsencode(self.base / RUN), os.fsencode(self.root)
        return re.sub(re.escape(run) + rb"/[^\n]*", lambda _: self.program, text).replace(root + b"/", b"/")


def of(pid: int) -> Names | None:
    """None for a process that runs from this machine's own files."""
    try:
        run = Path(os.readlink(f"/proc/{pid}/exe")).parent
        if run.name != RUN or not run.parent.name.startswith(PREFIX):
            return None
        return Names(run.parent, (run.parent / PROGRAM).read_bytes())
    except OSError:
        return None
