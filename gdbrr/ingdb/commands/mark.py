"""rr-mark: bookmarks.

Runs in: GDB's Python. May call: the session it is given.
Owns: nothing.
"""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from gdbrr.errors import GdbrrError
from gdbrr.ingdb.registry import arg, rr_command, switch

if TYPE_CHECKING:
    from gdbrr.ingdb.session import Session


@rr_command(
    "rr-mark",
    args=(
        switch("-d", "remove the bookmark NAME"),
        arg("NAME", str, "", "a name for here; without one, list the bookmarks", complete="mark"),
    ),
    kind="status",
)
def rr_mark(session: Session, args: Namespace) -> None:
    """Give this moment a name, to come back to it by `rr-goto NAME`.

    A name begins with a letter; letters, digits, '_', '-' and '.' follow. One that is given again moves here.
    Bookmarks are kept in a file beside the demo, DEMO.marks, for all sessions to come; those of a recording go
    along with rr-save.

    Examples:
      rr-mark before-the-crash
      rr-mark -d before-the-crash
    """
    if args.d and not args.name:
        raise GdbrrError("NAME is missing", hint="try: rr-mark -d NAME")
    if args.d:
        session.require().request("marks", remove=args.name)
    elif args.name:
        session.mark(args.name)
    else:
        session.say_marks()
