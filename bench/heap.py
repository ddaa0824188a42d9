"""What allocating costs when it is recorded, in time and in memory, against the C library's allocator.

    make bench, or .venv/bin/python bench/heap.py [--quick]

Runs in: a command of its own. May call: gcc, gdbrr. Prints; judges nothing.
Owns: nothing.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GDBRR = [sys.executable, "-m", "gdbrr"]
CASES = [
    ("private", 1, 4_000_000),
    ("private", 2, 4_000_000),
    ("private", 4, 2_000_000),
    ("mixed", 2, 2_000_000),
    ("handed", 2, 2_000_000),
    ("handed", 4, 1_000_000),
    ("pair", 2, 500_000),
    ("churn", 4, 2_000_000),
]


def run(words: Sequence[str | Path]) -> tuple[float, int]:
    done = subprocess.run([str(word) for word in words], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{words}: status {done.returncode}\n{done.stderr}")
    ns, peak = done.stdout.split()
    return float(ns), int(peak)


def main() -> None:
    quick = "--quick" in sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="gdbrr-bench-") as name:
        program, demo = Path(name) / "heap", Path(name) / "x.demo"
        command = ["gcc", "-O2", "-pthread", "-o", str(program), "bench/heap.c"]
        subprocess.run(command, cwd=ROOT, check=True, stdin=subprocess.DEVNULL)
        print("nanoseconds of processor time a round; peak of resident memory in MB; least of several runs")
        print(f"{'':<12} {'glibc':>8} {'recorded':>9} {'ratio':>6}   {'glibc':>7} {'recorded':>9} {'ratio':>6}")
        for what, threads, rounds in CASES:
            words = [str(program), what, str(threads), str(rounds // (10 if quick else 1))]
            native, recorded = [], []
            for _ in range(2 if quick else 5):  # in turn, so that other load meets both alike
                native.append(run(words))
                demo.unlink(missing_ok=True)
                recorded.append(run([*GDBRR, "record", "-o", demo, "--", *words]))
            ns = [min(time for time, _ in rows) for rows in (native, recorded)]
            peak = [min(size for _, size in rows) / 1000 for rows in (native, recorded)]
            print(
                f"{what + ', ' + str(threads):<12} {ns[0]:>8.1f} {ns[1]:>9.1f} {ns[1] / ns[0]:>6.2f}"
                f"   {peak[0]:>7.1f} {peak[1]:>9.1f} {peak[1] / peak[0]:>6.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
