"""The verb `record`: runs a program as if alone, and keeps the run.

Runs in: a command of its own. May call: errors, config, launch.
Owns: the line that ends a recording, the progress of several.
"""

from __future__ import annotations

import os
import stat
import sys
import time

from gdbrr.cli.plain import REST, Words
from gdbrr.cli.words import number, printable, size, tell
from gdbrr.errors import EXIT_DESYNC, EXIT_USAGE, GdbrrError
from gdbrr.quick.paths import Path
from gdbrr.quick.rows import TYPE_CHECKING, Any
from gdbrr.quick.signals import signal

if TYPE_CHECKING:
    import argparse

    from gdbrr.demo.pack import Summary
    from gdbrr.launch.record import Ending, Request

DIGEST = 64

_TAKES_A_WORD = (
    "-o",
    "--output",
    "-p",
    "--profile",
    "--set",
    "--order",
    "--order-log",
    "--seed",
    "--runs",
    "--until",
    "--save-on",
    "--junit",
)

EPILOG = """\
examples:
  gdbrr record ./server --port 8080            to server-1.demo
  gdbrr record -o crash.demo -p sparse ./game  with a profile; gdbrr profiles lists them
  gdbrr record --set file=native make          files are read again on replay, not kept in the demo
  gdbrr record --order random ./server         one thread at a time, who comes next is drawn: races replay, too
  gdbrr record --order auto --verify ./server  parallel or serial, guessed from the program; replayed at once
  gdbrr record --digest=100 ./parser           each replay compares registers and memory, too
  gdbrr record --save-on crash -o t.demo ./t   in CI: keeps a demo of crashes only, and ends with one line for scripts
  gdbrr record --runs 500 --until crash ./app  in order pct, seed after seed, until a run crashes: that one is kept

--digest looks at all memory behind every N-th operation of a thread, where all others stand at operations of their
own, because memory that others write to meanwhile has no meaning as a whole. In order parallel they are made to, and
where one does not within 50 ms it is left out. A replay whose registers or memory differ is desynchronised and names
the first page.

--runs N makes up to N recordings in order pct (or --order random), with the seeds from --seed (default 1) on, with no
input, and keeps the demo of the first that fails. FAILURE is one of: failure (default: exit status not 0, or killed
by a signal), exit=N, exit!=N, signal, signal=N, crash, hang, output:REGEX (standard output or error match). A run hangs
when threads have waited for each other for 2 seconds (hang:SECONDS): in a circle, or all of them; not when one waits
for a time, a descriptor, a signal or a child. With idle:SECONDS it is enough that nothing happens. Several --until: any
of them. Shown is what the kept run printed; the exit status is 0 when a demo was kept and 1 when no run failed. Ctrl-C
ends it without one. The seed that is shown repeats the run by itself: gdbrr record --order pct --seed SEED.

--save-on is for tests and CI: the demo is kept only where the run ended so (failure: exit status not 0, or any signal;
crash: SIGSEGV, SIGABRT and the like), else nothing is left behind. What hinders the recording does not hinder the
program: where nothing can be recorded it says why and runs it without, and a full log lets it go on. The last line on
standard error then is for scripts, with these keys in this order:
  gdbrr: result=crashed signal=SIGSEGV demo=/tmp/x.demo replay='gdbrr replay /tmp/x.demo'
  gdbrr: result=passed status=0 demo=none              (stopped: gdbrr had to end it; recorded=no: see above)
--junit FILE writes the same as a JUnit report, in which the demo is an attachment.

Else the exit status is the program's own, 128+N when signal N ended it; 127 when there is no such program, 126
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
    )
    add_options(parser)
    parser.add_argument("--verify", action="store_true", help="replay the demo right away; 125 when that differs")
    parser.add_argument(
        "--digest",
        metavar="N",
        nargs="?",
        const=str(DIGEST),
        help=f"keep a digest of registers and memory behind every N-th operation (--digest=N; default {DIGEST})",
    )
    parser.add_argument(
        "--save-on",
        metavar="WHEN",
        choices=("always", "failure", "crash", "never"),
        help="keep the demo only then: failure, crash, always (default) or never; and never be in the program's way",
    )
    parser.add_argument("--junit", metavar="FILE", type=Path, help="write how it went as a JUnit report")
    parser.add_argument("--runs", metavar="N", help="record up to N times and keep the first run that fails")
    parser.add_argument(
        "--until",
        metavar="FAILURE",
        action="append",
        default=[],
        help="which runs fail, with --runs: failure (default), exit!=N, signal, crash, hang, output:REGEX ...",
    )
    parser.add_argument(
        "command",
        metavar="PROGRAM [ARG ...]",
        nargs=REST,
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
    parser.add_argument("--order", metavar="ORDER", help="how threads run: parallel, serial, random, pct or auto")
    parser.add_argument(
        "--order-log", metavar="HOW", help="how parallel writes it down: clock, object, reduced or transitive (default)"
    )
    parser.add_argument(
        "--seed", metavar="N[:STEPS]", help="what random and pct draw from; the same one, the same order"
    )


def sets_of(args: argparse.Namespace) -> list[str]:
    """Every value that the command line sets on top of the profile."""
    digest = getattr(args, "digest", None)
    return [
        *args.sets,
        *([f"order={args.order}"] if args.order else []),
        *([f"order_log={args.order_log}"] if args.order_log else []),
        *(_seed(args.seed) if args.seed is not None else []),
        *([f"digest={digest}"] if digest is not None else []),
    ]


def _seed(word: str) -> list[str]:
    """As --runs and `gdbrr info` name it: the number, and for the order pct the operations among which it was drawn."""
    number, mark, steps = word.partition(":")
    if not number.isdecimal() or bool(mark) != steps.isdecimal():
        raise GdbrrError(f"--seed {word} is no seed", "try: --seed 7, or what --runs has shown", EXIT_USAGE)
    return [f"seed={number}", *([f"pct.steps={steps}"] if steps else [])]


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
    if args.runs is not None and not args.order:
        args.order = "pct"
    profile = profiles.resolve(args.profile, Path(program), sets_of(args))
    if args.output:
        check_output(args.output)
    if args.runs is not None:
        if args.save_on or args.junit:
            raise GdbrrError("--runs keeps the run that fails anyway", "leave --save-on and --junit out", EXIT_USAGE)
        demo = args.output or record.free_name(program, Path())
        return try_seeds(args, record.Request(argv, env, cwd, profile, engine.find()), demo)
    if args.until:
        raise GdbrrError("--until belongs to --runs", "say how often: --runs 100", EXIT_USAGE)
    if args.save_on:
        profile = profile.unless_set("limits.when_full", "go_on", "--save-on")
    request = record.Request(argv, env, cwd, profile, engine.find())
    return as_a_test(args, request) if args.save_on or args.junit else alone(args, request)


def once(args: argparse.Namespace, request: Request) -> Ending:
    """One recording; where no name was asked for, the next one that nobody else is writing to."""
    from gdbrr.launch import record
    from gdbrr.launch.ends import errors, keep

    rule = keep.RULES[args.save_on or "always"]
    while True:
        demo = args.output or record.free_name(request.program()[1], Path())
        try:
            return record.run(request, demo, lambda code: rule(keep.result_of(code)))
        except errors.InTheWay:
            if args.output:
                raise


def alone(args: argparse.Namespace, request: Request) -> int:
    ending = once(args, request)
    if ending.panic:
        raise early_end(ending)
    tell_about(ending, args.verify)
    return verify(ending.demo, ending.status) if args.verify and ending.demo else ending.status


def early_end(ending: Ending) -> GdbrrError:
    """The engine ended the program; what is known about it otherwise has been said."""
    from gdbrr.launch.ends import errors

    assert ending.panic
    if ending.panic.refused:
        return errors.refusal(ending.panic)
    for note in ending.summary.notes if ending.summary else ():
        tell(f"gdbrr: {printable(note)}")
    where = f"; what was recorded up to there is in {ending.demo}" if ending.demo else ""
    way_out = "raise limits.log in the profile, or make room; limits.when_full=go_on lets the program go on"
    return GdbrrError(f"the recording ended early: {ending.panic.text}{where}", ending.panic.hint or way_out)


def tell_about(ending: Ending, verified_next: bool) -> None:
    if ending.demo and ending.summary:
        tell(line(ending.demo, ending.summary))
    for note in ending.summary.notes if ending.summary else ():
        tell(f"gdbrr: {printable(note)}")
    if ending.demo and ending.summary and ending.summary.refers[0]:
        import shlex

        tell(f"gdbrr: {staying(*ending.summary.refers)}: gdbrr pack {shlex.quote(str(ending.demo))}")
    if ending.guess:
        tell(f"gdbrr: {printable(ending.guess)}" + ("" if verified_next else "; unverified until it was replayed once"))
    if ending.risk and not verified_next:
        way_out = "whose order is not in the demo: if its replay differs, use --order serial"
        tell(f"gdbrr: {printable(ending.risk)}, {way_out}")


def staying(count: int, total: int) -> str:
    """Of files that a demo refers to and does not hold."""
    which = "1 file" if count == 1 else f"{count:,} files"
    must = "it must stay as it is until it is" if count == 1 else "they must stay as they are until they are"
    return f"it refers to {which} of {size(total)}; {must} packed"


def as_a_test(args: argparse.Namespace, request: Request) -> int:
    """With --save-on or --junit: whatever becomes of the demo, the program runs, and its status is ours."""
    from gdbrr.launch.ends import alone as unrecorded
    from gdbrr.launch.ends import errors
    from gdbrr.report import ci

    began = time.monotonic()
    run = ci.Run(request.argv)
    try:
        ending = once(args, request)
        run = run._replace(code=ending.code, demo=ending.demo)
        if ending.panic:
            run = run._replace(problem=str(early_end(ending)), stopped=True)
        else:
            tell_about(ending, args.verify)
    except errors.Kept as kept:
        run = run._replace(code=kept.code, problem=str(kept))
    except errors.NotBegun as error:
        tell(f"gdbrr: not recorded: {printable(str(error))}. It runs without that")
        run = run._replace(code=unrecorded.run(request), problem=f"not recorded: {error}", recorded=False)
    run = run._replace(seconds=time.monotonic() - began)
    if run.recorded and run.problem:
        tell(f"gdbrr: {printable(run.problem)}")
    status = verify(run.demo, run.status) if args.verify and run.demo and not run.problem else run.status
    if args.junit:
        try:
            ci.write_junit(run, args.junit)
        except GdbrrError as error:
            tell(f"gdbrr: {error}")
    if run.demo:
        tell(ci.attachment(run.demo))
    tell(ci.line(run))
    return status


def verify(demo: Path, status: int, trust: bool = False) -> int:
    """Replay DEMO; STATUS when it did the same, else that of a desynchronised replay, whose report is shown."""
    from gdbrr.cli import replay
    from gdbrr.demo import verified

    verified.mark_of(demo).unlink(missing_ok=True)
    how: Any = Words(demo=demo, json=False, quiet=True, soft_ok=False, trust=trust, verify=True, check=False)
    replay.main(how)
    if not verified.is_marked(demo):
        return EXIT_DESYNC
    tell("gdbrr: verified: a replay did the same")
    return status


def try_seeds(args: argparse.Namespace, request: Request, demo: Path) -> int:
    from gdbrr.launch import hunt

    if not args.runs.isdecimal() or not int(args.runs):
        raise GdbrrError(f"--runs {args.runs} is no number of runs", "try: --runs 100", EXIT_USAGE)
    tries = hunt.Hunt(request, demo, hunt.parse(args.until))
    shown = sys.stderr.isatty()
    for count, seed in tries.attempts(int(args.runs)):
        if shown:
            tell(f"gdbrr: run {count} of {args.runs}", end="", anew=True)
        try:
            why, run, summary = tries.attempt(seed)
        finally:
            if shown:
                tell("", end="", anew=True)
        if why and summary:
            sys.stdout.buffer.write(run.output)
            sys.stdout.flush()
            drawn = f", with seed {tries.drawn}" if seed else ""
            tell(f"gdbrr: run {count} of {args.runs} failed{drawn}: {printable(why)}")
            tell(line(demo, summary))
            for note in summary.notes:
                tell(f"gdbrr: {printable(note)}")
            return 0
    if tries.interrupted:
        tell(f"gdbrr: interrupted in run {tries.runs} of {args.runs}; none before it failed")
        return 128 + signal.SIGINT
    tell(f"gdbrr: none of {number(tries.runs, 'run')} failed, so there is no demo")
    return 1


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
