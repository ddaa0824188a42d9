"""The verb `replay`: executes a demo again without a debugger.

Runs in: a command of its own. May call: errors, demo, launch, report.
Owns: nothing.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

EPILOG = """\
examples:
  gdbrr replay crash.demo           same output, same exit status as the recorded run
  gdbrr replay --quiet --json x.demo   for scripts: was it synchronised?

The exit status is the recorded one, 125 when the replay is desynchronised.
"""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "replay",
        help="run a demo again: same output, same exit status",
        description="Execute DEMO again without a debugger, and print what the program printed.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "demo",
        metavar="DEMO",
        type=Path,
        help="a file that gdbrr record made; or NAME.demo.recording, which it left when it was killed",
    )
    parser.add_argument("--json", action="store_true", help="print how it went as JSON, after the program's output")
    parser.add_argument("--quiet", action="store_true", help="keep the program's output to yourself")
    parser.add_argument("--trust", action="store_true", help="replay it although somebody else recorded it")


def main(args: argparse.Namespace) -> int:
    from gdbrr.demo.reader import Demo
    from gdbrr.launch import inputs, record, replay
    from gdbrr.report import divergence

    path = args.demo
    if path.is_dir():
        path = record.finish_left(path)
        print(f"gdbrr: the recording was left unfinished; it is in {path} now", file=sys.stderr)
    with Demo.open(path) as demo:
        outcome = replay.run(demo, echo=not args.quiet, trust=args.trust)
        if demo.damage:
            print(f"gdbrr: {demo.path} is damaged, so the replay ends at tick {demo.ticks}", file=sys.stderr)
        for sentence in inputs.sentences(demo.manifest):
            print(f"gdbrr: {sentence}", file=sys.stderr)
        if args.json:
            print(divergence.to_json(demo, outcome))
        if outcome.synchronised:
            return outcome.status
        if not args.json:
            print(divergence.to_text(demo, outcome), file=sys.stderr)
        return outcome.status
