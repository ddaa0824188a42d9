"""What becomes of a mistake of gdbrr's own in the server: one command fails, the session goes on.

Runs in: the server. May call: errors.
Owns: standard error, where the traceback goes; inside GDB `set gdbrr verbose on` shows it.
"""

from __future__ import annotations

import sys
import traceback

from gdbrr.errors import GdbrrError


def internal(error: Exception) -> GdbrrError:
    """ERROR as an error that can be told; its traceback is left for those who look for it."""
    traceback.print_exception(error, file=sys.stderr)
    sys.stderr.flush()
    return GdbrrError(
        f"internal error: {type(error).__name__}: {error}",
        hint="`set gdbrr verbose on` shows the traceback; please report it",
    )
