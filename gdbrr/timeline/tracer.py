"""Debug registers without perf_event_open: a tracer beside a worker, for as long as its points are armed.

Runs in: the server and scripts. May call: errors, abi, launch.
Owns: the tracer processes.
"""

from __future__ import annotations

import functools
import subprocess
import threading
from collections.abc import Sequence

from gdbrr.config import tables
from gdbrr.ctl.control import Armed
from gdbrr.errors import GdbrrError
from gdbrr.launch import engine, probes

_PATIENCE = 10.0
_MANY = 4096
"""Hits that take longer by a tracer than it takes to close perf events."""


@functools.cache
def _perf_allowed() -> bool:
    return probes.perf_allowed()


def needed(knob: int, points: Sequence[Armed]) -> bool:
    """Whether a tracer sets the debug registers, as KNOB, the one named `points`, and this machine say.

    A hit costs less with perf events, whose handler runs in the process itself; but closing them, which a run that
    stops at a hit must do, takes the kernel longer than starting and ending a tracer, and so few hits.
    """
    if not points:
        return False
    choice = next(row for row in tables.knobs() if row.name == "points").choices[knob]
    if choice == "auto":
        return any(0 < point.stop_at < _MANY for point in points) or not _perf_allowed()
    return choice == "ptrace"


class NoProcess(GdbrrError):
    """The machine allows no more processes, or threads."""


def start_thread(thread: threading.Thread) -> None:
    try:
        thread.start()
    except RuntimeError:
        raise NoProcess("this machine refuses another thread", "raise `ulimit -u`") from None


class Tracer:
    """Traces one process until the engine in it says that it has seen enough, or the process ends."""

    def __init__(self, pid: int, points: Sequence[Armed]) -> None:
        words = [f"{point.addr:x}:{point.length}:{point.kind}" for point in points]
        try:
            self._process = subprocess.Popen(
                [engine.find().launcher, "--trace", str(pid), *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except BlockingIOError as error:
            raise NoProcess(
                f"this machine refuses another process (error {error.errno})", "raise `ulimit -u`"
            ) from None
        assert self._process.stdout is not None
        if self._process.stdout.readline() != b"ready\n":
            self._process.kill()
            reason = self._process.communicate()[1].decode(errors="replace").strip()
            raise GdbrrError(
                f"neither perf_event_open nor ptrace may set debug registers here ({reason})",
                "gdbrr doctor says how to allow one of them",
            )

    def close(self) -> None:
        """Wait for its end, which comes with the worker's stop or death."""
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()
