"""rr-goto: any moment.

Runs in: GDB's Python. May call: the session it is given.
Owns: how a moment is written on a command line.
"""

from __future__ import annotations

import datetime
import re
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from gdbrr.errors import GdbrrError
from gdbrr.ingdb.registry import arg, rr_command
from gdbrr.timeline.model import Moment

if TYPE_CHECKING:
    from gdbrr.ingdb.session import Session


_DATE = re.compile(r"(\d{4}-\d\d-\d\d[T ] *)?\d{1,2}:\d\d(:\d\d(\.\d+)?)?")


def unix_time(text: str, started: float | None) -> float:
    """A time of day here, of the day STARTED where TEXT names none."""
    if started is None:
        raise GdbrrError("this demo does not tell when it was recorded", hint="try: rr-goto 1.5s")
    day, _, clock = text.replace("T", " ").rpartition(" ")
    hour, minute, *second = clock.split(":")
    whole, _, rest = (second[0] if second else "0").partition(".")
    try:
        base = datetime.date.fromisoformat(day.strip()) if day else datetime.date.fromtimestamp(started)
        moment = datetime.datetime(base.year, base.month, base.day, int(hour), int(minute), int(whole))
    except ValueError as error:
        raise GdbrrError(f"{text} is no time of day: {error}", hint="try: rr-goto 14:03:05") from None
    return moment.timestamp() + float(f"0.{rest or 0}")


def target(text: str) -> dict[str, Any]:
    """What to arm for MOMENT as a user writes it."""
    if text in ("start", "end"):
        return {"where": text}
    epoch = re.fullmatch(r"e(\d+)", text)
    if epoch:
        return {"epoch": int(epoch[1])}
    span = re.fullmatch(r"([+-]?)(\d+(?:\.\d+)?)(ms|s)", text)
    if span:
        seconds = float(span[2]) / (1000 if span[3] == "ms" else 1)
        if not span[1]:
            return {"seconds": seconds}
        return {"later": -seconds if span[1] == "-" else seconds}
    if _DATE.fullmatch(text):
        return {"date": text}
    percent = re.fullmatch(r"(\d+(?:\.\d+)?)%", text)
    if percent:
        if float(percent[1]) > 100:
            raise GdbrrError(f"{text} is behind the end", hint="try: rr-goto end")
        return {"percent": float(percent[1])}
    try:
        return {"moment": str(Moment.parse(text))}
    except GdbrrError:
        if re.fullmatch(r"[A-Za-z_][\w.-]*", text):
            return {"mark": text}
        raise GdbrrError(f"{text!r} is no moment", hint="try: rr-goto 120, start, end, 50%, +3s or e3") from None


@rr_command(
    "rr-goto",
    args=(arg("MOMENT", target, help="where to go", rest=True, complete="moment"),),
    usage="rr-goto MOMENT",
)
def rr_goto(session: Session, args: Namespace) -> None:
    """Go to a moment, back or forward.

    MOMENT is one of
      TICK        the instant before operation TICK, e.g. 120
      TICK:PC#N   the Nth time PC is executed behind it, as rr-when prints it, e.g. 120:0x401136#2
      start, end  of the demo
      50%         of its ticks
      e12         the start of epoch 12 (see rr-epochs)
      3s, 250ms   that long behind the start of the recording
      +3s, -3s    later or earlier by that much
      14:03:05    a time of day, with a date (2026-11-18 14:03:05) or of the day of the recording
      NAME        a bookmark (see rr-mark)

    Times are known to some milliseconds: where several ticks have the same, it is the first that is later.
    """
    where = dict(args.moment)
    if "date" in where:
        where = {"at": unix_time(where["date"], session.status().get("started"))}
    if session.move(**where):
        session.say_when()
