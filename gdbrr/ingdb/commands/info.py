"""info gdbrr: what is open.

Runs in: GDB's Python. May call: the session it is given.
Owns: nothing.
"""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from gdbrr.ingdb.registry import rr_command

if TYPE_CHECKING:
    from gdbrr.ingdb.session import Session


@rr_command("info gdbrr", kind="status")
def info_gdbrr(session: Session, args: Namespace) -> None:
    """Show what is open: the demo or the recording, its size in time, and the processes behind it."""
    session.say_info()
