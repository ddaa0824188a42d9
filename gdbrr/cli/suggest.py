"""The verb `suggest`: what a program uses, what recording that costs, and the smallest profile that replays.

Runs in: a command of its own. May call: errors, config, launch, sparse.
Owns: the table and the wording around it.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gdbrr.cli.words import number, positive, printable, say, seconds, size, tell
from gdbrr.errors import EXIT_USAGE, GdbrrError

if TYPE_CHECKING:
    from gdbrr.sparse.candidates import Use
    from gdbrr.sparse.company import Company
    from gdbrr.sparse.suggest import Found, Step

EPILOG = """\
examples:
  gdbrr suggest ./parser input.txt           to parser.toml
  gdbrr suggest -o .gdbrr.toml ./parser input.txt
  gdbrr suggest -p mine.toml --limit 300 -- ./simulation --steps 1000
  gdbrr suggest --input words.txt -- sort -u
  gdbrr suggest --client 'redis-benchmark -n 1000 -q' --stop INT -- redis-server --save ''

PROGRAM is run some dozens of times, with FILE as its input, else with none, and what it prints is not shown: what it
does to files, it does each time. First by itself, then recorded in full; then classes, system calls, kinds of
descriptors and paths are left out, costliest first: made again on replay and compared (native), or else made again and
not looked at (ignore). Each time it is recorded again and replayed; what is left out stays out where the replay kept to
the demo and wrote what the recording had written. Whatever a run did not do was not tried: use a run that is like those
to be recorded.

A program that serves until it is told to end is asked something by COMMAND in each run: a shell runs it beside the
program, as soon as that listens, and again until its exit status is 0; then the program gets SIGNAL.

What is ignored may have other values on replay than it had; where only compared values are wanted, change `ignore` to
`record` in the profile. Ctrl-C ends the search, with the best profile up to there.
"""

_SHARED = frozenset(f"{above}/{name}" for above in ("", "/usr", "/usr/local") for name in ("bin", "sbin"))
"""Folders whose programs have nothing in common."""
_THINGS = 5
_LEAST = 0.005
"""Seconds of processor time that are no more than chance."""
MARK = "Found by `gdbrr suggest`"


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "suggest",
        help="find the smallest profile with which a program replays",
        usage="gdbrr suggest [OPTION ...] [--] PROGRAM [ARG ...]",
        description="Run PROGRAM, show what recording it costs, and write the smallest profile that replays.",
        epilog=EPILOG,
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="the profile to write (default: PROGRAM.toml)"
    )
    parser.add_argument("-p", "--profile", metavar="PROFILE", help="the profile to begin with (see: gdbrr profiles)")
    parser.add_argument("--set", metavar="CLASS=MODE", action="append", default=[], dest="sets", help="as for record")
    parser.add_argument("--order", metavar="ORDER", help="how threads run: parallel, serial or auto")
    parser.add_argument("--input", metavar="FILE", type=Path, help="its standard input (default: nothing)")
    parser.add_argument("--client", metavar="COMMAND", default="", help="what asks it something before it is ended")
    parser.add_argument("--stop", metavar="SIGNAL", help="what ends it behind the client (default: TERM)")
    parser.add_argument("--tries", metavar="N", default="60", help="trials at most (default 60)")
    parser.add_argument(
        "--limit", metavar="SECONDS", default="60", help="what one run of the program may take (default 60)"
    )
    parser.add_argument("command", metavar="PROGRAM [ARG ...]", nargs=argparse.REMAINDER, help="what to run")


def main(args: argparse.Namespace) -> int:
    from gdbrr.config import profiles
    from gdbrr.launch import engine, record, spawn
    from gdbrr.sparse import written
    from gdbrr.sparse.suggest import Search

    cwd, env = os.getcwd(), dict(os.environ)
    argv = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not argv:
        raise GdbrrError("no program is named", "try: gdbrr suggest --help", EXIT_USAGE)
    tries, limit = positive("--tries", args.tries), seconds("--limit", args.limit)
    _, program = spawn.find_program(argv[0], env, cwd)
    out = args.output or Path(f"{Path(program).name}.toml")
    check_output(out)
    sets = [*args.sets, *([f"order={args.order}"] if args.order else [])]
    profile = profiles.resolve(args.profile, Path(program), sets)
    if profile.values["order"].value in profiles.SEEDED:
        raise GdbrrError("the orders random and pct are for finding bugs", "use parallel, serial or auto")
    company = company_of(args)
    request = record.Request(argv, env, cwd, profile, engine.find())
    shown = Shown()
    try:
        with tempfile.TemporaryDirectory(prefix="gdbrr-") as scratch:
            found = Search(request, Path(scratch), shown, tries, limit, company).run()
    finally:
        shown.clear()
    profile = found.profile
    left_out = sum(step.mode != "record" for step in found.steps)
    about = [
        f"{MARK} for {printable(shlex.join(argv))}: the least that replayed, of {number(found.tries, 'trial')}.",
        "What is native is compared on replay, what is ignored is not looked at, all else is recorded.",
    ]
    written.write(out, profile, about)
    for line in as_text(found):
        say(line)
    say()
    what = number(left_out, "rule") if left_out else "nothing was found that can be left out"
    say(f"{out}: {what}, after {number(found.tries, 'trial')}")
    name = str(out) if "/" in str(out) or out.suffix == ".toml" else f"./{out}"
    given = f" <{shlex.quote(str(args.input))}" if args.input else ""
    say(f"use it:   gdbrr record -p {shlex.quote(name)} -- {shlex.join(argv)}{given}")
    beside = _beside(program)
    if os.access(os.path.dirname(beside), os.W_OK) and os.path.dirname(beside) not in _SHARED:
        say(f"or for every program in that folder: cp {shlex.quote(name)} {shlex.quote(beside)}")
    return 128 + signal.SIGINT if found.interrupted else 0


def company_of(args: argparse.Namespace) -> Company:
    from gdbrr.sparse.company import Company

    if args.input:
        try:
            args.input.open("rb").close()
        except OSError as error:
            raise GdbrrError(f"{args.input} cannot be read: {error.strerror}", "name another --input") from None
    if args.stop and not args.client:
        raise GdbrrError("--stop is sent behind a client, and there is none", "add --client COMMAND", EXIT_USAGE)
    return Company(args.input, args.client, _signal(args.stop or "TERM"))


def _signal(word: str) -> int:
    known = {each.name: each for each in signal.Signals} | {str(each.value): each for each in signal.Signals}
    name = word.upper()
    if name not in known and f"SIG{name}" not in known:
        raise GdbrrError(f"--stop {word} is no signal", "try: --stop TERM", EXIT_USAGE)
    return known.get(name) or known[f"SIG{name}"]


def _beside(program: str) -> str:
    from gdbrr.config.profiles import PROGRAM_FILE

    return str(Path(program).resolve().parent / PROGRAM_FILE)


def check_output(out: Path) -> None:
    """Nobody's file is written over, but one that was made here before."""
    if out.is_dir() or not out.absolute().parent.is_dir():
        raise GdbrrError(f"{out} is no place for a profile", "name a file with -o")
    if not out.exists():
        return
    try:
        with out.open(encoding="utf-8", errors="replace") as file:
            mine = MARK in file.readline()
    except OSError as error:
        raise GdbrrError(f"{out}: {error.strerror}", "choose another -o") from None
    if not mine:
        raise GdbrrError(f"{out} is there already, and not from gdbrr suggest", "choose another -o")


