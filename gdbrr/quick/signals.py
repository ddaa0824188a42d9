"""The module signal without its enumerations: numbers are enough.

Runs in: commands outside GDB. May call: _signal.
Owns: nothing.
"""

from __future__ import annotations

from gdbrr.quick.rows import TYPE_CHECKING

__all__ = ["name_of", "signal"]

if TYPE_CHECKING:
    import signal
else:
    try:
        import _signal as signal
    except ImportError:
        import signal


def name_of(number: int) -> str:
    """SIGSEGV for 11; empty for a number that has no name."""
    from signal import Signals

    try:
        return Signals(number).name
    except ValueError:
        return ""
