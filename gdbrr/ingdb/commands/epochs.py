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
    """List the epochs: when they began, what is in them, and where checkpoints stand.

    An arrow marks the epoch that contains now, a star one whose start has a checkpoint, from which going
    there is fastest; a bar shows how far now is from the start and the end. `rr-goto e3` goes to the start of
    epoch 3.
    """
    session.say_epochs()
