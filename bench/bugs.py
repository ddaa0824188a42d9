"""How many runs it takes to find each of the seeded bugs, by each way of choosing the next thread.

Runs in: python -m bench. May call: gcc, gdbrr record --runs.
Owns: the list of bugs and ways.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from bench.kit import GDBRR, Bench, Failed, Row, only, run

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
USUAL = ("random", "pct, d=3")
TABLE, DEPTHS = "bugs: runs until it shows", "bugs: runs until it shows, by depth"
MOST = 500


def natively(program: Path, name: str, runs: int) -> float:
    """Of RUNS runs, how many fail or hang; one that hangs is not tried again and again."""
    script = (
        f'n=0; i=0; while [ $i -lt {runs} ]; do i=$((i + 1)); timeout 1 "{program}" {name} >/dev/null 2>&1; r=$?;'
        " [ $r = 0 ] || n=$((n + 1)); done; echo $n"
    )
    return float(run(["sh", "-c", script]).out)


def needed(program: Path, name: str, way: tuple[str, ...], seed: int, demo: Path) -> float:
    """Runs up to the first that fails; MOST and one when none does."""
    command = [*GDBRR, "record", "--runs", str(MOST), *way, "--seed", str(seed)]
    command += ["--until", "failure", "--until", "hang:0.5", "-o", str(demo), "--", str(program), name]
    done = run(command, statuses=range(256))
    found = re.search(r"run (\d+) of", done.err)
    if found:
        return float(found[1])
    if "no run" not in done.err:
        raise Failed(done.err)
    return MOST + 1


def rows(bench: Bench) -> Iterator[Row]:
    """The usual ways; where this part is asked for by name, which takes its time, also other depths of pct."""
    program, demo = bench.compile("tests/programs/seeded_bugs.c", "-O0"), bench.scratch / "bug.demo"
    hunts, runs = (1, 10) if bench.quick else (5, 500) if bench.alone else (3, 50)
    for name in BUGS[:3] if bench.quick else BUGS:
        hunts = 1 if bench.late() else hunts
        bench.progress("natively")
        failures = natively(program, name, runs)
        found = {}
        for way in WAYS if bench.alone and not bench.quick else USUAL:
            bench.progress(way)
            found[way] = [needed(program, name, WAYS[way], 1 + 1000 * number, demo) for number in range(hunts)]
        table = DEPTHS if len(found) > len(USUAL) else TABLE
        yield Row(table, name, "runs", found, {f"failures in {runs} native runs": [failures]}, compared=False)


if __name__ == "__main__":
    only(rows)
