"""The verb `events`: the operations of a demo in total order, one line each. Needs no binary.

Runs in: a command of its own. May call: gdbrr.demo and gdbrr.config.tables, imported when the verb runs.
Owns: the columns of the table and the keys of its JSON lines.
"""

from __future__ import annotations

import argparse
import errno
import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gdbrr.cli.words import preview
from gdbrr.errors import EXIT_USAGE, GdbrrError

if TYPE_CHECKING:
    from gdbrr.demo.events import Event

EPILOG = """\
examples:
  gdbrr events crash.demo                        every operation, in the order of the demo
  gdbrr events crash.demo --thread 2             those of one thread
  gdbrr events crash.demo --from 500 --to 520    ticks 500 to 520
  gdbrr events crash.demo --json | head -1       one JSON object a line, with all fields

A tick is the place of an operation in the order, as in `rr-goto TICK`.
"""

_HEADER = f"{'tick':>10}  {'thread':>6}  {'operation':<13} {'call':<18} {'result':>14}  {'object':<18}  data"
_DATA_ROOM = 48


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "events",
        help="the operations of a demo, one line each",
        description="List the operations of a demo in total order. The program itself is not needed.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("demo", metavar="DEMO", type=Path, help="a file made by gdbrr record")
    parser.add_argument("--thread", metavar="N", type=int, help="only thread N (gdbrr info lists them)")
    parser.add_argument("--from", metavar="T", dest="first", type=int, default=0, help="start at tick T")
    parser.add_argument("--to", metavar="T", dest="last", type=int, help="end behind tick T")
    parser.add_argument("--json", action="store_true", help="one JSON object a line instead of a table")


def main(args: argparse.Namespace) -> int:
    from gdbrr.demo.reader import Demo

    with Demo.open(args.demo, check=False) as demo:
        if args.thread is not None and not 0 <= args.thread < len(demo.threads):
            last = len(demo.threads) - 1
            hint = f"its threads are 0 to {last}" if last >= 0 else "it has no operations at all"
            raise GdbrrError(f"there is no thread {args.thread} in {demo.path}", hint, EXIT_USAGE)
        if args.first < 0 or (args.last is not None and args.last < args.first):
            raise GdbrrError("--from and --to enclose no tick", "give them in order, e.g. --from 1 --to 9", EXIT_USAGE)
        if args.first >= demo.ticks > 0:
            raise GdbrrError(f"there is no tick {args.first}", f"the last one is {demo.ticks - 1}", EXIT_USAGE)
        if not args.json:
            print(_HEADER)
        for event in demo.events(args.thread, args.first, None if args.last is None else args.last + 1):
            print(json.dumps(as_json(event)) if args.json else as_line(event))
        if demo.damage:
            sys.stdout.flush()
            reason = demo.damage.reason
            hint = f"gdbrr info {demo.path} says how much is lost"
            raise GdbrrError(f"{demo.path} is damaged: {reason}; nothing from tick {demo.ticks} on can be read", hint)
    return 0


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


def as_json(event: Event) -> dict[str, Any]:
    from gdbrr.abi import OPS

    return {
        "tick": event.tick,
        "thread": event.thread,
        "operation": OPS.get(event.kind, str(event.kind)).lower(),
        "call": call_name(event) or None,
        "result": event.result,
        "object": event.object,
        "check": event.check,
        "flags": event.flags,
        "stamp": event.stamp,
        "time": event.time / 1e6 if event.time else None,
        "data": event.data.hex(),
    }
