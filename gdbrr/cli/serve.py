"""The verb `serve`: a demo or a recording behind GDB's remote protocol, for a GDB or an IDE to connect to.

Runs in: a command of its own, the server. May call: errors, config, gdbrr.server, gdbrr.sessions.
Owns: the line `ready PATH`.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from gdbrr.cli import record
from gdbrr.cli.words import say
from gdbrr.errors import EXIT_USAGE, GdbrrError

if TYPE_CHECKING:
    from gdbrr.config.profiles import Profile
    from gdbrr.rsp.live import Session

DESCRIPTION = """\
Serve DEMO, or with --record a program from its first instruction, to one GDB, and end with it.
Prints `ready PATH` once GDB can connect to the Unix socket PATH. The commands rr-replay and rr-start
of gdbinit.py do all this by themselves; this verb is for front ends that know remote targets only.
"""
EPILOG = """\
examples:
  gdbrr serve crash.demo                          then in GDB: target extended-remote PATH
  gdbrr serve --socket /run/user/1000/s crash.demo
  (gdb) target remote | gdbrr serve --stdio crash.demo
  gdbrr serve --record -p sparse -- ./server --port 8080
"""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "serve",
        help="let any GDB front end connect to a demo",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    record.add_options(parser, output=argparse.SUPPRESS)  # refused, by a sentence of its own
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--socket", metavar="PATH", type=Path, help="listen here (default: in a fresh directory)")
    where.add_argument("--stdio", action="store_true", help="speak over standard input and output")
    parser.add_argument("--record", action="store_true", help="record PROGRAM; what comes before -- are options")
    parser.add_argument("--trust", action="store_true", help="serve DEMO although somebody else recorded it")
    parser.add_argument("--start", action="store_true", help="stand at DEMO's start, without waiting for its end")
    parser.add_argument("--check", action="store_true", help="compare the state wherever two copies come to one tick")
    parser.add_argument("--patience", type=float, help=argparse.SUPPRESS)  # rr-replay's; then the start it is, too
    parser.add_argument("--keyboard", type=Path, help=argparse.SUPPRESS)  # rr-start's: GDB's terminal
    parser.add_argument("--input", type=int, help=argparse.SUPPRESS)  # rr-start's: the descriptor of GDB's input
    parser.add_argument("--unsaid", action="store_true", help=argparse.SUPPRESS)  # gdbrr.rsp.live.Session's
    parser.add_argument(
        "--look", action="store_true", help=argparse.SUPPRESS
    )  # only at what is to be recorded, and how
    parser.add_argument("what", metavar="DEMO | PROGRAM", help="a demo, or the program to record")
    parser.add_argument("arguments", metavar="ARG", nargs=argparse.REMAINDER, help="handed to PROGRAM")


def main(args: argparse.Namespace) -> int:
    from gdbrr.server import Server, pipe_at, private_directory

    if args.look:
        _program(args)
        say("ready to record", flush=True)
        return 0
    server = Server(lambda: _session(args))
    if args.stdio:
        server.serve_stdio()
        return 0
    directory = None if args.socket else private_directory()
    path: Path = args.socket if directory is None else directory / "gdb"
    try:
        server.serve_socket(path, lambda: say(f"ready {path}", flush=True), pipe_at(0))
    finally:
        if directory is not None:
            directory.rmdir()
    return 0


def _session(args: argparse.Namespace) -> Session:
    from gdbrr.sessions import demo_session, live_session

    if args.output:
        raise GdbrrError("serve writes no demo by itself", "leave out -o; rr-save FILE keeps a recording", EXIT_USAGE)
    if not args.record:
        if args.arguments:
            raise GdbrrError("a demo takes no arguments", "to record a program, add --record", EXIT_USAGE)
        patience = 0 if args.start else args.patience
        session = demo_session(Path(args.what), trust=args.trust, patience=patience, check=args.check or None)
    else:
        session = live_session(*_program(args), args.keyboard, args.input)
    session.unsaid = args.unsaid
    return session


def _program(args: argparse.Namespace) -> tuple[list[str], Profile]:
    from gdbrr.config import profiles
    from gdbrr.launch import spawn

    argv = [args.what, *args.arguments]
    _, program = spawn.find_program(argv[0], dict(os.environ), os.getcwd())
    return argv, profiles.resolve(args.profile, Path(program), record.sets_of(args))
