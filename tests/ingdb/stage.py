"""Running GDB with gdbrr's commands, with and without the stub behind them.

Runs in: pytest. May call: gdb, the harness.
Owns: nothing; what a test leaves is below its temporary directory.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import ROOT
from harness.run import Result, run

STUB = Path(__file__).with_name("stub.py")


def gdb(*commands: str, init: Path = ROOT / "gdbinit.py", file: Path | None = None, **more: Any) -> Result:
    words: list[str | Path] = ["gdb", "-batch", "-nx"]
    for each in (f"source {init}", *([f"file {file}"] if file else []), *commands):
        words += ["-ex", each]
    return run(*words, limit=60, **more)


def last(result: Result) -> str:
    """The last line GDB printed before it quit."""
    lines = [line for line in result.out.splitlines() if not re.fullmatch(r"\[Inferior 1 .* detached\]", line)]
    return lines[-1]


def said(result: Result) -> str:
    """What GDB printed, errors among it."""
    return result.out + result.err


@dataclass
class Stage:
    """A program, a demo of it, and the stub that serves it."""

    place: Path
    program: Path
    code: dict[str, int]
    env: dict[str, str]
    private: Path

    def gdb(self, *commands: str, open: bool = True, load: bool = True, env: dict[str, str] | None = None) -> Result:
        start = [f"set gdbrr python {self.place / 'python'}", *(["rr-replay x.demo"] if open else [])]
        file = self.program if load else None
        return gdb(*start, *commands, file=file, cwd=self.place, env={**self.env, **(env or {})})

    def notes(self, what: str) -> list[dict[str, Any]]:
        lines = (self.place / "notes").read_text().splitlines()
        return [note for note in map(json.loads, lines) if note["what"] == what]

    def asked(self) -> list[dict[str, Any]]:
        """The questions that are not mere looks."""
        questions = [note["question"] for note in self.notes("asked")]
        aside = ("status", "epochs", "settle", "outcome", "libraries")
        return [each for each in questions if each["verb"] not in aside]
