"""rr-epochs: the epochs of the demo.

Runs in: GDB's Python. May call: the session it is given.
Owns: nothing.
"""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from gdbrr.ingdb.registry import rr_command

if TYPE_CHECKING:
    from gdbrr.ingdb.session import Session


@rr_command("rr-epochs", kind="status")
def rr_epochs(session: Session, args: Namespace) -> None:
    """List the epochs: their ticks, and where checkpoints stand.

    An arrow marks the epoch that contains now, a star one whose start has a checkpoint, from which going
    there is fastest. `rr-goto e3` goes to the start of epoch 3.
    """
    session.say_epochs()
