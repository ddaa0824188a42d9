"""What can be learnt about a replay that did not keep to its demo: both call stacks, the demo's rows around it.

Runs in: commands outside GDB. May call: demo, ctl, launch.
Owns: which process is looked at for which side, and how long that may take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gdbrr.abi import lib
from gdbrr.ctl import threads
from gdbrr.errors import GdbrrError
from gdbrr.launch import own
from gdbrr.launch import replay as replays
from gdbrr.report import calls, causes, stacks
from gdbrr.report.stacks import Frame
from gdbrr.timeline.state import places

if TYPE_CHECKING:
    from gdbrr.demo.events import Event
    from gdbrr.demo.reader import Demo
    from gdbrr.launch.replay import Outcome, Replay

ROWS = 6
_LOOKED_AT = 200
_WORTH_AGAIN = 60.0
_MARGIN = 10.0


@dataclass
class Evidence:
    """One side is the process that stood there, the other one the demo, and a second replay up to where both agreed."""

    call: str = ""
    """The system call with its arguments that the program made there."""
    stack: Sequence[Frame] = ()
    """The program's, where it went another way."""
    opened: Sequence[str] = ()
    """Files it had open then."""
    rows: Sequence[Event] = ()
    """The thread's last operations in the demo, up to and with the one that the program did not do."""
    agreed: int | None = None
    """The thread's last tick that demo and program have in common."""
    agreed_stack: Sequence[Frame] = ()
    run: tuple[int, int] | None = None
    """The ticks around it that belong to the same thread in a row, first and last."""
    page: str = ""
    """What stands on the first page of memory that is not as in a digest of the recording."""
    notes: list[str] = field(default_factory=list)


def where(outcome: Outcome) -> tuple[int, int] | None:
    """(tick, thread) of the first thing that went wrong, where one is known."""
    if outcome.panic:
        return outcome.panic.tick, outcome.panic.thread
    if outcome.overdue:
        return outcome.overdue.tick, outcome.overdue.thread
    if outcome.soft:
        return outcome.soft.tick, outcome.soft.thread
    return None


class Collector:
    """Handed to a replay as its `inspect`: looks at the process that cannot go on, and at the demo behind it."""

    def __init__(self, demo: Demo, trust: bool) -> None:
        self._demo = demo
        self._trust = trust
        self._found = Evidence()

    def inspect(self, replay: Replay, outcome: Outcome) -> None:
        at = where(outcome)
        if at is None or not outcome.started:
            return
        self._found.opened = causes.opened_files(replay.pid)
        born = len(self._demo.threads) + 1
        try:
            if outcome.panic:
                self._found.page = places.of_recorded(replay.pid, born, outcome.panic)
            running = [thread for thread in threads.read(replay.pid, born) if thread.index == at[1]]
            if running and not running[0].in_engine:
                self._found.stack = self._lined(stacks.of_running(replay.pid, running[0].tid))
            else:
                self._found.stack = self._lined(stacks.of_thread(replay.pid, at[1], born))
                if running and outcome.panic and outcome.panic.got_nr:
                    self._found.call = calls.text(replay.pid, outcome.panic.got_nr - 1, running[0].regs)
        except GdbrrError as error:
            self._found.notes.append(error.message)

    def finish(self, outcome: Outcome) -> Evidence:
        """What the demo and a second replay add, once the process is gone."""
        found, at = self._found, where(outcome)
        if at is None or not self._demo.ticks:
            return found
        tick, thread = at
        found.rows = self._before(thread, tick + 1)
        found.run = self._run(tick)
        earlier = [row.tick for row in found.rows if row.tick < tick]
        found.agreed = earlier[-1] if earlier else None
        if outcome.soft and not outcome.panic and not outcome.overdue:
            found.stack = self._stack_at(tick, thread, outcome.seconds)
        elif found.agreed is not None and not outcome.overdue:
            found.agreed_stack = self._stack_at(found.agreed, thread, outcome.seconds)
        return found

    def _before(self, thread: int, stop: int) -> Sequence[Event]:
        """The newest operations of a thread in front of tick STOP, as many as are looked at for causes."""
        span = _LOOKED_AT
        while True:
            start = max(0, stop - span)
            rows = list(self._demo.events(thread, start, stop))
            if len(rows) >= _LOOKED_AT or start == 0:
                return rows[-_LOOKED_AT:]
            span *= 8

    def _run(self, tick: int) -> tuple[int, int] | None:
        if tick >= self._demo.ticks:
            return None
        at, runs, _ = self._demo.order(self._demo.order_block_of(tick))
        for count in runs[1::2]:
            if tick < at + count:
                return at, at + count - 1
            at += count
        return None

    def _lined(self, frames: Sequence[Frame]) -> Sequence[Frame]:
        return stacks.with_lines(frames) if own.made(self._demo) else frames

    def _stack_at(self, tick: int, thread: int, seconds: float) -> Sequence[Frame]:
        """Where the thread is at TICK, from another replay, which is only made where it does not take long."""
        if seconds > _WORTH_AGAIN:
            return ()
        try:
            with replays.standing_at(self._demo, tick, self._trust, seconds * 2 + _MARGIN) as replay:
                if replay is None or replay.slot.state != lib.GR_S_STANDING:
                    return ()
                return self._lined(stacks.of_thread(replay.pid, thread, len(self._demo.threads) + 1))
        except GdbrrError:
            return ()
