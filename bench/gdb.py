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
STOP = "gdb: the first stop"
LIVE = "gdb: going back from a recording"
STOPS = (("the first time, after some seconds", 200), ("again, after some more", 100), ("once more", 50))
SECONDS = 10
SOURCE = Path(__file__).parent / "c" / "travel.c"
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
    stops = bench.interleaved(
        {way: lambda way=way: stop(bench, program, way) for way in ("start", "rr-start")},  # type: ignore[misc]
        bench.rounds(5),
    )
    yield Row(STOP, "of the same program", "ms", stops)
    yield from live(bench, program)
    prompts = bench.interleaved(
        {
            "GDB alone": lambda: run(["gdb", "-nx", "-batch", "-ex", "start", program]).seconds * 1000,
            "gdbrr debug": lambda: run([*GDBRR, "debug", demo, "--", "-nx", "-batch"]).seconds * 1000,
        },
        bench.rounds(3),
    )
    yield Row(FIRST, "of the same program", "ms", prompts, compared=False)


def stop(bench: Bench, program: Path, way: str) -> float:
    """From the command to `main`, in a GDB that has read the program's symbols."""
    out = inside(bench, program, "info line main", "tbreak main", f"python timed('stop', {way!r}, 1)", "kill")
    found = re.search(r"^TIMED stop ([\d.]+)$", out, re.MULTILINE)
    if not found:
        raise Failed(f"{way}: it did not stop\n{out[-2000:]}")
    return float(found[1])


def live(bench: Bench, program: Path) -> Iterator[Row]:
    """`rr-back` at a stop of a program that is being recorded, and where it goes on, and stops again."""
    ways = {"followed": "on", "replayed each time": "off"}
    line = next(at for at, text in enumerate(SOURCE.read_text().splitlines(), 1) if "newest = own" in text)
    found: dict[str, dict[str, list[float]]] = {name: {way: [] for way in ways} for name, _ in STOPS}
    for _ in range(bench.rounds(3)):
        for way, follow in ways.items():
            moves: list[str] = []
            for name, passes in STOPS:
                go = "rr-live" if moves else f"rr-start --set follow={follow}"
                moves += [f"ignore 1 {bench.scaled(passes)}", go, *(["continue"] if moves else [])]
                moves += [f"python timed({name!r}, 'rr-back', 1)"]
            out = inside(bench, program, f"set args {3 * SECONDS}", f"break {SOURCE.name}:{line}", *moves)
            for name, _ in STOPS:
                time = re.search(rf"^TIMED {re.escape(name)} ([\d.]+)$", out, re.MULTILINE)
                if not time:
                    raise Failed(f"{name}: nothing was measured\n{out[-2000:]}")
                found[name][way].append(float(time[1]))
    for name, values in found.items():
        yield Row(LIVE, name, "ms", values)


if __name__ == "__main__":
    only(rows)
