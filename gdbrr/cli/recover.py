"""The verb `recover`: makes a demo of a recording whose recorder was killed.

Runs in: a command of its own. May call: errors, demo, launch.
Owns: nothing.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gdbrr.cli.words import printable, tell
from gdbrr.errors import GdbrrError

EPILOG = """\
examples:
  gdbrr recover server-1.demo.recording             to server-1.demo
  gdbrr recover server-1.demo.recording -o x.demo   to another file
  gdbrr recover --keep server-1.demo.recording      the directory stays

`gdbrr record` keeps what it logs in NAME.demo.recording and packs it when the program has ended. The directory stays
when gdbrr itself is killed, or cannot write the demo. The demo then holds every operation that was completed.
"""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "recover",
        help="make a demo of what a killed gdbrr record left behind",
        description="Make a demo of the RECORDING directory that a killed `gdbrr record` left behind.",
        epilog=EPILOG,
    )
    parser.add_argument("recording", metavar="RECORDING", type=Path, help="a directory called NAME.demo.recording")
    parser.add_argument("-o", "--output", metavar="DEMO", type=Path, help="the demo to write (default: NAME.demo)")
    parser.add_argument("--keep", action="store_true", help="do not remove the directory")


def main(args: argparse.Namespace) -> int:
    from gdbrr.cli.record import line
    from gdbrr.launch import recover

    recording: Path = args.recording
    demo = args.output or recover.demo_of(recording)
    if demo.exists():
        raise GdbrrError(f"{demo} is in the way", "choose another file with -o")
    summary = recover.recover(recording, demo, keep=args.keep)
    tell(line(demo, summary))
    for note in summary.notes:
        tell(f"gdbrr: {printable(note)}")
    return 0
