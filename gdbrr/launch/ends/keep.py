"""How a run ended, in one word, and whether its demo is kept for that.

Runs in: commands outside GDB. May call: the standard library.
Owns: the rules of `--save-on`; which signals are a crash.
"""

from __future__ import annotations

from gdbrr.quick.rows import TYPE_CHECKING
from gdbrr.quick.signals import name_of, signal

if TYPE_CHECKING:
    from collections.abc import Callable

CRASHES = frozenset(
    (
        signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT, signal.SIGTRAP, signal.SIGSYS
    )
)  # fmt: skip

PASSED, FAILED, CRASHED = "passed", "failed", "crashed"

RULES: dict[str, Callable[[str], bool]] = {
    "always": lambda result: True,
    "failure": lambda result: result != PASSED,
    "crash": lambda result: result == CRASHED,
    "never": lambda result: False,
}


def result_of(code: int) -> str:
    """CODE is an exit status, or -N for signal N. Whoever is asked to end (SIGTERM) has not crashed, but failed."""
    if code < 0:
        return CRASHED if -code in CRASHES else FAILED
    return FAILED if code else PASSED


def signal_name(number: int) -> str:
    return name_of(number) or f"signal {number}"
