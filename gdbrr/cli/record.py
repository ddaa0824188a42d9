"""The verb `record`: runs a program as if alone, and keeps the run.

Runs in: a command of its own. May call: errors, config, launch.
Owns: the line that ends a recording.
"""

from __future__ import annotations

import argparse
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from gdbrr.cli.words import Layout, number, printable, size, tell
from gdbrr.errors import EXIT_USAGE, GdbrrError

if TYPE_CHECKING:
    from gdbrr.demo.pack import Summary

DIGEST = 64

_TAKES_A_WORD = ("-o", "--output", "-p", "--profile", "--set", "--order", "--seed")

EPILOG = """\
examples:
  gdbrr record ./server --port 8080            to server-1.demo
  gdbrr record -o crash.demo -p sparse ./game  with a profile; gdbrr profiles lists them
  gdbrr record --set file=native make          files are read again on replay, not kept in the demo
  gdbrr record --order random ./server         one thread at a time, who comes next is drawn: races replay, too
  gdbrr record --digest=100 ./parser           each replay compares registers and memory, too

--digest looks at all memory behind every N-th operation, while the program has one thread: while others run, memory
as a whole has no meaning. A replay whose registers or memory differ is desynchronised and names the first page.

The exit status is the program's own, 128+N when signal N ended it; 127 when there is no such program, 126
when it cannot be executed. Ctrl-C and the like go to the program; SIGTERM and SIGHUP are handed on to it.
"""


MAGIC = b"\x8bGDBRR\r\n"
"""What a demo begins with: gdbrr.demo.format is not imported, because it brings zstandard along."""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "record",
        help="run a program and keep the run as a demo",
        usage="gdbrr record [OPTION ...] [--] PROGRAM [ARG ...]",
        description="Run PROGRAM on this terminal as if alone, and keep the run as a demo.",
        epilog=EPILOG,
        formatter_class=Layout,
    )
    add_options(parser)
    parser.add_argument(
        "--digest",
        metavar="N",
        nargs="?",
        const=str(DIGEST),
        help=f"keep a digest of registers and memory behind every N-th operation (--digest=N; default {DIGEST})",
    )
    parser.add_argument(
        "command",
        metavar="PROGRAM [ARG ...]",
        nargs=argparse.REMAINDER,
        help="what to run, found like a shell would; its arguments are handed to it as they are",
    )


def prepare(words: list[str]) -> list[str]:
    """WORDS with a bare `--digest` completed: argparse would take the program for its value."""
    done = list(words)
    at = 0
    while at < len(done) and done[at].startswith("-") and done[at] != "--":
        if done[at] == "--digest":
            done[at] = f"--digest={DIGEST}"
        at += 2 if done[at] in _TAKES_A_WORD else 1
    return done


def add_options(parser: argparse.ArgumentParser, output: str = "the demo to write (default: PROGRAM-N.demo)") -> None:
    """The options of a recording, also for `gdbrr serve --record`."""
    parser.add_argument("-o", "--output", metavar="DEMO", type=Path, help=output)
    parser.add_argument("-p", "--profile", metavar="PROFILE", help="name or file of a profile (see: gdbrr profiles)")
    parser.add_argument(
        "--set",
        metavar="CLASS=MODE",
        action="append",
        default=[],
        dest="sets",
        help="change one value of the profile; modes are record, native and ignore",
    )
    parser.add_argument("--order", metavar="ORDER", help="how threads run: parallel, serial, random or pct")
    parser.add_argument("--seed", metavar="N", help="what random and pct draw from; the same one, the same order")


def sets_of(args: argparse.Namespace) -> list[str]:
    """Every value that the command line sets on top of the profile."""
    digest = getattr(args, "digest", None)
    return [
        *args.sets,
        *([f"order={args.order}"] if args.order else []),
        *([f"seed={args.seed}"] if args.seed is not None else []),
        *([f"digest={digest}"] if digest is not None else []),
    ]


def main(args: argparse.Namespace) -> int:
    from gdbrr.config import profiles
    from gdbrr.launch import engine, record, spawn

    cwd = os.getcwd()
    env = dict(os.environ)
    # Only the first `--` is ours: any other one is the program's.
    argv = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not argv:
        raise GdbrrError("no program is named", "try: gdbrr record --help", EXIT_USAGE)
    _, program = spawn.find_program(argv[0], env, cwd)
    profile = profiles.resolve(args.profile, Path(program), sets_of(args))
    demo = args.output or record.free_name(program, Path())
    if args.output:
        check_output(demo)
    ending = record.run(record.Request(argv, env, cwd, profile, engine.find()), demo)
    if ending.panic and ending.panic.refused:
        raise record.refusal(ending.panic)
    if ending.panic:
        for note in ending.summary.notes if ending.summary else ():
            tell(f"gdbrr: {printable(note)}")
        what = f"the recording ended early: {ending.panic.text}; what was recorded up to there is in {ending.demo}"
        way_out = "raise limits.log in the profile, or make room; limits.when_full=go_on lets the program go on"
        raise GdbrrError(what, ending.panic.hint or way_out)
    assert ending.demo
    assert ending.summary
    tell(line(ending.demo, ending.summary))
    for note in ending.summary.notes:
        tell(f"gdbrr: {printable(note)}")
    return ending.status


def check_output(demo: Path) -> None:
    """An older demo may be replaced; nothing else is, because a slip (`-o main.c`) must not cost a file."""
    if demo.is_dir():
        raise GdbrrError(f"{demo} is a directory", "name the demo's file with -o")
    if not demo.exists():
        return
    try:
        with open(demo, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as file:
            is_demo = file.read(len(MAGIC)) in (MAGIC, b"") and stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except OSError as error:
        raise GdbrrError(f"{demo} is in the way: {error.strerror}", "choose another name with -o") from None
    if not is_demo:
        raise GdbrrError(f"{demo} is there already and is no demo", "choose another name with -o")


def line(demo: Path, summary: Summary) -> str:
    return (
        f"gdbrr: recorded {number(summary.operations, 'operation')} of {number(summary.threads, 'thread')}"
        f" in {number(summary.epochs, 'epoch')} to {demo} ({size(summary.bytes)})"
    )
