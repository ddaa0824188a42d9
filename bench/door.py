"""What a system call costs when it is recorded, against native, in one run; then whole programs.

    make bench, or .venv/bin/python bench/door.py [--quick]

Runs in: a command of its own. May call: gcc, gdbrr. Prints; judges nothing.
Owns: nothing.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GDBRR = [sys.executable, "-m", "gdbrr"]
PATIENCE = 600.0
# As a user has it: what is imported was compiled before.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


@dataclass(frozen=True)
class Case:
    name: str
    what: str
    rounds: int
    settings: tuple[str, ...] = ()
    replays: bool = True
    """False: the call gives something else on replay, as a native class may."""


@dataclass
class Figures:
    native: list[float] = field(default_factory=list)
    recorded: list[float] = field(default_factory=list)
    replay: list[float] = field(default_factory=list)
    size: int = 0


CASES = [
    Case("getppid, ignored class", "getppid", 10_000_000, settings=("classes.proc=ignore",)),
    Case("getppid, native class", "getppid", 10_000_000, settings=("classes.proc=native",), replays=False),
    Case("getppid, recorded", "getppid", 10_000_000),
    Case("getppid, recorded, trapped", "getppid", 1_000_000, settings=("engine.patch=off",)),
    Case("clock_gettime, recorded", "clock", 30_000_000),
    Case("read of 64 bytes from a pipe", "read", 6_000_000),
    Case("open and close", "open", 600_000),
    Case("pread of 1 MiB", "large", 3000),  # more would not fit the log that a recording may have
    Case("one thread, pipe, two calls", "alone", 2_500_000),
    Case("two threads, pipe ping-pong", "threads", 200_000),
    Case("rdtsc, recorded", "counter", 500_000, settings=("tsc=record",)),
    Case("computing", "compute", 1_200_000_000),
]


def run(words: Sequence[str | Path]) -> tuple[str, str, float]:
    start = time.perf_counter()
    command = [str(word) for word in words]
    done = subprocess.run(
        command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL
    )
    seconds = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(f"{words}: status {done.returncode}\n{done.stderr}")
    return done.stdout, done.stderr, seconds


def record(demo: Path, settings: Sequence[str], words: Sequence[str | Path]) -> tuple[str, str, float]:
    demo.unlink(missing_ok=True)
    chosen = [word for setting in settings for word in ("--set", setting)]
    return run([*GDBRR, "record", *chosen, "-o", demo, "--", *words])


def measure(program: Path, case: Case, times: int, scratch: Path) -> Figures:
    figures, demo = Figures(), scratch / "x.demo"
    words = [program, case.what, str(case.rounds)]
    for _ in range(times):  # in turn, so that other load meets all alike
        figures.native.append(float(run(words)[0]))
        out, _, _ = record(demo, case.settings, words)
        figures.recorded.append(float(out))
        if case.replays:
            figures.replay.append(run([*GDBRR, "replay", "--quiet", demo])[2] * 1e9 / case.rounds)
        figures.size = demo.stat().st_size
    return figures


def calls(program: Path, times: int, scale: float, scratch: Path) -> None:
    print(f"{'':<30} {'native':>10} {'recorded':>10} {'more by':>9} {'ratio':>6} {'replayed':>10}  demo a round")
    for case in CASES:
        small = Case(case.name, case.what, max(1, int(case.rounds * scale)), case.settings, case.replays)
        found = measure(program, small, times, scratch)
        native, recorded = min(found.native), min(found.recorded)
        replay = f"{min(found.replay):.1f}" if found.replay else "-"
        print(
            f"{case.name:<30} {native:>10.1f} {recorded:>10.1f} {recorded - native:>9.1f} {recorded / native:>6.2f}"
            f" {replay:>10}  {found.size / small.rounds:.3f} bytes"
        )


def least(times: int, once: Callable[[], tuple[str, str, float]]) -> str:
    """The shortest real time and the least processor time, with all children's, in milliseconds."""
    real, used = [], []
    for _ in range(times):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        real.append(once()[2])
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return f"{min(real) * 1e3:.1f} ms ({min(used) * 1e3:.1f} of a processor)"


def fixed(times: int, scratch: Path) -> None:
    demo = scratch / "true.demo"
    record(demo, (), ["/bin/true"])  # what is imported is compiled by now
    print(f"/bin/true: native {least(times, lambda: run(['/bin/true']))}")
    print(f"           recorded {least(times, lambda: record(demo, (), ['/bin/true']))}")
    print(f"           replayed {least(times, lambda: run([*GDBRR, 'replay', '--quiet', demo]))}")
    print(
        f"           starting this Python and nothing else {least(times, lambda: run([sys.executable, '-c', 'pass']))}"
    )


def main() -> None:
    quick = "--quick" in sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="gdbrr-bench-") as name:
        scratch = Path(name)
        program = scratch / "door"
        run(["gcc", "-O2", "-pthread", "-o", program, "bench/door.c"])
        fixed(3 if quick else 10, scratch)
        print("nanoseconds of processor time a round; ping-pong and replays (with their start): of real time")
        calls(program, 1 if quick else 3, 0.05 if quick else 1, scratch)


if __name__ == "__main__":
    main()
