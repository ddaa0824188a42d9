"""How many runs it takes to find each of the seeded bugs, by each way of choosing the next thread.

    make bench, or .venv/bin/python bench/bugs.py [--quick]

Runs in: a command of its own. May call: gcc, gdbrr record --runs. Prints; judges nothing.
Owns: nothing.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUGS = (
    "lost_update wrong_lock missed_signal order_violation deadlock use_after_free check_then_act double_checked"
    " aba_stack bounded_buffer"
).split()
WAYS = {
    "random": ("--order", "random"),
    "pct, d=1": ("--order", "pct", "--set", "pct.depth=1"),
    "pct, d=2": ("--order", "pct", "--set", "pct.depth=2"),
    "pct, d=3": ("--order", "pct"),
    "pct, d=5": ("--order", "pct", "--set", "pct.depth=5"),
}
MOST = 500


def natively(program: Path, name: str, runs: int) -> int:
    failed = 0
    for _ in range(runs):
        try:
            done = subprocess.run(
                [program, name], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=5, check=False
            )
        except subprocess.TimeoutExpired:
            failed += 1
        else:
            failed += done.returncode != 0
    return failed


def needed(program: Path, name: str, way: tuple[str, ...], seed: int, demo: Path) -> int:
    """Runs up to the first that fails; MOST and one when none does."""
    command = [sys.executable, "-m", "gdbrr", "record", "--runs", str(MOST), *way, "--seed", str(seed)]
    command += ["--until", "failure", "--until", "hang:0.5", "-o", str(demo), "--", str(program), name]
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    found = re.search(r"run (\d+) of", done.stderr)
    if done.returncode == 1:
        return MOST + 1
    assert found, done.stderr
    return int(found[1])


def main() -> None:
    quick = "--quick" in sys.argv[1:]
    hunts, runs = (1, 20) if quick else (5, 500)
    with tempfile.TemporaryDirectory(prefix="gdbrr-bench-") as scratch:
        program = Path(scratch) / "bugs"
        source = ROOT / "tests" / "programs" / "seeded_bugs.c"
        subprocess.run(["gcc", "-g", "-O0", "-pthread", "-o", program, source], check=True, stdin=subprocess.DEVNULL)
        print(f"runs until the bug shows: median (most) of {hunts} hunts; natively: of {runs} runs")
        print(f"{'':<16} {'natively':>9}" + "".join(f"{way:>14}" for way in WAYS))
        for name in BUGS:
            print(f"{name:<16} {natively(program, name, runs):>9}", end="", flush=True)
            for way in WAYS.values():
                counts = [needed(program, name, way, 1 + 1000 * n, Path(scratch) / "x.demo") for n in range(hunts)]
                print(f"{f'{statistics.median(counts):g} ({max(counts)})':>14}", end="", flush=True)
            print()


if __name__ == "__main__":
    main()
