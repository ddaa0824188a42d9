"""Programs about threads, compiled, recorded and replayed."""

from __future__ import annotations

import sys
from pathlib import Path

from harness import programs
from harness.run import Result, run

GDBRR = (sys.executable, "-m", "gdbrr")


def build(name: str, *flags: str) -> Path:
    return programs.build(name, flags)


def names() -> list[str]:
    return sorted(path.stem for path in programs.SOURCES.glob("sync_*.c*"))


def record(program: Path, demo: Path, *arguments: str, options: tuple[str, ...] = ()) -> Result:
    return run(*GDBRR, "record", "-o", demo, *options, "--", program, *arguments)


def replay(demo: Path) -> Result:
    return run(*GDBRR, "replay", demo)
