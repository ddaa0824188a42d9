"""rr-live: back to the process that is being recorded.

Runs in: GDB's Python. May call: the session it is given.
Owns: nothing.
"""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from gdbrr.ingdb.registry import rr_command, switch

if TYPE_CHECKING:
    from gdbrr.ingdb.session import Session


@rr_command("rr-live", args=(switch("-e", "end the recording here; the process goes on and may be changed"),))
def rr_live(session: Session, args: Namespace) -> None:
    """Return from the past to the process that is being recorded.

    It stands where it was left; `continue` runs and records it further. Writing to it or calling functions in
    it would make the recording false, so at a terminal you are asked first, and the recording ends there;
    elsewhere that is refused until `rr-live -e` has ended it. What is recorded stays, and the process goes on
    without it.
    """
    if not args.e or not session.status()["live"]:
        session.live()
    if args.e:
        session.end_recording()
