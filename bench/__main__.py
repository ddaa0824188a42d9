"""One benchmark of everything: `python -m bench` or `make bench`.

Prints a table, writes build/bench/figures.json and build/bench/index.html. --docs also keeps the figures as
bench/report/performance.json and makes the tables of docs/performance.md from them.

Runs in: a command of its own. May call: the parts, each a module of this folder.
Owns: build/bench; the list of parts. Ctrl-C keeps what is done.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import platform
import sys
import tempfile
import time
import traceback
from pathlib import Path

from bench.kit import ROOT, Bench, Failed
from bench.report import docs, page
from bench.report.figures import Results
from bench.report.table import summary, text_table

PARTS = (
    *("door", "locks", "heap", "work", "large", "kernels", "programs", "game", "servers", "hours"),
    *("timeline", "gdb", "inside", "bugs", "codec"),
)
"""In the order in which they run: what a reader looks for first comes first, should it be broken off."""
SHARE = {
    "door": 60,
    "locks": 60,
    "heap": 40,
    "work": 100,
    "large": 40,
    "kernels": 70,
    "programs": 80,
    "servers": 120,
    "hours": 60,
    "bugs": 60,
    "codec": 20,
}
"""Seconds of the twelve minutes behind which a part begins no further rounds; the rest is the others'."""
OUT = ROOT / "build" / "bench"


def machine() -> dict[str, str]:
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        "unknown",
    )
    memory = int(Path("/proc/meminfo").read_text().split()[1]) / 2**20
    return {
        "processor": model,
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{memory:.0f} GB",
        "kernel": platform.release().partition("-")[0],
        "C library": " ".join(platform.libc_ver()),
        "load before": f"{os.getloadavg()[0]:.1f}",
    }


class Progress:
    """One line on standard error that changes; where that is no terminal, one line a row."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.live = sys.stderr.isatty()
        self.part = ""

    def seconds(self) -> str:
        return f"{time.monotonic() - self.start:4.0f} s"

    def doing(self, text: str) -> None:
        if self.live:
            sys.stderr.write(f"\r\033[K{self.seconds()}  {self.part}: {text}"[:160])
            sys.stderr.flush()

    def done(self, text: str) -> None:
        sys.stderr.write(("\r\033[K" if self.live else "") + f"{self.seconds()}  {self.part}: {text}\n")


def measure(bench: Bench, results: Results, part: str, progress: Progress) -> None:
    start = time.monotonic()
    progress.part = part
    bench.until = math.inf if bench.alone else start + SHARE.get(part, 120)
    try:
        module = importlib.import_module(f"bench.{part}")
    except ModuleNotFoundError as error:
        if error.name != f"bench.{part}":
            raise
        results.left_out.append(f"{part}: there is no such part")
        return
    try:
        for row in module.rows(bench):
            results.rows.append(row)
            progress.done(f"{row.table.partition(': ')[2]}: {row.name}")
    except Failed as error:
        results.failed[part] = str(error)
    except Exception:  # one part that breaks leaves the others their figures
        results.failed[part] = traceback.format_exc(limit=-1)
    finally:
        results.seconds[part] = round(time.monotonic() - start, 1)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure; print proportions; judge nothing.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, once: to see that all of it runs")
    parser.add_argument("--only", action="append", metavar="PART", choices=PARTS, help=f"one of {', '.join(PARTS)}")
    parser.add_argument("--docs", action="store_true", help="keep the figures, and write docs/performance.md again")
    arguments = parser.parse_args()
    results, progress = Results(machine=machine(), quick=arguments.quick), Progress()
    broken_off = False
    with tempfile.TemporaryDirectory(prefix="gdbrr-bench-") as scratch:
        bench = Bench(
            Path(scratch),
            quick=arguments.quick,
            alone=bool(arguments.only),
            left_out=results.left_out,
            failed=results.failed,
            progress=progress.doing,
        )
        try:
            for part in arguments.only or PARTS:
                measure(bench, results, part, progress)
        except KeyboardInterrupt:
            broken_off = True
    results.machine["load behind"] = f"{os.getloadavg()[0]:.1f}"
    if broken_off:
        results.left_out.append("what would have come behind: the run was broken off")
        progress.done("broken off: what was measured so far is kept")
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "figures.json").write_text(results.to_json())
    (OUT / "index.html").write_text(page.html(results))
    print(text_table(results.rows))
    print()
    print(summary(results))
    print(f"written: {OUT / 'figures.json'}, {OUT / 'index.html'}")
    if arguments.docs and not broken_off:
        docs.keep(results)
    for name, text in results.failed.items():
        print(f"\n{name} failed:\n{text}", file=sys.stderr)
    return 130 if broken_off else 1 if results.failed else 0


if __name__ == "__main__":
    sys.exit(main())
