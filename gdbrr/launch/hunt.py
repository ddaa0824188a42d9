"""Recording again and again until a run fails: which runs count as failed, and which demo is kept.

Runs in: `gdbrr record --runs`. May call: errors, config, launch.
Owns: the language of `--until`; the directory of the run under way; the program's output while it is not shown.
"""

from __future__ import annotations

import bisect
import contextlib
import os
import re
import select
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gdbrr.config import schema
from gdbrr.config.profiles import SEEDED, Profile, Value
from gdbrr.errors import EXIT_USAGE, GdbrrError
from gdbrr.launch import record, spawn
from gdbrr.launch.deadlock import Deadlock
from gdbrr.launch.ends import errors, keep
from gdbrr.launch.signals import terminal_signals

if TYPE_CHECKING:
    from gdbrr.demo.pack import Summary

HANG = 2.0
"""Seconds for which threads wait for each other, after which a run hangs."""
PATIENCE = 2.0
"""Seconds that a run gets to end after SIGTERM."""
_LOOK = 0.1
_MOST_OUTPUT = 1 << 24
Beside = Callable[[], contextlib.AbstractContextManager[Callable[[int], int]]]
"""What is done beside a run. Asked now and then, with the program's id, it tells which signal that gets; 0: none."""
_WAY_OUT = (
    "FAILURE is failure, exit=N, exit!=N, signal, signal=N, crash, hang, hang:SECONDS, idle:SECONDS or output:REGEX"
)
_PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0)
"""Seconds to wait before the next try where the machine has no process for a run."""


@dataclass
class Run:
    """How one run went."""

    status: int
    """As a shell shows it."""
    ended_by: int
    """The signal that ended it, or 0."""
    hung: str = ""
    """Why it was ended: nothing would have happened any more."""
    output: bytes = b""


@dataclass(frozen=True)
class Until:
    """Conditions on a run, any of which is the failure looked for."""

    tests: tuple[Callable[[Run], str], ...]
    """Each says why the run failed, or nothing."""
    hang: float = 0.0
    """Seconds after which a deadlock is one, too; 0: never."""
    idle: float = 0.0
    """The same for seconds in which nothing happens, whatever for."""

    def why(self, run: Run) -> str:
        if run.hung:
            return run.hung
        return next(filter(None, (test(run) for test in self.tests)), "")


def _ended(run: Run) -> str:
    return f"killed by {keep.signal_name(run.ended_by)}" if run.ended_by else f"exit status {run.status}"


def _parse(word: str) -> Callable[[Run], str]:
    kind, mark, rest = (*re.split(r"(!?=|:)", word, maxsplit=1), "", "")[:3]
    number = int(rest) if rest.isdecimal() else -1
    if word == "failure":
        return lambda run: _ended(run) if run.status else ""
    if kind == "exit" and mark in ("=", "!=") and number >= 0:
        same = mark == "="
        return lambda run: _ended(run) if (not run.ended_by and run.status == number) == same else ""
    if word == "signal":
        return lambda run: _ended(run) if run.ended_by else ""
    if kind == "signal" and mark == "=" and number > 0:
        return lambda run: _ended(run) if run.ended_by == number else ""
    if word == "crash":
        return lambda run: _ended(run) if run.ended_by in keep.CRASHES else ""
    if kind == "output" and mark == ":" and rest:
        try:
            wanted = re.compile(os.fsencode(rest), re.MULTILINE)
        except re.error as error:
            raise GdbrrError(f"--until {word}: {error}", _WAY_OUT, EXIT_USAGE) from None
        return lambda run: f"its output matches {rest}" if wanted.search(run.output) else ""
    raise GdbrrError(f"--until {word} means nothing", _WAY_OUT, EXIT_USAGE)


