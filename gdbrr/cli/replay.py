"""The verb `replay`: executes a demo again without a debugger.

Runs in: a command of its own. May call: errors, demo, launch, report.
Owns: the progress line, and which exit status tells what.
"""

from __future__ import annotations

import errno
import os
import sys
import time

from gdbrr.cli.words import number, printable, say, tell
from gdbrr.errors import GdbrrError
from gdbrr.quick.kept import cached_property
from gdbrr.quick.paths import Path
from gdbrr.quick.rows import TYPE_CHECKING
from gdbrr.quick.signals import signal

if TYPE_CHECKING:
    import argparse

    from gdbrr.demo.reader import Demo
    from gdbrr.launch.replay import Outcome, Replay
    from gdbrr.report.evidence import Collector

EPILOG = """\
examples:
  gdbrr replay crash.demo              same output, same exit status as the recorded run
  gdbrr replay --quiet --json x.demo   for scripts: was it synchronised?
  gdbrr replay --check x.demo          is its state the same each time? What differs is named

The exit status is the recorded one; 125 when the replay is desynchronised, with a report on what
differs, where, and why perhaps. Other output than recorded, while every operation was kept, is a soft
desynchronisation: 125 too, unless --soft-ok says that it does not matter.

Progress is shown when standard error is a terminal and the program's output goes elsewhere.
Ctrl-C ends the replay.
"""

_QUIET_FOR = 1.0
_PAUSE = 0.2
_BROKEN_PIPE = 128 + signal.SIGPIPE


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "replay",
        help="run a demo again: same output, same exit status",
        description="Execute DEMO again without a debugger, and print what the program printed.",
        epilog=EPILOG,
    )
    parser.add_argument(
        "demo",
        metavar="DEMO",
        type=Path,
        help="a file that gdbrr record made; or NAME.demo.recording, which it left when it was killed",
    )
    parser.add_argument("--json", action="store_true", help="print how it went as JSON, after the program's output")
    parser.add_argument("--quiet", action="store_true", help="keep the program's output to yourself")
    parser.add_argument(
        "--check",
        action="store_true",
        help="then replay each epoch once more from its checkpoint, and compare registers and memory at its end",
    )
    parser.add_argument("--soft-ok", action="store_true", help="other output than recorded is no failure")
    parser.add_argument("--trust", action="store_true", help="replay it although somebody else recorded it")


class Progress:
    """One line on standard error, at the tick of a replay, gone again at its end."""

    def __init__(self, ticks: int, quiet: bool) -> None:
        self._ticks = ticks
        self._next = time.monotonic() + _QUIET_FOR
        self._wanted = sys.stderr.isatty() and (quiet or not os.isatty(1))
        self._shown = False

    def __call__(self, tick: int) -> None:
        now = time.monotonic()
        if not self._wanted or now < self._next:
            return
        self._next = now + _PAUSE
        self._shown = True
        percent = 100 * tick // max(self._ticks, 1)
        tell(f"gdbrr: replaying, tick {tick:,} of {self._ticks:,} ({percent}%)", end="", anew=True)

    def clear(self) -> None:
        if self._shown:
            tell("", end="", anew=True)


class Inspector:
    """Looks at a process that cannot go on. Most replays need no report, and its modules take time to import."""

    def __init__(self, demo: Demo, trust: bool) -> None:
        self._demo = demo
        self._trust = trust

    @cached_property
    def collector(self) -> Collector:
        from gdbrr.report.evidence import Collector

        return Collector(self._demo, self._trust)

    def __call__(self, replay: Replay, outcome: Outcome) -> None:
        self.collector.inspect(replay, outcome)


def note_success(demo: Demo, wanted: bool) -> None:
    """A demo whose order was guessed is verified by its first replay."""
    from gdbrr.config.profiles import guess_of

    if wanted or guess_of(demo.manifest):
        from gdbrr.demo import verified

        verified.mark(demo.path)


def check(demo: Demo, trust: bool, progress: Progress) -> None:
    """Raises an error that names what is not the same each time."""
    from gdbrr.timeline.timeline import open_demo

    def tell_how_far(what: str, fraction: float) -> None:
        progress(int(fraction * demo.ticks))

    try:
        with open_demo(demo.path, trust=trust, check=True) as timeline:
            compared, digests = timeline.verify(tell_how_far), timeline.digests
    finally:
        progress.clear()
    recorded = f", and the recording's at {number(digests, 'place')}" if digests else ""
    tell(f"gdbrr: replayed twice, the state was the same at {number(compared, 'place')} that were compared{recorded}")


def main(args: argparse.Namespace) -> int:
    from gdbrr.demo.reader import Demo
    from gdbrr.launch import replay

    path = args.demo
    if path.is_dir():
        from gdbrr.launch import recover

        path = recover.finish_left(path, args.trust)
        tell(f"gdbrr: the recording was left unfinished; it is in {path} now")
    with Demo.open(path) as demo:
        progress, inspector = Progress(demo.ticks, args.quiet), Inspector(demo, args.trust)
        try:
            outcome = replay.run(demo, not args.quiet, args.trust, progress, inspector)
        finally:
            progress.clear()
        if outcome.echo_error == errno.EPIPE:
            return _BROKEN_PIPE  # the reader has seen enough
        if outcome.echo_error and not args.json:
            reason = os.strerror(outcome.echo_error)
            raise GdbrrError(f"the output cannot be written: {reason}", "make room, or use --quiet")
        if demo.damage:
            tell(
                f"gdbrr: {demo.path} is damaged ({demo.damage.reason}), so the replay ends behind"
                f" {number(demo.ticks, 'operation')}"
            )
        from gdbrr.launch import inputs

        absent = inputs.absent(demo.manifest)
        if absent and not args.quiet:
            tell(f"gdbrr: {absent}")
        failed = not outcome.kept or (outcome.soft is not None and not args.soft_ok)
        if not failed:  # else the report names them, as likely causes
            for sentence in [*demo.manifest.get("notices", ()), *inputs.sentences(demo.manifest)]:
                tell(f"gdbrr: {printable(sentence)}")
        if not failed and not demo.damage:
            note_success(demo, getattr(args, "verify", False))
        if args.check and outcome.kept and not args.json:
            check(demo, args.trust, progress)
        if failed or args.json:
            from gdbrr.report import divergence
        found = inspector.collector.finish(outcome) if failed and not outcome.echo_error else None
        if args.json:
            say(divergence.to_json(demo, outcome, found))
        elif failed:
            tell(divergence.to_text(demo, outcome, found))
        return outcome.status if failed else outcome.program_status
