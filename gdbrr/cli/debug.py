"""`gdbrr debug DEMO`: GDB on a demo, standing at its end.

Runs in: a command of its own, which becomes GDB. May call: gdbrr.launch.engine for the place of gdbinit.py.
Owns: GDB's command line.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from gdbrr.errors import GdbrrError
from gdbrr.launch import engine

EPILOG = """\
Inside GDB, `reverse-continue`, `reverse-step` and the others go back; `help rr-back` and `help rr-goto` tell more.
The environment variable GDBRR_GDB names another GDB.

example:
  gdbrr debug crash.demo
  gdbrr debug crash.demo -- -ex 'watch balance' -ex reverse-continue
"""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "debug",
        help="start GDB on a demo, standing at its end",
        description="Starts GDB on a demo, standing at its end.",
        epilog=EPILOG,
    )
    parser.add_argument("--trust", action="store_true", help="debug it although somebody else recorded it")
    parser.add_argument("--start", action="store_true", help="stand at its start, without waiting for its end")
    parser.add_argument("--check", action="store_true", help="compare the state wherever two copies come to one tick")
    parser.add_argument("demo", metavar="DEMO", help="a demo file")
    parser.add_argument("gdb_args", metavar="GDB_ARG", nargs="*", help="further arguments of GDB, behind --")


def main(args: argparse.Namespace) -> int:
    options = [f"--{name} " for name in ("trust", "start", "check") if getattr(args, name)]
    words = command_line(engine.gdb(), engine.gdbinit(), args.demo, args.gdb_args, "".join(options))
    sys.stdout.flush()
    os.execv(words[0], words)


def command_line(gdb: str, init: Path, demo: str, more: Sequence[str], options: str = "") -> list[str]:
    path = os.path.abspath(demo)
    if not os.path.isfile(path):
        raise GdbrrError(f"there is no file {demo}", hint="record one: gdbrr record PROGRAM")
    if "\n" in path:
        raise GdbrrError("the demo's path has a line break in it", hint="rename it: GDB reads commands line by line")
    return [
        gdb, "-q",
        "-x", str(init),
        "-ex", f"set gdbrr python {sys.executable}",
        "-ex", f"rr-replay {options}{shlex.quote(path)}",
        *more,
    ]  # fmt: skip
