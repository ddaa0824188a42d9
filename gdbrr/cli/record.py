"""The verb `record`: runs a program as if alone, and keeps the run.

Runs in: a command of its own. May call: errors, config, launch.
Owns: the line that ends a recording.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gdbrr.cli.words import number, size
from gdbrr.errors import EXIT_USAGE, GdbrrError

if TYPE_CHECKING:
    from gdbrr.demo.pack import Summary

EPILOG = """\
examples:
  gdbrr record ./server --port 8080            to server-1.demo
  gdbrr record -o crash.demo -p sparse ./game  with a profile; gdbrr profiles lists them
  gdbrr record --set file=native make          files are read again on replay, not kept in the demo

The exit status is the program's own, 128+N when signal N ended it.
"""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "record",
        help="run a program and keep the run as a demo",
        usage="gdbrr record [OPTION ...] [--] PROGRAM [ARG ...]",
        description="Run PROGRAM on this terminal as if alone, and keep the run as a demo.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_options(parser)
    parser.add_argument(
        "command",
        metavar="PROGRAM [ARG ...]",
        nargs=argparse.REMAINDER,
        help="what to run, found like a shell would; its arguments are handed to it as they are",
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of a recording, also for `gdbrr serve --record`."""
    parser.add_argument("-o", "--output", metavar="DEMO", type=Path, help="the demo to write (default: PROGRAM-N.demo)")
    parser.add_argument("-p", "--profile", metavar="PROFILE", help="name or file of a profile (see: gdbrr profiles)")
    parser.add_argument(
        "--set",
        metavar="CLASS=MODE",
        action="append",
        default=[],
        dest="sets",
        help="change one value of the profile; modes are record, native and ignore",
    )
    parser.add_argument("--order", metavar="ORDER", help="how threads run while recording: parallel")


def sets_of(args: argparse.Namespace) -> list[str]:
    """Every value that the command line sets on top of the profile."""
    return [*args.sets, *([f"order={args.order}"] if args.order else [])]


def main(args: argparse.Namespace) -> int:
    from gdbrr.config import profiles
    from gdbrr.launch import engine, record, spawn

    cwd = os.getcwd()
    env = dict(os.environ)
    # Only the first `--` is ours: any other one is the program's.
    argv = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not argv:
        raise GdbrrError("no program is named", "gdbrr record --help shows examples", EXIT_USAGE)
    _, program = spawn.find_program(argv[0], env, cwd)
    profile = profiles.resolve(args.profile, Path(program), sets_of(args))
    demo = args.output or record.free_name(program, Path())
    if args.output and os.path.isdir(demo):
        raise GdbrrError(f"{demo} is a directory", "name the demo's file with -o")
    ending = record.run(record.Request(argv, env, cwd, profile, engine.find()), demo)
    if ending.panic and ending.panic.refused:
        raise record.refusal(ending.panic)
    if ending.panic:
        what = f"the recording ended early: {ending.panic.text}; what was recorded up to there is in {ending.demo}"
        raise GdbrrError(what, ending.panic.hint or "raise limits.log in the profile, or make room")
    assert ending.demo
    assert ending.summary
    print(line(ending.demo, ending.summary), file=sys.stderr)
    for note in ending.summary.notes:
        print(f"gdbrr: {note}", file=sys.stderr)
    return ending.status


def line(demo: Path, summary: Summary) -> str:
    return (
        f"gdbrr: recorded {number(summary.operations, 'operation')} of {number(summary.threads, 'thread')}"
        f" in {number(summary.epochs, 'epoch')} to {demo} ({size(summary.bytes)})"
    )
