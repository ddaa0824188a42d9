"""The command `gdbrr`: finds the verb, runs it, prints errors and nothing else.

Runs in: a command of its own. May call: the verb's module, imported only when asked for, so that `gdbrr record`
starts fast.
Owns: the shape of a command's help, the one line an error becomes, and the exit status of an interrupted command.
"""

from __future__ import annotations

import errno
import os
import sys

import gdbrr
from gdbrr.cli import VERBS
from gdbrr.cli.plain import Declared, NotPlain, Words
from gdbrr.cli.words import say, tell
from gdbrr.errors import EXIT_ERROR, EXIT_USAGE, GdbrrError
from gdbrr.quick.rows import TYPE_CHECKING, Any
from gdbrr.quick.scopes import suppress
from gdbrr.quick.signals import signal

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from types import ModuleType

_VERSION = f"gdbrr {gdbrr.__version__}"
EXIT_INTERRUPTED = 128 + signal.SIGINT
EXIT_BROKEN_PIPE = 128 + signal.SIGPIPE

SHORTAGES = {
    errno.EMFILE: "Raise the limit of open files (ulimit -n)",
    errno.ENFILE: "Close some: the whole machine has too many",
    errno.ENOMEM: "Free some, or raise its limit (ulimit -v)",
    errno.ENOSPC: "Make room, or set TMPDIR",
}

AT_ONCE = ("record", "replay")
"""Verbs that leave nothing to be done at exit; taking the interpreter apart would be a tenth of a short run."""

DESCRIPTION = """\
Records a run of a native Linux program into a demo, a small file, and replays it under GDB with
true reverse execution. Nothing is recompiled; no root, kernel module or hardware counter is needed.
"""

EXAMPLES = """\
a first session:
  gdbrr doctor                           can this machine record? what would make it better?
  gdbrr record -o crash.demo ./server    run the program as if alone, and keep the run
  gdbrr replay crash.demo                run it again: same output, same exit status
  gdbrr debug crash.demo                 GDB at the end of the run; try reverse-continue or rr-back

inside GDB, without leaving it:
  (gdb) source gdbinit.py                `gdbrr doctor` says where it is
  (gdb) rr-start                         like run, and recorded
  (gdb) watch balance                    after the crash: who wrote this last?
  (gdb) reverse-continue

`gdbrr VERB --help` explains one verb.
"""


def load(verb: str) -> ModuleType:
    return __import__(f"gdbrr.cli.{verb}", fromlist=["add"])  # importlib would import more than most verbs do


def build_parser(verbs: Sequence[str]) -> argparse.ArgumentParser:
    """A parser that knows VERBS only: the modules of the others are not imported."""
    import argparse
    from functools import partial

    from gdbrr.cli.layout import Layout

    parser = argparse.ArgumentParser(
        prog="gdbrr",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=Layout,
    )
    parser.add_argument("--version", action="version", version=_VERSION)
    made: Any = partial(argparse.ArgumentParser, formatter_class=Layout)
    subparsers: Any = parser.add_subparsers(
        dest="verb", metavar="VERB", title="verbs", required=True, prog="gdbrr", parser_class=made
    )
    for verb in verbs:
        load(verb).add(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    _fill_standard()
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return dispatch(words)
    except GdbrrError as error:
        tell(f"gdbrr {words[0]}: {error}" if words[0] in VERBS else f"gdbrr: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except MemoryError:
        tell(f"gdbrr {words[0]}: there is no memory left. Free some, or raise its limit (ulimit -v)")
        return EXIT_ERROR
    except BrokenPipeError:
        # The reader (`| head`) has seen enough. What is still buffered must not raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return EXIT_BROKEN_PIPE
    except OSError as error:
        # What is used up may be used up anywhere; it is no mistake of gdbrr's that would need a traceback.
        if error.errno not in SHORTAGES:
            raise
        tell(f"gdbrr {words[0]}: {error.strerror}. {SHORTAGES[error.errno]}")
        return EXIT_ERROR


def _fill_standard() -> None:
    """Where standard input, output or error is closed, nothing else may get its number, and print() finds a file.

    A program that is started does not inherit what is opened here: for it they stay closed.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is its own
            setattr(sys, name, open(os.devnull, mode))


def dispatch(words: list[str]) -> int:
    if words == ["--version"]:
        say(_VERSION)  # without the modules of all verbs
        return 0
    if words and words[0] in VERBS:
        verbs: Sequence[str] = words[:1]
    elif words and not words[0].startswith("-"):
        raise unknown_verb(words[0])
    else:
        verbs = VERBS
    prepare = getattr(load(words[0]), "prepare", None) if len(verbs) == 1 else None
    if prepare:
        words = [words[0], *prepare(words[1:])]
    args = read(verbs, words)
    status: int = load(args.verb).main(args)
    sys.stdout.flush()
    return status


def read(verbs: Sequence[str], words: list[str]) -> argparse.Namespace | Words:
    """What WORDS say, of which the first is one of VERBS or an option."""
    if len(verbs) == 1:
        declared: Any = Declared()
        with suppress(NotPlain):
            load(words[0]).add(declared)
            return declared.read(words[0], words[1:])  # type: ignore[no-any-return]
    args, unknown = build_parser(verbs).parse_known_args(words or ["--help"])
    if unknown:
        what = "option" if unknown[0].startswith("-") else "argument"
        raise GdbrrError(f"there is no {what} {unknown[0]}", f"try: gdbrr {args.verb} --help", EXIT_USAGE)
    return args


def unknown_verb(word: str) -> GdbrrError:
    import difflib

    near = difflib.get_close_matches(word, VERBS, n=1)
    hint = f"did you mean {near[0]}?" if near else "try: gdbrr --help"
    return GdbrrError(f"there is no verb {word!r}", hint, EXIT_USAGE)


def _as_started() -> None:
    """The environment is the recorded program's: LC_CTYPE, which Python sets where the locale is C, is as it was."""
    if "LC_CTYPE" not in os.environ:
        return
    with open("/proc/self/environ", "rb") as file:
        rows = dict(row.partition(b"=")[::2] for row in file.read().split(b"\0"))
    if b"LC_CTYPE" in rows:
        os.environ["LC_CTYPE"] = os.fsdecode(rows[b"LC_CTYPE"])
    else:
        del os.environ["LC_CTYPE"]


def run() -> None:
    """The console script."""
    _as_started()
    status = main()
    if sys.argv[1:2] and sys.argv[1] in AT_ONCE:
        with suppress(OSError, ValueError):  # else the interpreter's own way out says what is wrong
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    sys.exit(status)
