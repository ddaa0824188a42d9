"""rr-replay: open a demo.

Runs in: GDB's Python. May call: the session it is given.
Owns: nothing.
"""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from gdbrr.ingdb.registry import arg, rr_command, switch

if TYPE_CHECKING:
    from gdbrr.ingdb.session import Session


@rr_command(
    "rr-replay",
    args=(
        switch("--trust", "open it although another user or machine recorded it"),
        switch("--start", "stand at its start, without waiting for its end"),
        switch("--check", "compare the state wherever two copies of it come to the same place"),
        arg("DEMO", help="a demo file", complete="file"),
    ),
    kind="files",
    opens=True,
)
def rr_replay(session: Session, args: Namespace) -> None:
    """Open a demo and stand at its end.

    The program of the demo is loaded if GDB has none. From the end the way is back: reverse-continue to a
    breakpoint or watchpoint, rr-back, rr-goto. A demo names a program that runs again with your rights, but
    fenced in by the kernel: it can make no files, connections or processes. One that you did not record on
    this machine is refused without --trust, after showing what it would run. The end has to be replayed up to;
    Ctrl-C gives that up and stays at the start, while the replay goes on in the background. With --check,
    a move on whose way registers or memory are not what they were the first time ends with what differs.

    Example:
      rr-replay crash.demo
    """
    session.open_demo(args.demo, trust=args.trust, start=args.start, check=args.check)
    session.say_when()
