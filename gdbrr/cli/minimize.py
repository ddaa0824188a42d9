"""The verb `minimize`: what of a demo a bug needs to show itself, and a demo without the rest.

Runs in: a command of its own. May call: errors, demo, sparse.
Owns: the wording of its report and the keys of its JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gdbrr.cli.words import number, positive, preview, printable, say, seconds, size, tell
from gdbrr.errors import GdbrrError

if TYPE_CHECKING:
    from gdbrr.demo.reader import Demo
    from gdbrr.sparse.minimize import Minimizer, Need, Result

EPILOG = """\
examples:
  gdbrr minimize crash.demo --keep crash                  to crash-min.demo
  gdbrr minimize wrong.demo --keep output -o small.demo
  gdbrr minimize wrong.demo --keep 'account->balance'     its value at the end, as GDB prints it

What the program's calls brought in (contents of files, messages, times, random bytes) is set to zero: whole classes
first, then system calls, what they were about (a path, a descriptor), single calls, bytes. Each time the demo is
replayed. What can be zero while the symptom stays is not needed. Results, lengths and the order of operations are the
course of the run, and stay as they are. The new demo replays as the first one did, with the same ticks.

A crash is the same one when the replay keeps to the demo up to it, at the same instruction and depth of the stack.
Ctrl-C ends the search, with the best that was found.
"""

_ROWS, _ROWS_OF_ALL = 8, 2
_SHOWN = 16


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "minimize",
        help="what of a demo a bug needs, and a demo without the rest",
        usage="gdbrr minimize DEMO --keep crash|output|EXPRESSION [OPTION ...]",
        description="Find out what of DEMO a symptom needs to show itself, and write a demo in which the rest is zero.",
        epilog=EPILOG,
    )
    parser.add_argument("demo", metavar="DEMO", type=Path, help="a file that gdbrr record made")
    parser.add_argument(
        "--keep", metavar="SYMPTOM", required=True, help="crash, output, or an expression whose value at the end stays"
    )
    parser.add_argument("-o", "--output", metavar="DEMO", type=Path, help="the demo to write (default: NAME-min.demo)")
    parser.add_argument("--tries", metavar="N", default="400", help="replays at most (default 400)")
    parser.add_argument(
        "--limit", metavar="SECONDS", default="0", help="what a replay may take (default 10 times that of the demo)"
    )
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")
    parser.add_argument("--trust", action="store_true", help="replay it although somebody else recorded it")


def main(args: argparse.Namespace) -> int:
    from gdbrr.cli.record import check_output
    from gdbrr.demo.reader import Demo
    from gdbrr.launch import files
    from gdbrr.sparse import symptom
    from gdbrr.sparse.minimize import Minimizer

    tries, limit = positive("--tries", args.tries), seconds("--limit", args.limit)
    out = args.output or args.demo.with_name(f"{args.demo.stem}-min.demo")
    check_output(out)
    with Demo.open(args.demo) as found, files.expanded(found) as demo:
        if out.exists() and out.samefile(args.demo):
            raise GdbrrError(f"{out} is the demo itself", "choose another -o")
        if not demo.complete:
            raise GdbrrError(f"{demo.path} is damaged", f"gdbrr info {shlex.quote(str(demo.path))} says more")
        refuse_digests(demo)
        sought = symptom.of(demo, args.keep, args.trust, limit)
        minimizer = Minimizer(demo, sought, args.trust, tries)
        with interrupted(minimizer):
            result = minimizer.run(out, Shown())
        if args.json:
            say(json.dumps(as_json(demo, out, sought.what, result), indent=2))
        else:
            say("\n".join(as_text(demo, out, sought.what, result)))
    return 0


def has_digests(demo: Demo) -> bool:
    """Was it recorded with --digest?"""
    profile = demo.manifest.get("profile", {}).get("values", {}).get("digest", {})
    return isinstance(profile, dict) and bool(profile.get("value"))


def refuse_digests(demo: Demo) -> None:
    if has_digests(demo):
        raise GdbrrError(
            f"{demo.path} was recorded with --digest: its replay compares all memory, so it needs every byte",
            "record the program again without it",
        )


@contextmanager
def interrupted(minimizer: Minimizer) -> Iterator[None]:
    """Ctrl-C ends the search with what it found; once more, it ends the command."""

    def stop(signum: int, frame: object) -> None:
        if minimizer.stopped:
            raise KeyboardInterrupt
        minimizer.stopped = True

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class Shown:
    """One line on a terminal, gone again at the end."""

    def __init__(self) -> None:
        self._wanted = sys.stderr.isatty()

    def __call__(self, tries: int, left: int, total: int) -> None:
        if self._wanted:
            tell(f"gdbrr: {number(tries, 'replay')}, {left:,} of {total:,} bytes may be needed", end="", anew=True)

    def __del__(self) -> None:
        if self._wanted:
            tell("", end="", anew=True)


def as_text(demo: Demo, out: Path, keep: str, result: Result) -> Iterator[str]:
    needed = [need for need in result.needs if need.needed]
    rest = [need for need in result.needs if not need.needed]
    yield f"{printable(str(demo.path))}: kept was {printable(keep)}; {number(result.tries, 'replay')}"
    yield ""
    if not needed:
        yield "It needs nothing of what was read: only the course of the calls, their results and lengths."
    else:
        yield "It needs" + (":" if result.whole else ", as far as was tried:")
        for need in needed:
            yield from _need(need)
    if rest:
        yield ""
        yield "It does not need (zero in the new demo):"
        for need in rest[:_ROWS]:
            yield f"  {_about(need)}  {size(need.size)} of {number(need.calls, 'call')}"
        if len(rest) > _ROWS:
            more = sum(need.size for need in rest[_ROWS:])
            yield f"  ... and {size(more)} of {number(len(rest) - _ROWS, 'thing')} more; all with --json"
    yield ""
    yield f"{printable(str(out))}: {size(result.size)}, the demo had {size(demo.size)}"
    yield f"gdbrr debug {shlex.quote(str(out))} opens it; the ticks are those of the demo"


def _about(need: Need) -> str:
    return f"{need.thing.cls or '-':<7} {printable(need.thing.name):<36}"


def _need(need: Need) -> Iterator[str]:
    from gdbrr.sparse.minimize import offset

    of = len({call.tick for call, _, _ in need.needed})
    yield (
        f"  {_about(need)}  {need.needed_bytes:,} of {number(need.size, 'byte')},"
        f" in {of:,} of {number(need.calls, 'call')}"
    )
    rows = _ROWS if need.needed_bytes < need.size else _ROWS_OF_ALL
    for call, span, data in need.needed[:rows]:
        first = offset(call, span)
        where = f"byte {first:,}" if span.size == 1 else f"bytes {first:,} to {first + span.size - 1:,}"
        yield f"      tick {call.tick:,}  {call.thing.call}  {where}  {preview(data, 3 * _SHOWN)}"
    if len(need.needed) > rows:
        more = len(need.needed) - rows
        yield f"      ... and {more:,} more {'stretch' if more == 1 else 'stretches'}; all with --json"


def as_json(demo: Demo, out: Path, keep: str, result: Result) -> dict[str, Any]:
    from gdbrr.sparse.minimize import offset

    return {
        "demo": os.fspath(demo.path),
        "output": os.fspath(out),
        "keep": keep,
        "tries": result.tries,
        "complete": result.whole,
        "bytes": result.size,
        "bytes_before": demo.size,
        "things": [
            {
                "class": need.thing.cls or None,
                "name": need.thing.name,
                "calls": need.calls,
                "payload_bytes": need.size,
                "needed_bytes": need.needed_bytes,
                "needed": [
                    {
                        "tick": call.tick, "thread": call.thread, "call": call.thing.call,
                        "offset": offset(call, span), "data": data.hex(),
                    }
                    for call, span, data in need.needed
                ],
            }
            for need in result.needs
        ],
    }  # fmt: skip
