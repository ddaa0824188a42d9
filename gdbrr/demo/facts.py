"""What a demo says about itself, as values: end, epochs, threads, damage.

Runs in: the controller, the server, tests. May call: gdbrr.errors.
Owns: these records; gdbrr/demo/reader.py fills them in.
"""

from __future__ import annotations

from gdbrr.errors import GdbrrError
from gdbrr.quick.rows import NamedTuple


class End(NamedTuple):
    kind: str
    """exit, signal or unknown."""
    value: int
    """Exit status or signal number."""


class Epoch(NamedTuple):
    index: int  # type: ignore[assignment]  # nobody looks for a value in it
    start: int
    end: int
    bytes: int
    time: float | None
    """Seconds since the start of the recording at which it began; None where the recording does not tell."""


class ThreadInfo(NamedTuple):
    index: int  # type: ignore[assignment]
    operations: int
    bytes: int
    """Of its events, before compression."""
    recorded_tid: int | None
    parent: int | None


class Damage(NamedTuple):
    """Where a demo stops being readable."""

    offset: int
    reason: str
    lost_bytes: int
    tick: int
    """The first tick that is lost."""


class DamagedDemo(GdbrrError):
    """A block in the middle of what is read is damaged."""
