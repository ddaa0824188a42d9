"""One line for an operation of a demo, as `gdbrr events` and the reports show it.

Runs in: commands outside GDB. May call: abi, config, demo.
Owns: the columns of that line.
"""

from __future__ import annotations

import errno
import signal
from typing import TYPE_CHECKING

from gdbrr.report.words import preview

if TYPE_CHECKING:
    from gdbrr.demo.events import Event

HEADER = f"{'tick':>10}  {'thread':>6}  {'operation':<13} {'call':<18} {'result':>14}  {'object':<18}  data"
_DATA_ROOM = 48


def call_name(event: Event) -> str:
    """The system call or signal of an operation, by name."""
    from gdbrr.abi import OPS
    from gdbrr.config import tables

    op = OPS.get(event.kind, "")
    if not event.nr:
        return ""
    if op.startswith("SYS_"):
        known = tables.syscall_by_nr().get(event.nr - 1)
        return known.name if known else f"call {event.nr - 1}"
    if op in ("FAULT", "SIGNAL"):
        try:
            return signal.Signals(event.nr).name
        except ValueError:
            return f"signal {event.nr}"
    return str(event.nr)


def result_text(result: int) -> str:
    """A result as the program saw it; the kernel's errors by name."""
    if -4095 <= result < 0:
        return errno.errorcode.get(-result, str(result))
    return str(result) if abs(result) < 1 << 32 else f"{result & (1 << 64) - 1:#x}"


def as_line(event: Event) -> str:
    from gdbrr.abi import OPS

    op = OPS.get(event.kind, str(event.kind)).lower()
    result = result_text(event.result) if event.result or op in ("sys_end", "mutex_trylock") else ""
    thing = (str(event.object) if event.object < 65536 else f"{event.object:#x}") if event.object else ""
    data = f"{len(event.data)} {preview(event.data, _DATA_ROOM)}" if event.data else ""
    line = f"{event.tick:>10}  {event.thread:>6}  {op:<13} {call_name(event):<18} {result:>14}  {thing:<18}  {data}"
    return line.rstrip()
