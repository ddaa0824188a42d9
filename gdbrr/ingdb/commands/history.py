"""rr-history: every change of an expression.

Runs in: GDB's Python. May call: the session it is given.
Owns: the forms in which changes are listed.
"""

from __future__ import annotations

import csv
import io
import json
from argparse import Namespace
from itertools import islice
from typing import TYPE_CHECKING

from gdbrr.errors import GdbrrError
from gdbrr.ingdb.registry import arg, count, option, rr_command, switch

if TYPE_CHECKING:
    from gdbrr.ingdb.search import Change
    from gdbrr.ingdb.session import Session

COLUMNS = ("value", "before", "moment", "thread", "code")
_PART = "part"
"""The column more that a place has which is too large to be shown: which part of it changed."""


@rr_command(
    "rr-history",
    args=(
        option("-n", "N", "no more than N changes", parse=count),
        switch("--csv", "as lines of comma-separated values, with a line of names"),
        switch("--json", "one JSON object a line"),
        arg("EXPR", help="what to look at, as for `watch`", rest=True, complete="expression"),
    ),
    kind="status",
)
def rr_history(session: Session, args: Namespace) -> None:
    """List every change of an expression before here, newest first.

    Each line shows the value, what it was before, the moment (for rr-goto), the thread that made the change
    by its id, and the function and line; of an array or structure of more than 64 bytes, the first part that
    changed, or one of them where a repeated string instruction filled it. Where a pointer in EXPR changes, what
    it points to is looked for anew; a local is followed to where its function was called. Ctrl-C ends the list.

    Examples:
      rr-history account->balance
      rr-history -n 5 --csv head->next
    """
    from gdbrr.ingdb import compat, search

    if args.csv and args.json:
        raise GdbrrError("--csv and --json are two forms of the list", hint="name one of them")
    found = False
    for change in islice(search.history(session, args.expr), args.n):
        columns = (*COLUMNS, _PART) if change.name else COLUMNS
        if args.csv and not found:
            compat.write(csv_line(columns))
        found = True
        if args.json:
            compat.write(json.dumps(dict(zip(columns, values(change), strict=True))))
        else:
            compat.write(csv_line(values(change)) if args.csv else line(change))
    if not found and not args.json and not args.csv:
        compat.write(f"{args.expr} does not change before here.")


def values(change: Change) -> tuple[str | int, ...]:
    row = change.new, change.old, change.moment, change.thread, change.code
    return (*row, change.name) if change.name else row


def line(change: Change) -> str:
    """`-30 (was 20)  tick 120:0x401136#2  thread 7002  withdraw at account.c:41`."""
    name = f"{change.name} = " if change.name else ""
    return f"{name}{change.new} (was {change.old})  tick {change.moment}  thread {change.thread}  {change.code}"


def csv_line(row: tuple[str | int, ...]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(row)
    return out.getvalue()
