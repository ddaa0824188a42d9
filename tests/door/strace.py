"""System calls of a recorded program as strace sees them, with the address each was made at.

Runs in: tests. May call: gdbrr, strace.
Owns: nothing.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gdbrr.config import profiles
from gdbrr.launch import live

ARMING = re.compile(
    r"prctl\((?:PR_SET_SYSCALL_USER_DISPATCH|0x3b[^,]*), (?:PR_SYS_DISPATCH_\w+|0x1[^,]*), (\w+), (\w+)"
)
LINE = re.compile(r"^(\d+) +\[([0-9a-f?]+)\] (.*)$")
BORN = re.compile(r"^(?:<\.\.\. )?(clone3?|v?fork)\b.*= (\d+)")
UNFINISHED = re.compile(r"^(?:clone3?|v?fork)\b.*<unfinished")


@dataclass(frozen=True)
class Escapes:
    """What a trace says. Children are processes of their own, which are not recorded: they are left out."""

    calls: int
    """Made behind the arming of Syscall User Dispatch."""
    threads: int
    outside: list[str]
    """Lines of calls that were made outside the engine's gate."""
    traps: int


def read(text: str) -> Escapes:
    gate: tuple[int, int] | None = None
    main = 0
    threads: set[int] = set()
    begun: dict[int, str] = {}
    calls = traps = 0
    outside = []
    for line in text.splitlines():
        found = LINE.match(line)
        if not found:
            continue
        pid, place, call = int(found[1]), found[2], found[3]
        if call.startswith("---"):
            traps += "SIGSYS" in call and pid in threads
            continue
        if gate is None:
            if armed := ARMING.match(call):
                start = int(armed[1], 16)
                gate = (start, start + int(armed[2], 0))
                main = pid
                threads.add(main)
            continue
        if pid not in threads:
            continue
        born = BORN.match(call)
        if UNFINISHED.match(call):
            begun[pid] = call
        if born and "CLONE_THREAD" in begun.pop(pid, "") + call:
            threads.add(int(born[2]))
        if call.startswith(("<...", "+++")) or "?" in place:
            continue
        calls += 1
        if not gate[0] <= int(place, 16) <= gate[1]:
            outside.append(line)
    return Escapes(calls, len(threads), outside, traps)


def trace(argv: Sequence[str | Path], place: Path, patch: bool, limit: float = 100.0, **env: str) -> Escapes:
    """Record ARGV from its first instruction under strace; its output goes to PLACE/out."""
    profile = profiles.resolve(None, None, [f"engine.patch={'on' if patch else 'off'}"])
    words = [str(word) for word in argv]
    with open(place / "out", "wb") as out, open(os.devnull, "rb") as nothing:
        stdio = (nothing.fileno(), out.fileno(), out.fileno())
        recording = live.start(words, profile, str(place), {**os.environ, **env}, stdio=stdio)
        try:
            strace = subprocess.Popen(
                [
                    "strace",
                    "-f",
                    "-i",
                    "-qq",
                    "-e",
                    "signal=SIGSYS,SIGSEGV",
                    "-o",
                    place / "trace",
                    "-p",
                    str(recording.pid),
                ],
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
            try:
                await_attached(recording.pid)
                os.kill(recording.pid, signal.SIGCONT)
                strace.wait(limit)
            finally:
                strace.kill()
                strace.communicate()
        finally:
            recording.close()
    return read((place / "trace").read_text(errors="replace"))


def await_attached(pid: int) -> None:
    while True:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        if any(line.startswith("TracerPid:") and line.split()[1] != "0" for line in lines):
            return
        os.sched_yield()
