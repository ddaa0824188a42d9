"""What a pair of lock and unlock costs natively and recorded, for each way to write the order down (--order-log).

    make bench, or .venv/bin/python bench/locks.py [--quick]

Runs in: a command of its own. May call: gcc, gdbrr. Prints; judges nothing.
Owns: nothing.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from door import record, run

WAYS = ("clock", "object", "reduced", "transitive")
CASES = (
    ("a lock of its own, 2 threads", "private", 2, 2_000_000),
    ("a lock of its own, 4 threads", "private", 4, 1_000_000),
    ("one lock, 2 threads", "shared", 2, 1_000_000),
    ("one lock, 4 threads", "shared", 4, 500_000),
    ("computing, one lock, 2 threads", "compute", 2, 50_000),
    ("computing, one lock, 4 threads", "compute", 4, 25_000),
)


def main() -> None:
    quick = "--quick" in sys.argv[1:]
    times, scale = (1, 0.1) if quick else (3, 1)
    print("nanoseconds of processor time a pair; in brackets bytes of demo for each of its two operations")
    print(f"{'':<32} {'native':>8} " + " ".join(f"{way:>22}" for way in WAYS))
    with tempfile.TemporaryDirectory(prefix="gdbrr-bench-") as name:
        program, demo = Path(name) / "locks", Path(name) / "x.demo"
        run(["gcc", "-O2", "-pthread", "-o", program, "bench/locks.c"])
        for title, what, threads, rounds in CASES:
            words = [program, what, str(threads), str(int(rounds * scale))]
            native: list[float] = []
            found: dict[str, list[float]] = {way: [] for way in WAYS}
            size: dict[str, float] = {}
            for _ in range(times):  # in turn, so that other load meets all alike
                native.append(float(run(words)[0].split()[0]))
                for way in WAYS:
                    out, err, _ = record(demo, (f"order_log={way}",), words)
                    found[way].append(float(out.split()[0]))
                    operations = re.search(r"recorded ([\d,]+) operations", err)
                    assert operations
                    size[way] = demo.stat().st_size / int(operations[1].replace(",", ""))
            base = min(native)
            cells = (f"{min(found[w]):.1f} {min(found[w]) / base:.2f}x ({size[w]:.3f})" for w in WAYS)
            print(f"{title:<32} {base:>8.1f} " + " ".join(f"{cell:>22}" for cell in cells))


if __name__ == "__main__":
    main()
