"""rr-save: keep the demo.

Runs in: GDB's Python. May call: the session it is given.
Owns: nothing.
"""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from gdbrr.ingdb.registry import arg, rr_command

if TYPE_CHECKING:
    from gdbrr.ingdb.session import Session


@rr_command("rr-save", args=(arg("FILE", help="where to; it must not exist yet", complete="file"),), kind="files")
def rr_save(session: Session, args: Namespace) -> None:
    """Keep the demo in a file.

    FILE can be opened by rr-replay, gdbrr replay and the others. While recording it holds all up to now.
    """
    session.save(args.file)
