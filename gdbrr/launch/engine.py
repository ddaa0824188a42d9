"""Where the built engine is, in a checkout or in an installed package, and where GDB.

Runs in: commands outside GDB and the server. May call: the file system.
Owns: the value of LD_PRELOAD.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from gdbrr.errors import GdbrrError

PACKAGE = Path(__file__).resolve().parents[1]
_PADDING = 256


class Engine(NamedTuple):
    library: Path
    launcher: Path

    def preload(self, users: str = "") -> str:
        """The value of LD_PRELOAD, with what the user had there behind the engine.

        The path is padded with slashes, because its length moves the program's stack and the loader's heap: a
        demo must also fit an engine that lives elsewhere.
        """
        path = str(self.library)
        if any(char in path for char in " :"):
            raise GdbrrError(
                f"gdbrr lies in a directory whose name the loader cannot take: {self.library.parent}",
                "move it to a path without spaces and colons",
            )
        length = len(path.encode("utf-8", "surrogateescape"))
        padded = "/" * (-length % _PADDING) + path
        return f"{padded}:{users}" if users else padded


def find() -> Engine:
    """The engine of this checkout, else the one that the package brought along."""
    for place in (PACKAGE.parent / "preload", PACKAGE / "_engine"):
        engine = Engine(place / "libgdbrr.so", place / "gdbrr-launch")
        if engine.library.is_file() and engine.launcher.is_file():
            return engine
    raise GdbrrError("the engine is not built", "in a checkout run `make build`; else install gdbrr again")


def gdbinit() -> Path:
    """What a user sources."""
    for place in (PACKAGE.parent / "gdbinit.py", PACKAGE / "_engine" / "gdbinit.py"):
        if place.is_file():
            return place
    raise GdbrrError("gdbinit.py is missing", "install gdbrr again")


def gdb() -> str:
    """The GDB to use."""
    import shutil  # brings compression along, which the start of a recording need not wait for

    name = os.environ.get("GDBRR_GDB") or "gdb"
    found = shutil.which(name)
    if not found:
        raise GdbrrError(f"there is no {name}", hint="install it (Debian, Ubuntu: apt-get install gdb gdbserver)")
    return found