class Shown:
    """What is being tried, in one line of a terminal that is gone at the end; elsewhere a line each."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()

    def __call__(self, text: str) -> None:
        if self._terminal:
            tell(f"gdbrr: {printable(text)[:100]}", end="", anew=True)
        else:
            tell(f"gdbrr: {printable(text)}")

    def clear(self) -> None:
        if self._terminal:
            tell("", end="", anew=True)


def as_text(found: Found) -> Iterator[str]:
    full, best, native = found.full, found.best, found.native
    yield f"{'class':<8} {'what':<44} {'calls':>9} {'bytes':>9}"
    by_class: dict[str, list[Use]] = {}
    for use in found.usage:
        by_class.setdefault(use.cls, []).append(use)
    for cls, uses in sorted(by_class.items(), key=lambda item: -sum(use.size for use in item[1])):
        yield _row(cls or "-", "", sum(use.calls for use in uses), sum(use.size for use in uses))
        if len(uses) > 1 or uses[0].name != cls:
            for use in uses[:_THINGS]:
                yield _row("", use.name, use.calls, use.size)
            if len(uses) > _THINGS:
                rest = uses[_THINGS:]
                yield _row("", f"{len(rest):,} more", sum(u.calls for u in rest), sum(u.size for u in rest))
    yield ""
    yield f"{'tried':<44} {'saves':>9} {'time':>9}  now"
    for step in found.steps:
        yield _step(step)
    if not found.steps:
        yield "nothing: no class that has a choice is worth it"
    yield ""
    yield f"{'':<28} {'processor time':>15} {'events':>10} {'demo':>10}"
    for name, run in (("by itself", native), ("recorded in full", full), ("with the profile found", best)):
        sizes = f"{size(run.events):>10} {size(run.size):>10}" if run.size else ""
        yield f"{name:<28} {_time(run.cpu):>15} {sizes}".rstrip()
    for note in found.notes:
        yield f"note: {printable(note)}"


def _row(cls: str, name: str, calls: int, total: int) -> str:
    shown = printable(name)
    shown = shown if len(shown) <= 44 else f"...{shown[-41:]}"
    return f"{cls:<8} {shown:<44} {calls:>9,} {size(total):>9}"


def _step(step: Step) -> str:
    shown = printable(step.candidate.about)
    shown = shown if len(shown) <= 44 else f"...{shown[-41:]}"
    saved = size(step.saved) if step.saved else "-"
    spent = "-" if step.cpu is None else f"< {_LEAST * 1000:.0f} ms" if step.cpu < _LEAST else _time(step.cpu)
    line = f"{shown:<44} {saved:>9} {spent:>9}  {step.mode}"
    return f"{line}: {printable(step.why)}" if step.mode == "record" and step.why else line


def _time(spent: float) -> str:
    return f"{spent:.2f} s" if abs(spent) >= 1 else f"{spent * 1000:.0f} ms"
