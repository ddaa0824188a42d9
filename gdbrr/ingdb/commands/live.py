"""rr-live: back to the process that is being recorded.

Runs in: GDB's Python. May call: the session it is given.
Owns: nothing.
"""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from gdbrr.ingdb.registry import rr_command

if TYPE_CHECKING:
    from gdbrr.ingdb.session import Session


@rr_command("rr-live")
def rr_live(session: Session, args: Namespace) -> None:
    """Return from the past to the process that is being recorded.

    It stands where it was left; `continue` runs and records it further.
    """
    session.live()
