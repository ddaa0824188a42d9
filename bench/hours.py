"""A long recording: what its controller holds in memory, and how long packing and opening take, by the log's length.

Runs in: python -m bench. May call: gdbrr; gdb with gdbinit.py.
Owns: the sizes, of which the largest is what a server with a thousand requests a second logs in ten minutes.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from bench.kit import ENVIRONMENT, GDBRR, ROOT, Bench, Failed, Row, end, only, run

TABLE = "hours: a long recording"
RECORDING, PACKING, OPENING = "controller while recording", "while packing", "while opening"
PACK, INFO, START, SIZE = "pack, s", "info, s", "debug --start, s", "demo, bytes a request"
SIZES = {
    "60,000 requests": (60_000, 0),
    "600,000 requests": (600_000, 0),
    "60,000 requests, 12,000 threads": (60_000, 12_000),
}


def peak(pid: int) -> float:
    """The most that a process has had resident, in MB."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return 0.0


def watched(words: list[str | Path], line: bool) -> tuple[float, float, float]:
    """Peaks of WORDS up to the LINE that it prints and in all, and the seconds behind that line."""
    command = [str(word) for word in words]
    with subprocess.Popen(
        command, cwd=ROOT, env=ENVIRONMENT, text=True, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            assert process.stdout
            if line and not process.stdout.readline():
                raise Failed(f"{' '.join(command)}: it printed nothing")
            first = most = peak(process.pid)
            start = time.perf_counter()
            while process.poll() is None:
                most = max(most, peak(process.pid))
                time.sleep(0.002)
            seconds = time.perf_counter() - start
        finally:
            if process.poll() is None:
                end(process)
    if process.returncode:
        raise Failed(f"{' '.join(command)}: status {process.returncode}")
    return first, most, seconds


def rows(bench: Bench) -> Iterator[Row]:
    program, demo = bench.compile("hours"), bench.scratch / "hours.demo"
    for name, (requests, threads) in SIZES.items():
        requests, threads = bench.scaled(requests), bench.scaled(threads) if threads else 0
        values: dict[str, list[float]] = {RECORDING: [], PACKING: [], OPENING: []}
        others: dict[str, list[float]] = {PACK: [], INFO: [], START: [], SIZE: []}
        for _ in range(bench.rounds(3)):
            bench.progress(name)
            demo.unlink(missing_ok=True)
            recording, packing, seconds = watched(
                [*GDBRR, "record", "-o", demo, "--", program, str(requests), str(threads)], True
            )
            values[RECORDING].append(recording)
            values[PACKING].append(packing)
            others[PACK].append(seconds)
            others[SIZE].append(demo.stat().st_size / requests)
            others[INFO].append(run([*GDBRR, "info", demo]).seconds)
            values[OPENING].append(watched([*GDBRR, "replay", "--quiet", demo], False)[1])
            if bench.has("gdb") and bench.has("gdbserver"):
                others[START].append(run([*GDBRR, "debug", "--start", demo, "--", "-nx", "-batch"]).seconds)
            if bench.late():
                break
        yield Row(TABLE, name, "MB", values, {key: found for key, found in others.items() if found}, compared=False)


if __name__ == "__main__":
    only(rows)
