"""Why there is no demo, as errors: refused before the program began, by what it did, or for want of room at the end.

Runs in: commands outside GDB and the server. May call: errors, abi, config, gdbrr.launch.spawn.
Owns: which errors leave the program free to be run without a recording.
"""

from __future__ import annotations

from gdbrr.abi import lib
from gdbrr.config import tables
from gdbrr.errors import GdbrrError
from gdbrr.launch import spawn
from gdbrr.quick.rows import TYPE_CHECKING
from gdbrr.quick.scopes import contextmanager

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gdbrr.ctl.control import Panic

LIMITS = "docs/limits.md says what can be recorded"


class Kept(GdbrrError):
    """No demo could be made, WHY is said; what was recorded is kept in its directory."""

    def __init__(self, why: str, where: str, hint: str) -> None:
        super().__init__(f"{why}; the recording is kept in {where}", hint)
        self.why = why

    code = 0
    """How the program ended, as Ending has it."""


class NotBegun(GdbrrError):
    """It cannot be recorded, and the program has not executed one instruction of its own yet."""


class InTheWay(NotBegun):
    """Somebody else records under this name."""


@contextmanager
def before_it_runs() -> Iterator[None]:
    """What goes wrong in here is the machine's fault or gdbrr's, unless there is no such program."""
    try:
        yield
    except NotBegun:
        raise
    except GdbrrError as error:
        if error.exit_code in (spawn.NOT_FOUND, spawn.NOT_EXECUTABLE):
            raise
        raise NotBegun(error.message, error.hint, error.exit_code) from None


def refusal(panic: Panic) -> GdbrrError:
    """What the engine refused, in words: here while recording, and of a replay what its report says."""
    if panic.got_op != lib.GR_OP_SYS_START:
        return GdbrrError(f"this cannot be recorded: {panic.text}", panic.hint or LIMITS)
    call = tables.syscall_by_nr().get(panic.got_nr)
    if call is None:
        return GdbrrError(
            f"the program makes system call {panic.got_nr}, which gdbrr does not know",
            "use a newer gdbrr, or an older kernel: programs that try a new call have another way",
        )
    what = panic.text if panic.text.isprintable() else ascii(panic.text)
    whole = f"{call.name} of {what}" if what else call.name
    for row in tables.refusals():
        if row.name == call.name:
            return GdbrrError(f"the program calls {whole}, which cannot be recorded: {row.reason}", row.way_out)
    return GdbrrError(f"the program calls {call.name} in a way that cannot be recorded yet", LIMITS)
