"""How long commands inside GDB take in a warm session on a recording of four threads: the median is what a user feels.

Runs in: python -m bench. May call: gdb with gdbinit.py.
Owns: nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from bench.kit import GDBRR, ROOT, Bench, Failed, Row, only, record, run

TABLE, FIRST = "gdb: commands in a warm session", "gdb: the first prompt"
SECONDS = 10
TIMED = """\
import gdb, time
def timed(name, command, often, before=None):
    for _ in range(often):
        if before:
            gdb.execute(before, to_string=True)
        start = time.monotonic()
        gdb.execute(command, to_string=True)
        print("TIMED", name, (time.monotonic() - start) * 1000, flush=True)
"""
STEPS = (
    ("rr-back", "rr-back", 15, None),
    ("rr-back -w, newest change of a variable", "rr-back -w total", 9, None),
    ("rr-back -w, from the end", "rr-back -w total", 5, "rr-goto end"),
    ("reverse-stepi", "reverse-stepi", 15, "stepi"),
    ("reverse-step", "reverse-step", 9, "rr-back -w total"),
    ("reverse-next", "reverse-next", 7, "rr-back -w total"),
    ("rr-goto 50%", "rr-goto 50%", 5, "rr-goto end"),
)


def inside(bench: Bench, program: Path, *commands: str) -> str:
    (bench.scratch / "timed.py").write_text(TIMED)
    words: list[str | Path] = ["gdb", "-nx", "-batch"]
    for command in (
        *("set pagination off", "set confirm off", "set width 0", "set debuginfod enabled off"),
        *(f"source {ROOT / 'gdbinit.py'}", f"source {bench.scratch / 'timed.py'}", f"file {program}", *commands),
    ):
        words += ["-ex", command]
    return run(words).out


def rows(bench: Bench) -> Iterator[Row]:
    if not bench.has("gdb") or not bench.has("gdbserver"):
        return
    program, demo = bench.compile("travel", "-O0"), bench.scratch / "travel.demo"
    bench.progress("recording")
    record(demo, (), [program, str(bench.scaled(SECONDS))])
    calls = [
        f"python timed({name!r}, {command!r}, {bench.rounds(often)}, {before!r})"
        for name, command, often, before in STEPS
    ]
    found = inside(bench, program, f"rr-replay {demo}", *calls)
    for name, *_ in STEPS:
        values = [float(each) for each in re.findall(rf"^TIMED {re.escape(name)} ([\d.]+)$", found, re.MULTILINE)]
        if not values:
            raise Failed(f"{name}: nothing was measured\n{found[-2000:]}")
        yield Row(TABLE, name, "ms", {"time": values}, compared=False)
    prompts = bench.interleaved(
        {
            "GDB alone": lambda: run(["gdb", "-nx", "-batch", "-ex", "start", program]).seconds * 1000,
            "gdbrr debug": lambda: run([*GDBRR, "debug", demo, "--", "-nx", "-batch"]).seconds * 1000,
        },
        bench.rounds(3),
    )
    yield Row(FIRST, "of the same program", "ms", prompts, compared=False)


if __name__ == "__main__":
    only(rows)