def parse(words: Sequence[str]) -> Until:
    limits, tests = {"hang": 0.0, "idle": 0.0}, []
    for word in words or ["failure"]:
        limit = re.fullmatch(r"(hang|idle):([0-9]+(?:\.[0-9]+)?)|(hang)", word)
        if limit:
            limits[limit[1] or limit[3]] = max(float(limit[2] or HANG), _LOOK)
        else:
            tests.append(_parse(word))
    return Until(tuple(tests), limits["hang"], limits["idle"])


# ---------------------------------------------------------------- one run
class _Stillness:
    """Whether a program does nothing at all: no operation, no processor time, every thread asleep."""

    def __init__(self) -> None:
        self._seen: tuple[object, ...] = ()
        self._since = 0.0

    def seconds(self, recording: record.Recording) -> float:
        now, seen = time.monotonic(), (recording.page.c.clock, *_threads(recording.pid))
        if not seen[-1] or seen != self._seen:
            self._seen, self._since = seen, now
        return now - self._since


def _threads(pid: int) -> tuple[tuple[tuple[str, ...], ...], bool]:
    """(name of each thread and its processor time, to the tick of the kernel's clock; do all of them sleep?)."""
    times, asleep = [], True
    with contextlib.suppress(OSError):
        for task in sorted(os.listdir(f"/proc/{pid}/task")):
            with open(f"/proc/{pid}/task/{task}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
            asleep = asleep and fields[0] == "S"
            times.append((task, fields[11], fields[12]))
    return tuple(times), asleep and bool(times)


@dataclass
class Hunt:
    """Runs of one program, of which the first that fails becomes the demo."""

    request: record.Request
    demo: Path
    until: Until
    runs: int = 0
    drawn: str = ""
    """What repeats the newest run, as --seed takes it; empty where nothing was drawn."""
    _steps: list[int] = field(default_factory=list)
    """Operations of each run so far, least first."""
    interrupted: bool = False
    limit: float = 0.0
    """Seconds that a run may take, after which it is ended; 0: as long as it likes."""
    late: bool = False
    """Whether a run was ended for that."""
    input: str = os.devnull
    beside: Beside = lambda: contextlib.nullcontext(lambda pid: 0)

    def attempts(self, most: int) -> Iterator[tuple[int, int]]:
        """(number of the run, seed or 0), in front of each run that `attempt` is to make."""
        first = int(self.request.profile.values["seed"].value) or 1
        seeds = schema.keys()["seed"].knob[0].max
        for number in range(most):
            if self.interrupted:
                return
            self.runs = number + 1
            seeded = self.request.profile.values["order"].value in SEEDED
            yield self.runs, (1 + (first + number - 1) % seeds if seeded else 0)

    def profile(self, seed: int) -> Profile:
        """The profile of the run with this seed. INVARIANT(points-in-the-run): change points are drawn among as many
        operations as the program makes, as far as earlier runs have shown: half of them made more, half fewer. One that
        turned in a circle for a while says nothing about the others."""
        profile = self.request.profile
        values = dict(profile.values)
        if seed:
            values["seed"] = Value(seed, "--runs")
        if self._steps and values["order"].value == "pct" and values["pct.steps"].origin == "default":
            most = schema.keys()["pct.steps"].knob[0].max
            values["pct.steps"] = Value(min(self._steps[len(self._steps) // 2], most), "--runs")
        return profile._replace(values=values)

    def attempt(self, seed: int) -> tuple[str, Run, Summary | None]:
        """Make one run; (why it failed, how it went, what the demo holds), without a demo where it did not.

        INVARIANT(busy-is-no-failure): that the machine has no process to give says nothing about the program, and one
        moment of it must not cost the hours before; a run that has not begun is begun again, for half a minute."""
        for pause in _PAUSES:
            with contextlib.suppress(spawn.Busy):
                return self._attempt(seed)
            time.sleep(pause)
            if self.interrupted:
                break
        return self._attempt(seed)

    def _attempt(self, seed: int) -> tuple[str, Run, Summary | None]:
        request = self.request._replace(profile=self.profile(seed))
        self.drawn = request.profile.seed
        recording = record.Recording(request, record.recording_of(self.demo))
        try:
            with open(self.input, "rb") as given, _pipe() as (ours, theirs):
                run = self._run(recording, given.fileno(), ours, theirs)
            ended = self.interrupted or self.late  # by us, maybe before it had begun
            if recording.panic and recording.panic.refused and not ended:
                raise errors.refusal(recording.panic)
            if not ended:
                recording.check_started(run.status)
            why = self.until.why(run)
            if recording.panic or recording.closed:
                why = why or "the recording ended early"
        except BaseException:
            recording.remove()
            raise
        if not ended and recording.page.c.steps:
            bisect.insort(self._steps, int(recording.page.c.steps))
        if not why or ended:
            recording.remove()
            return "", run, None
        summary = recording.pack(self.demo)
        recording.remove()
        return why, run, summary

    def _run(self, recording: record.Recording, given: int, ours: int, theirs: int) -> Run:
        with terminal_signals(recording.signalled, self._hear) as wake:
            recording.inherit_signals()
            recording.start(stdio=(given, theirs, theirs))
            for number in recording.early:
                recording.hand_on(number)
            try:
                with self.beside() as beside:
                    output, hung, status = self._await(recording, wake, ours, beside)
            except BaseException:
                with contextlib.suppress(ChildProcessError):
                    recording.hand_on(signal.SIGKILL)
                    os.waitpid(recording.pid, 0)
                raise
        shown = recording.end(status)
        ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        return Run(shown, ended_by, hung, bytes(output))

    def _await(
        self, recording: record.Recording, wake: int, ours: int, beside: Callable[[int], int]
    ) -> tuple[bytearray, str, int]:
        output, hung, ending, still = bytearray(), "", 0.0, _Stillness()
        deadlock = Deadlock(recording, self.until.hang)
        began = time.monotonic()
        poll = select.poll()
        poll.register(wake, select.POLLIN)
        poll.register(ours, select.POLLIN)
        look = 0.001
        while True:
            for number, _ in poll.poll(look * 1000):
                if number == ours:
                    self._drain(ours, output, poll)
                    continue
                self._hear(wake)
            pid, status = os.waitpid(recording.pid, os.WNOHANG)
            if pid:
                self._hear(wake)  # the program may have died of what came to both of us a moment ago
                self._drain(ours, output, poll)
                return output, hung, status
            look = min(look * 2, _LOOK)
            recording.note_objects()
            if number := beside(recording.pid):
                recording.hand_on(number)
            if self.until.hang and not ending:
                hung = hung or deadlock.look()
            if 0 < self.until.idle <= still.seconds(recording) and not ending:
                hung = hung or f"nothing happened for {self.until.idle:g} seconds"
            self.late = self.late or 0 < self.limit < time.monotonic() - began
            if (hung or self.interrupted or self.late) and not ending:
                ending = time.monotonic() + PATIENCE
                recording.hand_on(signal.SIGTERM)
            elif ending and time.monotonic() > ending:
                recording.hand_on(signal.SIGKILL)

    def _hear(self, wake: int) -> None:
        with contextlib.suppress(BlockingIOError):
            self.interrupted |= bool({*os.read(wake, 4096)} & {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})

    @staticmethod
    def _drain(ours: int, output: bytearray, poll: select.poll) -> None:
        with contextlib.suppress(BlockingIOError):
            while part := os.read(ours, 65536):
                output += part[: max(0, _MOST_OUTPUT - len(output))]
            with contextlib.suppress(KeyError):
                poll.unregister(ours)


@contextlib.contextmanager
def _pipe() -> Iterator[tuple[int, int]]:
    """What the program prints comes here; children that outlive it may hold the other end."""
    ours, theirs = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(ours, False)
    try:
        yield ours, theirs
    finally:
        os.close(ours)
        os.close(theirs)
