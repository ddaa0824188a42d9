"""GDB with gdbrr's commands, on the real server and engine.

Runs in: pytest. May call: gdb with gdbinit.py.
Owns: nothing.
"""

from __future__ import annotations

from pathlib import Path

from harness import ROOT
from harness.run import run

EPOCH_TICKS = 16


def session(program: Path, *commands: str) -> str:
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
    return run(*words, limit=120).expect(0).out
