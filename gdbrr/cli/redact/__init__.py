"""The verb `redact`: a demo without what it has read from chosen places.

Runs in: a command of its own. May call: errors, demo, launch, sparse.
Owns: the wording of its report.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gdbrr.cli.words import number, printable, say, size, tell
from gdbrr.errors import EXIT_DESYNC, EXIT_USAGE, GdbrrError

if TYPE_CHECKING:
    from gdbrr.sparse.redact import Choice, Redactor, Result, Row, Without

EPILOG = """\
examples:
  gdbrr redact crash.demo                           what it holds, by class, descriptor and path; writes nothing
  gdbrr redact crash.demo --path '*/passwords' --env -o public.demo
  gdbrr redact crash.demo --class net --class tty -o public.demo
  gdbrr redact crash.demo --fd 0 -o public.demo     what was read from standard input

What those calls brought in is replaced by zeros, as many bytes as there were. So is every other stretch of 31 bytes and
every word of eight characters in the demo that is the same and was read elsewhere, also with others glued to it; in
arguments and the environment it is replaced by x (--keep-copies leaves all that). What is asked about files and
descriptors (stat, poll, ioctl ...) stays otherwise, and programs and libraries, unless a --path means them.

--env takes out the values of the environment in the same way: from four characters on where they stand by themselves,
from eight on anywhere; shorter ones in the environment alone. --keep-env says which are no secret. What the demo's own
paths are made of (its directory, program, libraries) stays in all of it, and is named.

At last all of the new demo is unpacked and searched for what was to be taken out. Where some of it still stands, as in
a program that a packed demo brings along, nothing is written, and a line says where.

With 32-bit hashes of what the program wrote and asked afterwards a guess could be checked, so they are taken out, too;
then a replay does not notice where that is other than recorded (--keep-hashes leaves them).

