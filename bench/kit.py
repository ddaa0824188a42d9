"""What every part of the benchmark is made of: rows of figures, and ways to run something and measure it.

Runs in: python -m bench. May call: gcc, gdbrr, what a part runs.
Owns: the shape of a part: a module with `def rows(bench: Bench) -> Iterator[Row]`, named in bench/__main__.py.
"""

from __future__ import annotations

import contextlib
import math
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GDBRR = [str(ROOT / ".venv" / "bin" / "gdbrr")]
PATIENCE = 600.0
STRANGE = ("PYTHONDONTWRITEBYTECODE", "MAKEFLAGS", "MAKELEVEL")
# As a user has it: what is imported was compiled before.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in STRANGE}


@dataclass(frozen=True)
class Row:
    """One line of a table: the same work in several ways."""

    table: str
    """The heading above it, first the part's name: `door: calls`."""
    name: str
    unit: str
    """Of `values`: ns, us, ms, s, MB, bytes, requests/s ..."""
    values: Mapping[str, Sequence[float]]
    """For each way the figures of all rounds. The first way is what the others are compared with, if it is `native`
    or such; see `compared`."""
    others: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Columns with a unit of their own, which the name tells: `demo, bytes a call`."""
    compared: bool = True
    """False: the columns are no alternatives of the first one, no ratios are shown."""
    x: float | None = None
    """Where rows are the points of a curve: the place, in the unit that the name of the table tells."""


class Failed(Exception):
    """Something that was to be measured did not work; the text says what it printed."""


@dataclass(frozen=True)
class Done:
    out: str
    err: str
    seconds: float
    used: float
    """Of a processor, with all children's."""


@dataclass
class Bench:
    """One run of the benchmark, as a part sees it."""

    scratch: Path
    until: float = math.inf
    """By time.monotonic(): behind it no further round is begun, so a slow machine has fewer and no longer run."""
    quick: bool = False
    alone: bool = False
    """This part was asked for by name, and may take longer than in a run of all."""
    left_out: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    progress: Callable[[str], None] = lambda text: None

    def rounds(self, usual: int) -> int:
        return 1 if self.quick else usual

    def late(self) -> bool:
        return time.monotonic() > self.until

    def scaled(self, work: int) -> int:
        """How much of some work: a tenth where the whole has to be quick."""
        return max(1, work // 10) if self.quick else work

    def has(self, tool: str, what: str = "") -> bool:
        """Is TOOL here? If not, WHAT is named as left out."""
        if shutil.which(tool):
            return True
        text = f"{what or tool}: {tool} is not installed"
        if text not in self.left_out:
            self.left_out.append(text)
        return False

    def compile(self, source: str, *flags: str, name: str = "") -> Path:
        """The program of bench/c/SOURCE.c, or of any path from the root, once for each run."""
        path = ROOT / "bench" / "c" / f"{source}.c" if "/" not in source else ROOT / source
        program = self.scratch / (name or path.stem)
        if not program.exists():
            run(["gcc", "-O2", "-g", "-pthread", *flags, "-o", program, path])
        return program

    def interleaved(
        self, ways: Mapping[str, Callable[[], float]], rounds: int, once: Sequence[str] = (), name: str = ""
    ) -> dict[str, list[float]]:
        """Every way in turn, round by round, so that other load meets all alike; those of ONCE in the first only.

        A way that fails is named as such and not tried again; if it is the first one, nothing can be compared.
        """
        found: dict[str, list[float]] = {way: [] for way in ways}
        for number in range(rounds):
            for position, (way, measure) in enumerate(ways.items()):
                if number and not position and self.late():
                    return {way: values for way, values in found.items() if values}
                if (number and way in once) or f"{name}, {way}" in self.failed:
                    continue
                self.progress(f"{name} {way}".strip())
                try:
                    found[way].append(measure())
                except Failed as error:
                    if not position or not name:
                        raise
                    self.failed[f"{name}, {way}"] = str(error)
        return {way: values for way, values in found.items() if values}


def run(words: Sequence[str | Path], statuses: Sequence[int] = (0,), core: int | None = None) -> Done:
    """Runs WORDS from the root of the checkout, in a session of its own that ends with it; CORE pins it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    command = [str(word) for word in words]
    if core is not None:
        command = ["taskset", "-c", str(core), *command]
    with subprocess.Popen(
        command, cwd=ROOT, env=ENVIRONMENT, text=True, errors="replace", start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            out, err = process.communicate(timeout=PATIENCE)
        finally:
            if process.poll() is None:
                end(process)
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode not in statuses:
        raise Failed(f"{' '.join(command)}: status {process.returncode}\n{err[-2000:]}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Done(out, err, seconds, used)


def end(process: subprocess.Popen[str]) -> None:
    """Ends PROCESS and what it started; gdbrr ends its own program when it gets SIGTERM."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def record(demo: Path, settings: Sequence[str], words: Sequence[str | Path], statuses: Sequence[int] = (0,)) -> Done:
    demo.unlink(missing_ok=True)
    chosen = [word for setting in settings for word in ("--set", setting)]
    return run([*GDBRR, "record", *chosen, "-o", demo, "--", *words], statuses)


def replay(demo: Path, statuses: Sequence[int] = (0,)) -> Done:
    return run([*GDBRR, "replay", "--quiet", demo], statuses)


def only(module_rows: Callable[[Bench], Iterator[Row]]) -> None:
    """For `python -m bench.PART [--quick]`: this part alone, as it goes."""
    import tempfile

    from bench.report.table import text_table

    with tempfile.TemporaryDirectory(prefix="gdbrr-bench-") as scratch:
        bench, found = Bench(Path(scratch), quick="--quick" in sys.argv[1:], alone=True), []
        for row in module_rows(bench):
            print(f"  {row.name}", file=sys.stderr)
            found.append(row)
    print(text_table(found))
    for line in (*bench.left_out, *(f"{name} failed: {text}" for name, text in bench.failed.items())):
        print(line)
