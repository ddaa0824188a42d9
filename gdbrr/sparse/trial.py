"""One trial of a profile: the program recorded with it, and that demo replayed.

Runs in: `gdbrr suggest`. May call: errors, config, demo, launch, report.
Owns: what a run is given (its company; its output goes nowhere), what it may take, and when a trial counts as good: its
replay kept to the demo and wrote every byte that the recording had written.
"""

from __future__ import annotations

import contextlib
import resource
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gdbrr.demo.reader import Demo
from gdbrr.errors import GdbrrError
from gdbrr.launch import hunt
from gdbrr.launch import replay as replays
from gdbrr.report import divergence

if TYPE_CHECKING:
    from gdbrr.config.profiles import Profile
    from gdbrr.launch.record import Request
    from gdbrr.sparse.company import Company

SHORT = 0.3
"""Seconds of processor time below which a run is made more than once, and the least counts."""
_TIMES = 3
_LOOK = 0.02
_REPLAY_TIMES = 20
_REPLAY_LEAST = 30.0
_ALWAYS = hunt.Until((lambda run: "it was asked for",))


class Interrupted(Exception):
    """Somebody has seen enough."""


class Run(NamedTuple):
    """A run of the program, native or recorded."""

    status: int
    output: bytes
    cpu: float
    """Seconds of processor time; of several runs the least."""
    seconds: float
    size: int = 0
    """Of the demo."""
    events: int = 0
    """Bytes of its events before compression."""
    recordings: int = 1
    """How often it was recorded."""
    growth: float = 0.0
    """Bytes by which the events became more each time: of a program that reads what it has written the time before."""


class Verdict(NamedTuple):
    """How a trial went."""

    run: Run
    good: bool
    why: str = ""
    """What was wrong with its replay."""


def native(argv: Sequence[str], limit: float, company: Company) -> Run:
    """The program without gdbrr."""
    found: Run | None = None
    for _ in range(_TIMES):
        began, before = time.monotonic(), _children(company)
        with open(company.input, "rb") as given, company.beside() as beside:
            process = subprocess.Popen(argv, stdin=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            output = _await(process, began + limit, beside)
        if output is None:
            raise _too_long(limit, company)
        status = process.returncode if process.returncode >= 0 else 128 - process.returncode
        company.check(f"and the program ended with status {status}")
        run = Run(status, output, _children(company) - before, time.monotonic() - began)
        found = run if found is None else run._replace(cpu=min(run.cpu, found.cpu))
        if run.cpu > SHORT:
            break
    assert found
    return found


def _await(process: subprocess.Popen[bytes], end: float, beside: Callable[[int], int]) -> bytes | None:
    """Its output; None if it had to be ended."""
    with process:
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return process.communicate(timeout=_LOOK)[0]
                if time.monotonic() > end:
                    return None
                if number := beside(process.pid):
                    process.send_signal(number)
        finally:
            process.kill()


def record(request: Request, profile: Profile, demo: Path, limit: float, company: Company) -> Run:
    """The program recorded with PROFILE; the demo is that of the last of several runs."""
    found: Run | None = None
    first = 0
    for count in range(1, _TIMES + 1):
        once = hunt.Hunt(
            request._replace(profile=profile),
            demo,
            _ALWAYS,
            limit=limit,
            input=str(company.input),
            beside=company.beside,
        )
        began, before = time.monotonic(), _children(company)
        _, run, summary = once.attempt(0)
        if once.interrupted:
            raise Interrupted
        if once.late:
            raise _too_long(limit, company)
        company.check(f"and the program ended with status {run.status}")
        assert summary
        cpu = _children(company) - before
        first = first or summary.log_bytes
        growth = max(0, summary.log_bytes - first) / max(1, count - 1)
        seconds = time.monotonic() - began
        seen = Run(run.status, run.output, cpu, seconds, summary.bytes, summary.log_bytes, count, growth)
        found = seen if found is None else seen._replace(cpu=min(seen.cpu, found.cpu))
        if cpu > SHORT:
            break
    assert found
    return found


def replay(path: Path, run: Run) -> str:
    """What is wrong with the replay of a demo that was just recorded; nothing when it did the same."""
    end = time.monotonic() + max(_REPLAY_LEAST, _REPLAY_TIMES * run.seconds)

    def look(tick: int) -> None:
        if time.monotonic() > end:
            raise GdbrrError(f"its replay came to no end, and was at tick {tick}", "record it, and replay it by hand")

    with Demo.open(path) as demo:
        try:
            outcome = replays.run(demo, echo=False, poll=look)
        except GdbrrError as error:
            return error.message
        return "" if outcome.synchronised else divergence.problem(demo, outcome)


def attempt(request: Request, profile: Profile, demo: Path, limit: float, company: Company) -> Verdict:
    """Record with PROFILE and replay."""
    run = record(request, profile, demo, limit, company)
    why = replay(demo, run)
    return Verdict(run, not why, why)


def _children(company: Company) -> float:
    """Processor time of all children that were waited for, but for those who only ask the program."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime - company.spent


def _too_long(limit: float, company: Company) -> GdbrrError:
    company.check(f"and the program did not end within {limit:g} s")
    return GdbrrError(
        f"the program did not end within {limit:g} s, and it is to be run many times",
        "give it less to do, end it by --client or `timeout`, or raise --limit",
    )