The new demo is replayed at once. It replays where the program's course does not depend on what is gone; else the exit
status is 125, and a line says up to where. Know what remains: lengths and results of calls, times, arguments, the
environment without --env, and names of files.
"""

_ROWS = 30


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "redact",
        help="take out of a demo what it has read from chosen places",
        usage="gdbrr redact DEMO [--class CLASS | --fd N | --path PATTERN | --env]... [-o OUT]",
        description="Write DEMO again without the bytes that were read from chosen classes, descriptors or paths.",
        epilog=EPILOG,
    )
    parser.add_argument("demo", metavar="DEMO", type=Path, help="a file that gdbrr record made")
    parser.add_argument(
        "--class",
        metavar="CLASS",
        action="append",
        default=[],
        dest="classes",
        help="calls of a class: net, tty, file ...",
    )
    parser.add_argument("--fd", metavar="N", action="append", default=[], dest="fds", help="calls on descriptor N")
    parser.add_argument(
        "--path",
        metavar="PATTERN",
        action="append",
        default=[],
        dest="paths",
        help="calls on such files, as in a shell",
    )
    parser.add_argument("--env", action="store_true", help="also the values of environment variables")
    parser.add_argument(
        "--keep-env", metavar="NAME", action="append", default=[], help="with --env: this variable is no secret"
    )
    parser.add_argument("--keep-copies", action="store_true", help="leave the same bytes where they stand elsewhere")
    parser.add_argument("--keep-hashes", action="store_true", help="leave hashes of what the program wrote and asked")
    parser.add_argument("--fill", metavar="CHARACTER", default="\0", help="instead of zeros")
    parser.add_argument(
        "-o", "--output", metavar="OUT", type=Path, help="the demo to write (default: NAME-redacted.demo)"
    )
    parser.add_argument("--trust", action="store_true", help="replay it although somebody else recorded it")


def main(args: argparse.Namespace) -> int:
    from gdbrr.cli.minimize import refuse_digests
    from gdbrr.cli.record import check_output
    from gdbrr.demo import carried
    from gdbrr.demo.reader import Demo
    from gdbrr.launch import files
    from gdbrr.sparse import payload, redact

    choice = choice_of(args)
    if args.keep_env and not args.env:
        raise GdbrrError("--keep-env belongs to --env", "leave it out, or add --env", EXIT_USAGE)
    fill = args.fill.encode()
    if len(fill) != 1:
        raise GdbrrError("--fill takes one ASCII character", "try: --fill x", EXIT_USAGE)
    out = args.output or args.demo.with_name(f"{args.demo.stem}-redacted.demo")
    with Demo.open(args.demo) as found, files.expanded(found) as demo:
        carried.check_whole(found)
        if not any(choice) and not args.env:
            say("\n".join(table(redact.Redactor(demo, args.trust))))
            return 0
        check_output(out)
        if out.exists() and out.samefile(args.demo):
            raise GdbrrError(f"{out} is the demo itself", "choose another -o", EXIT_USAGE)
        refuse_digests(demo)
        redactor = redact.Redactor(demo, args.trust)
        values = redact.values_of(demo.manifest["env"], args.keep_env) if args.env else None
        result = redactor.take(choice, not args.keep_copies, values)
        if any(choice) and not any(row.size for row in result.taken):
            raise GdbrrError(
                "nothing that was read fits", f"see what there is: gdbrr redact {shlex.quote(str(args.demo))}"
            )
        hashes = () if args.keep_hashes else tuple(payload.checks(demo))
        without = redact.Without(args.env, (*args.keep_env, *result.marks.stay), hashes)
        redact.write(redactor, demo, result, fill, without, out)
    for line in said(result, out, without):
        tell(f"gdbrr: {printable(line)}")
    return tried(out, args.trust, bool(hashes))


def choice_of(args: argparse.Namespace) -> Choice:
    from gdbrr.config import tables
    from gdbrr.sparse.redact import Choice

    known = {row.name for row in tables.classes()}
    for name in args.classes:
        if name not in known:
            raise GdbrrError(f"there is no class {name}", f"classes are {', '.join(sorted(known))}", EXIT_USAGE)
    for word in args.fds:
        if not word.isdecimal():
            raise GdbrrError(f"--fd {word} is no number of a descriptor", "try: --fd 0", EXIT_USAGE)
    return Choice(frozenset(args.classes), frozenset(map(int, args.fds)), tuple(args.paths))


def table(redactor: Redactor) -> Iterator[str]:
    rows = redactor.rows()
    yield f"  {'class':<8} {'descriptors':<12} {'bytes':>9}  {'calls':>7}  what it was read from"
    for row in rows[:_ROWS]:
        fds = ",".join(map(str, sorted(row.fds)[:4])) or "-"
        program = "  (program or library)" if row.program else ""
        yield f"  {row.cls or '-':<8} {fds:<12} {size(row.size):>9}  {row.calls:>7,}  {printable(row.name)}{program}"
    if len(rows) > _ROWS:
        yield f"  ... and {size(sum(row.size for row in rows[_ROWS:]))} of {number(len(rows) - _ROWS, 'thing')} more"


def said(result: Result, out: Path, without: Without) -> Iterator[str]:
    total = sum(span.size for span in result.spans)
    taken = [f"{size(total)} of {_about(result.taken)}"] if result.taken else []
    taken += ["the values of the environment"] if without.env else []
    yield f"took out {', and '.join(taken)}; the rest is in {out}"
    if result.copies:
        yield f"of that, the same bytes stood elsewhere: {_about(result.copies)}"
    if result.left:
        yield f"left as they are, being programs and libraries: {_about(result.left)}"
    if result.named:
        yield f"words of it still stand in the demo's own paths: {', '.join(result.named)}"
    if result.marks.stay:
        yield f"the demo's own paths are made of the values of {_variables(result.marks.stay)}, which stay in it"
    if result.marks.too_short:
        few = "of which there are too few characters to know them"
        yield f"elsewhere than in the environment, {_variables(result.marks.too_short)} may still stand, {few}"
    if not result.marks and (result.spans or without.env):
        yield "what else of the demo has the same bytes was not looked at"


def _variables(names: Sequence[str]) -> str:
    return ", ".join(f"${name}" for name in names)


def _about(rows: Sequence[Row]) -> str:
    shown = [f"{row.name} ({number(row.calls, 'call')})" for row in rows[:5]]
    return (", ".join(shown) or "no calls") + (f" and {len(rows) - 5} more" if len(rows) > 5 else "")


def tried(out: Path, trust: bool, hashless: bool) -> int:
    """Replay what was written. Other output than recorded is to be expected."""
    from gdbrr.demo.reader import Demo
    from gdbrr.launch import replay

    with Demo.open(out) as demo:
        outcome = replay.run(demo, echo=False, trust=trust)
        if outcome.synchronised:
            tell("gdbrr: it replays as the demo did" + ("; what it writes was not compared" if hashless else ""))
            return 0
        if outcome.kept:
            tell("gdbrr: it replays as the demo did; only what it prints is other: gdbrr replay --soft-ok")
            return 0
        where = f"tick {outcome.ticks:,} of {demo.ticks:,}"
    tell(f"gdbrr: it replays up to {where} only: there the program's course depends on what is gone")
    return EXIT_DESYNC
