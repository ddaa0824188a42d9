"""The verb `pack`: a demo with everything that it takes to replay it on another machine.

Runs in: a command of its own. May call: errors, demo, launch.
Owns: the line that says what was packed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gdbrr.cli.words import number, printable, size, tell
from gdbrr.errors import EXIT_USAGE, GdbrrError

EPILOG = """\
examples:
  gdbrr pack crash.demo                    to crash.packed.demo
  gdbrr pack --debug-info crash.demo       with debug information that is installed beside programs (/usr/lib/debug)
  gdbrr replay --trust crash.packed.demo   on another machine of the same architecture

A packed demo brings along the program, its libraries, the loader and the engine, by build-id the same ones that were
recorded; they are looked at here, so pack it where it was recorded, before they are upgraded. On the other machine
they are put into a private directory for as long as the demo is open, and nothing of that machine's own is loaded.

It is replayed here at once, from those files alone; the exit status is 125 when that replay differs.

Large files to which a demo only refers (gdbrr info names them) are brought in, as far as it needs them.

Whoever gets it runs programs of yours: it is replayed with --trust only, fenced in by the kernel like every replay.
It holds what the program has read, its arguments and its environment: look at it before you send it. Files that are
read natively (see gdbrr profiles) are not in it.
"""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "pack",
        help="add program and libraries to a demo, to replay it on another machine",
        description="Write DEMO again together with its program and libraries, so that it replays elsewhere.",
        epilog=EPILOG,
    )
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="what to write (default: NAME.packed.demo)")
    parser.add_argument("--debug-info", action="store_true", help="add debug information installed apart from programs")
    parser.add_argument("--no-replay", action="store_true", help="do not replay what was written")
    parser.add_argument("--trust", action="store_true", help="pack it although somebody else recorded it")
    parser.add_argument("demo", metavar="DEMO", type=Path, help="a file that gdbrr record made")


def main(args: argparse.Namespace) -> int:
    from gdbrr.cli.record import check_output, verify
    from gdbrr.demo import carried, referred, verified
    from gdbrr.demo.reader import Demo
    from gdbrr.launch import files
    from gdbrr.launch.carried import collect

    out = args.output or args.demo.with_name(args.demo.name.removesuffix(".demo") + ".packed.demo")
    check_output(out)
    if out.exists() and out.samefile(args.demo):
        raise GdbrrError(f"{out} is the demo itself", "name another file with -o", EXIT_USAGE)
    with Demo.open(args.demo) as demo:
        carried.check_whole(demo)
        files.check(demo)
        found = collect.collect(demo, args.debug_info, args.trust)
        written = carried.write(demo, {**demo.manifest, "carried": found.carried}, found.sources, out)
        brought = referred.missing(demo)
        native = demo.manifest.get("inputs", [])
    tell(f"gdbrr: packed {number(len(found.sources), 'file')} of {size(found.bytes)} into {out} ({size(written)})")
    if brought:
        total = size(sum(row.end - row.start for row in brought))
        tell(f"gdbrr: with {total} that it has read of {number(len(brought), 'large file')}")
    if found.without_debug:
        tell(f"gdbrr: no debug information is here for {printable(', '.join(found.without_debug))}")
    if native:
        which = f"{number(len(native), 'file')} natively, which must be the same where it is replayed"
        tell(f"gdbrr: it reads {which}; gdbrr info --json names them")
    if args.no_replay:
        return 0
    try:
        return verify(out, 0, trust=True)
    finally:
        verified.mark_of(out).unlink(missing_ok=True)  # nobody asked for a file beside it
