"""GDB with gdbrr's commands, on the real server and engine.

Runs in: pytest. May call: gdb with gdbinit.py.
Owns: nothing.
"""

from __future__ import annotations

from pathlib import Path

from harness import ROOT
from harness.run import gdbrr, run

EPOCH_TICKS = 16


def recorded(program: Path, place: Path, *options: str, status: int = 0) -> Path:
    """Short epochs: threads are born on both sides of a checkpoint."""
    demo = place / "x.demo"
    gdbrr("record", "--set", f"epoch_ticks={EPOCH_TICKS}", "-o", demo, *options, "--", program).expect(status)
    return demo


def session(program: Path, *commands: str) -> str:
    """What it prints, without errors and what the server says."""
    return run(*words(program, *commands), limit=100).expect(0).out


def whole(program: Path, *commands: str) -> str:
    """All that a person would see, in order; the last command may fail."""
    return run("sh", "-c", 'exec "$@" 2>&1', "sh", *words(program, *commands), limit=100).out


def words(program: Path, *commands: str) -> list[str]:
    words = ["gdb", "-nx", "-batch"]
    for command in (
        "set pagination off",
        "set confirm off",
        "set width 0",
        f"source {ROOT / 'gdbinit.py'}",
        f"set gdbrr epoch-ticks {EPOCH_TICKS}",
        f"file {program}",
        *commands,
    ):
        words += ["-ex", command]
    return words
