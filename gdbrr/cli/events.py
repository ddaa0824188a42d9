"""The verb `events`: the operations of a demo in total order, one line each. Needs no binary.

Runs in: a command of its own. May call: gdbrr.demo and gdbrr.report.rows.
Owns: the keys of its JSON lines.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gdbrr.cli.words import say
from gdbrr.errors import EXIT_USAGE, GdbrrError
from gdbrr.report.rows import HEADER, as_line, call_name

if TYPE_CHECKING:
    from gdbrr.demo.events import Event

EPILOG = """\
examples:
  gdbrr events crash.demo                        every operation, in the order of the demo
  gdbrr events crash.demo --thread 2             those of one thread
  gdbrr events crash.demo --from 500 --to 520    ticks 500 to 520
  gdbrr events crash.demo --json | head -1       one JSON object a line, with all fields

A tick is the place of an operation in the order, as in `rr-goto TICK`. Threads are counted from 0, as they were made;
GDB has numbers of its own, and `info threads` shows the recorded id of each, as `gdbrr info DEMO` does.
"""


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "events",
        help="the operations of a demo, one line each",
        description="List the operations of a demo in total order. The program itself is not needed.",
        epilog=EPILOG,
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
            say(HEADER)
        for event in demo.events(args.thread, args.first, None if args.last is None else args.last + 1):
            say(json.dumps(as_json(event)) if args.json else as_line(event))
        if demo.damage:
            sys.stdout.flush()
            reason = demo.damage.reason
            hint = f"gdbrr info {demo.path} says how much is lost"
            raise GdbrrError(f"{demo.path} is damaged: {reason}; nothing from tick {demo.ticks} on can be read", hint)
    return 0


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
