"""rr-goto: any moment.

Runs in: GDB's Python. May call: the session it is given.
Owns: how a moment is written on a command line.
"""

from __future__ import annotations

import re
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from gdbrr.errors import GdbrrError
from gdbrr.ingdb.registry import arg, rr_command
from gdbrr.timeline.model import Moment

if TYPE_CHECKING:
    from gdbrr.ingdb.session import Session


def target(text: str) -> dict[str, Any]:
    """What to arm for MOMENT as a user writes it."""
    if text in ("start", "end"):
        return {"where": text}
    epoch = re.fullmatch(r"e(\d+)", text)
    if epoch:
        return {"epoch": int(epoch[1])}
    percent = re.fullmatch(r"(\d+(?:\.\d+)?)%", text)
    if percent:
        if float(percent[1]) > 100:
            raise GdbrrError(f"{text} is behind the end", hint="try: rr-goto end")
        return {"percent": float(percent[1])}
    try:
        return {"moment": str(Moment.parse(text))}
    except GdbrrError:
        raise GdbrrError(f"{text!r} is no moment", hint="try: rr-goto 120, start, end, 50% or e3") from None


@rr_command("rr-goto", args=(arg("MOMENT", target, help="where to go", complete="start end"),))
def rr_goto(session: Session, args: Namespace) -> None:
    """Go to a moment, back or forward.

    MOMENT is one of
      TICK        the instant before operation TICK, e.g. 120
      TICK:PC#N   the Nth time PC is executed behind it, as rr-when prints it, e.g. 120:0x401136#2
      start, end  of the demo
      50%         of its ticks
      e12         the start of epoch 12 (see rr-epochs)
    """
    if session.move(**args.moment):
        session.say_when()
