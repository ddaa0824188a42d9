"""rr-back: epochs back, to the last change of an expression, or to the last execution of a place.

Runs in: GDB's Python. May call: the session it is given.
Owns: nothing.
"""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from gdbrr.ingdb.registry import arg, count, option, rr_command

if TYPE_CHECKING:
    from gdbrr.ingdb.session import Session


@rr_command(
    "rr-back",
    args=(
        arg("COUNT", count, 1, "how many epoch starts, changes or executions to go back; 1 if not given"),
        option("-w", "EXPR", "to the last change of EXPR, as for `watch`", rest=True, complete="expression"),
        option("-b", "LOCATION", "to the last execution of LOCATION, as for `break`", rest=True, complete="location"),
    ),
    usage="rr-back [COUNT] [-w EXPR | -b LOCATION]",
    repeats=True,
)
def rr_back(session: Session, args: Namespace) -> None:
    """Go back in time: to the start of this epoch, to a change, or to a place in the code.

    Without an option it goes to the start of the epoch; again, to the one before. With -w it stands just
    before the change, in the thread that made it, and prints the old and the new value; again, it goes to the
    change before. EXPR may depend on several variables: where a pointer among them changes, what it points to
    is looked for anew. A local is followed to where its function was called. LOCATION may name a thread,
    and have a condition. Where there is nothing to go back to, it stays where it is.

    Examples:
      rr-back 3
      rr-back -w account->balance
      rr-back -w list->head->key
      rr-back 2 -b withdraw if amount > 100
      rr-back -b account.c:30 thread 2
    """
    from gdbrr.ingdb import search

    if args.w:
        search.back_to_change(session, args.w, args.count)
    elif args.b:
        search.back_to_place(session, args.b, args.count)
    elif session.move(epochs_back=args.count):
        session.say_when()
