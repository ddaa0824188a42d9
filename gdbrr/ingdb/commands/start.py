"""rr-start: record the current program.

Runs in: GDB's Python. May call: the session it is given.
Owns: nothing.
"""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from gdbrr.config import tables
from gdbrr.ingdb.registry import arg, option, rr_command

if TYPE_CHECKING:
    from gdbrr.ingdb.session import Session


ORDERS = "parallel serial random pct auto"
_MODES = " ".join(f"{each.name}={mode}" for each in tables.classes() for mode in each.modes)
_PROFILES = " ".join(path.stem for path in Path(tables.__file__).with_name("profiles").glob("*.toml"))


@rr_command(
    "rr-start",
    args=(
        option(
            "-p", "PROFILE", "what to record: a profile's name or file; `gdbrr profiles` lists them", complete=_PROFILES
        ),
        option(
            "--set", "CLASS=MODE", "record, native or ignore for one class of system calls", many=True, complete=_MODES
        ),
        option("--order", "ORDER", "how threads run: parallel, serial, random, pct or auto", complete=ORDERS),
        option("--seed", "N", "what random and pct draw from; the same one, the same order"),
        arg("ARG", str, "", "the program's arguments; without any, those of `set args`", rest=True, complete="file"),
    ),
    opens=True,
)
def rr_start(session: Session, args: Namespace) -> None:
    """Record the current program from its start.

    The program runs until it would stop under `run`: at a breakpoint, a crash or its exit. From there
    reverse-continue, rr-back and all the others go into the past, and rr-save keeps the demo. Breakpoints,
    watchpoints, `set environment` and `set cwd` are used as `run` would use them. ARGs are remembered in
    `set args`; redirections are not supported in them. What the program prints appears here, and
    a line that is typed while it waits for input is the program's. In a script, it reads GDB's standard input.

    Examples:
      rr-start
      rr-start --set time=native -- input.txt -v
      rr-start --order random --seed 7
    """
    options = ["-p", args.p] if args.p else []
    for each in args.set:
        options += ["--set", each]
    options += ["--order", args.order] if args.order else []
    options += ["--seed", args.seed] if args.seed else []
    session.start(options, args.arg)
