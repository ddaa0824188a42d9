"""gdbrr inside GDB: thin commands over a server that does the work.

Runs in: GDB's Python; importing the package imports nothing else. May call: gdb, through compat and params.
Owns: what `source gdbinit.py` sets up.
"""

from __future__ import annotations


def load() -> None:
    """Declare the commands and settings in this GDB."""
    from gdbrr.ingdb import commands, compat, params, registry, session

    del commands  # importing it declared them
    if compat.version() < compat.OLDEST:
        raise compat.failure("gdbrr", f"it needs GDB {compat.OLDEST[0]} or newer. Try: gdbrr doctor")
    settings = params.Settings()
    params.install(settings)
    current = session.Session(settings)
    for command in registry.commands():
        compat.install(command, current)
