"""rr-replay: open a demo.

Runs in: GDB's Python. May call: the session it is given.
Owns: nothing.
"""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from gdbrr.ingdb.registry import arg, rr_command

if TYPE_CHECKING:
    from gdbrr.ingdb.session import Session


@rr_command("rr-replay", args=(arg("DEMO", help="a demo file", complete="file"),), kind="files", opens=True)
def rr_replay(session: Session, args: Namespace) -> None:
    """Open a demo and stand at its end.

    The program of the demo is loaded if GDB has none. From the end the way is back: reverse-continue to a
    breakpoint or watchpoint, rr-back, rr-goto.

    Example:
      rr-replay crash.demo
    """
    session.open_demo(args.demo)
    session.say_when()
