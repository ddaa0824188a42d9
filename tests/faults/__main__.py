"""Random recordings, replays and sessions with faults, for some time: `make faults` (MINUTES=n, SEED=n, DOCS=1).

Runs in: a command of its own. May call: the other files of this folder.
Owns: build/faults: report.json, report.md, and a folder for each round in which something was lost.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import time

from faults import behind, page, rounds
from faults.during import FAULTS

assert behind  # its faults are in the list


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m faults")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument(
        "--seed", type=int, default=random.randrange(1 << 30), help="of the first round; others count on"
    )
    parser.add_argument(
        "--only", action="append", choices=sorted(FAULTS), metavar="FAULT", help=", ".join(sorted(FAULTS))
    )
    parser.add_argument("--rounds", type=int, default=1 << 30)
    parser.add_argument("--docs", action="store_true", help="put the report into docs/limits.md")
    arguments = parser.parse_args()
    shutil.rmtree(rounds.OUT, ignore_errors=True)
    rounds.OUT.mkdir(parents=True)
    report = rounds.Report(arguments.seed)
    faults = report.possible(arguments.only or sorted(FAULTS))
    begun = time.monotonic()
    end = begun + arguments.minutes * 60
    seed = arguments.seed
    try:
        while time.monotonic() < end and seed - arguments.seed < arguments.rounds and faults:
            result = rounds.one(seed, faults[seed % len(faults)], report)
            if result:
                print(result, file=sys.stderr, flush=True)
            seed += 1
    except KeyboardInterrupt:
        print("broken off", file=sys.stderr)
    report.minutes = (time.monotonic() - begun) / 60
    report.write()
    if arguments.docs:
        page.write(report)
    print(report.text())
    return 1 if report.lost else 0


if __name__ == "__main__":
    sys.exit(main())
