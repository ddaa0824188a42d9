"""Going back inside of a long computation, in GDB: the first time, and again.

Runs in: python -m bench. May call: gdb with gdbinit.py.
Owns: nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from bench.gdb import inside
from bench.kit import GDBRR, Bench, Failed, Row, record, run

TABLE, WAY = "inside: commands in a computation", "inside: going through it"
KINDS = ("loop", "nested", "recursion", "vectors", "copies", "calls", "interpreter")
SECONDS = 3
CALIBRATE = 300_000
ABORTED = (-6, 134)
STEPS = (
    ("rr-back -w", "rr-back -w seldom", "rr-goto end"),
    ("rr-back -w, again", "rr-back -w seldom", "rr-goto end"),
    ("reverse-stepi", "reverse-stepi", None),
    ("reverse-stepi, again", "reverse-stepi", "stepi"),
    ("reverse-step", "reverse-step", None),
    ("reverse-next", "reverse-next", None),
    ("reverse-finish", "reverse-finish", None),
    ("a hot breakpoint", "reverse-continue", "break hot"),
    ("the same, again", "reverse-continue", None),
    (
        "a bookmark",
        "rr-goto here",
        "python gdb.execute('delete'); gdb.execute('rr-mark here'); gdb.execute('rr-goto end')",
    ),
)


def rows(bench: Bench) -> Iterator[Row]:
    if not bench.has("gdb") or not bench.has("gdbserver"):
        return
    for flags in ("-O0", "-O2"):
        program = bench.compile("inside", flags, name=f"inside{flags}")
        for kind in KINDS:
            yield from of_kind(bench, program, kind, flags)


def of_kind(bench: Bench, program: Path, kind: str, flags: str) -> Iterator[Row]:
    """The program aborts at its end, which is where the session begins."""
    bench.progress(f"{kind} {flags}")
    once = run([program, kind, str(CALIBRATE)], ABORTED).seconds
    count = str(int(CALIBRATE * bench.scaled(SECONDS) / max(once, 0.0005)))
    demo = bench.scratch / "inside.demo"
    native = run([program, kind, count], ABORTED).seconds
    record(demo, (), [program, kind, count], ABORTED)
    opened = run([*GDBRR, "debug", demo, "--", "-nx", "-batch"]).seconds
    yield Row(WAY, f"{kind} {flags}", "s", {"native": [native], "until GDB's first prompt": [opened]})
    calls = [f"python timed({name!r}, {command!r}, 1, {before!r})" for name, command, before in STEPS]
    found = inside(bench, program, f"rr-replay {demo}", *calls)
    values = {
        name: [float(each) for each in re.findall(rf"^TIMED {re.escape(name)} ([\d.]+)$", found, re.MULTILINE)]
        for name, *_ in STEPS
    }
    if not all(values.values()):
        raise Failed(f"{kind} {flags}: not all was measured\n{found[-2000:]}")
    yield Row(TABLE, f"{kind} {flags}", "ms", values, compared=False)
