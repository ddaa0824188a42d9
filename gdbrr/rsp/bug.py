"""What becomes of an error in the server, be it a mistake of gdbrr's own: one command fails, the session goes on.

Runs in: the server. May call: errors, gdbrr.rsp.packet, gdbrr.rsp.request.
Owns: standard error, where the traceback goes; inside GDB `set gdbrr verbose on` shows it.
"""

from __future__ import annotations

import sys
import traceback

from gdbrr.errors import GdbrrError
from gdbrr.rsp.link import Closed
from gdbrr.rsp.packet import error_text
from gdbrr.rsp.request import ReadMemory, Request, StopReason


def internal(error: Exception) -> GdbrrError:
    """ERROR as an error that can be told; its traceback is left for those who look for it."""
    traceback.print_exception(error, file=sys.stderr)
    sys.stderr.flush()
    return GdbrrError(
        f"internal error: {type(error).__name__}: {error}",
        hint="`set gdbrr verbose on` shows the traceback; please report it",
    )


def refusal(request: Request, error: GdbrrError) -> bytes:
    """The reply to a REQUEST that could not be answered."""
    if isinstance(request, StopReason):
        # GDB 13.1 takes an error here for a stop that says nothing, and asks itself about it for ever.
        tell(error)
        raise Closed from None
    if isinstance(request, ReadMemory):
        # Of a text GDB 13.1 reads the second letter as a digit, and is thrown out of its frames by that.
        tell(error)
        return b"E01"
    return error_text(str(error))


def tell(error: GdbrrError, who: str = "gdbrr") -> None:
    """Where GDB says only that it cannot access memory, gdbrr's side of it shows what stands here."""
    print(f"{who}: {error}", file=sys.stderr, flush=True)
