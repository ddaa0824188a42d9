"""rr-when: where in time the session stands.

Runs in: GDB's Python. May call: the session it is given.
Owns: nothing.
"""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from gdbrr.ingdb.registry import rr_command

if TYPE_CHECKING:
    from gdbrr.ingdb.session import Session


@rr_command("rr-when", kind="status")
def rr_when(session: Session, args: Namespace) -> None:
    """Show where in time you are: tick, epoch, thread and line.

    A tick is the index of an operation in the order of all threads; `rr-goto TICK` comes back to it. The thread
    and its line are those whose moment it is: that it is not the selected one is said.
    "approximate" means that a thread could not be brought to the exact instruction it had reached.
    """
    session.say_when()
