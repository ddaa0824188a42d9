"""All of a demo's time, as model.Timeline promises it.

Runs in: the server and scripts, in the thread that started it (its processes die with that thread).
May call: errors, demo, ctl, launch.
Owns: the skeleton, the checkpoints and every leaf of one demo; `close` leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from gdbrr.abi import lib
from gdbrr.ctl.control import Match, Soft
from gdbrr.demo.reader import Demo
from gdbrr.errors import GdbrrError
from gdbrr.launch import replay as replays
from gdbrr.timeline.calls import Calls, Signals
from gdbrr.timeline.checkpoints import Checkpoints
from gdbrr.timeline.clock import Clock
from gdbrr.timeline.history import History
from gdbrr.timeline.leaf import DemoLeaf
from gdbrr.timeline.model import Call, Epoch, Hit, Interrupted, Moment, Point, Progress, Sent, ThreadView, Turn, meant
from gdbrr.timeline.order import Order
from gdbrr.timeline.search import Search
from gdbrr.timeline.segment import Segments
from gdbrr.timeline.state.stops import Stopped
from gdbrr.timeline.step.code import USER
from gdbrr.timeline.step.found import named
from gdbrr.timeline.step.points import check_points
from gdbrr.timeline.worker import Desynchronised

Stop = tuple[int, dict[str, int]]
"""Where a recording that still goes on stands: thread index and registers."""


def open_demo(
    path: Path | str,
    *,
    trust: bool = False,
    stop: Stop | None = None,
    progress: Progress | None = None,
    ahead: bool = True,
    check: bool | None = None,
    like: int | None = None,
) -> DemoTimeline:
    """Open a demo for going back and forth in it. Its end is its last operation, or STOP, which the
    process LIKE stands at.

    Its replay runs ahead in the background and leaves checkpoints; without AHEAD it goes as far as it is asked for.
    With CHECK (default: what the demo's profile says) the states of its processes are compared wherever two come to
    one tick; a difference raises gdbrr.timeline.state.states.Differs.
    """
    demo = Demo.open(path)
    try:
        return DemoTimeline(demo, trust, stop, progress, ahead, check, like)
    except BaseException:
        demo.close()
        raise


def start_replay(
    demo: Demo, trust: bool = False, final_thread: int = 0, grows: tuple[int, int] | None = None
) -> replays.Replay:
    """The process that becomes a skeleton. It dies with this thread."""
    return replays.start(
        demo, flags=lib.GR_SLOT_HOLD_END, stop_tick=0, trust=trust, final_thread=final_thread, grows=grows
    )


def _saved_at(demo: Demo) -> tuple[int, Moment] | None:
    """Thread and moment of the stop at which the demo was saved; None where its last operation is its end."""
    stop = demo.manifest.get("stop")
    if stop is None or not 0 <= stop["thread"] < len(demo.threads):
        return None
    moment = Moment.parse(stop["moment"])
    return (stop["thread"], moment) if moment.tick == Order(demo).last_of(stop["thread"]) else None


def _filtered(points: Sequence[Point], thread: int | None, condition: bytes) -> list[Point]:
    result = [
        replace(
            point,
            thread=thread if point.thread is None else point.thread,
            condition=point.condition or condition,
        )
        for point in points
    ]
    check_points(result)
    return result


class Ground(NamedTuple):
    """A replay that was there before its timeline and stays behind it."""

    replay: replays.Replay
    checkpoints: Checkpoints
    stand: Callable[[Demo, int], None]
    """The timeline is of this demo, which ends in this thread."""
    go_on: Callable[[], None]
    """It is closed."""


class DemoTimeline:
    """Implements model.Timeline over the processes of one replay."""

    def __init__(
        self,
        demo: Demo,
        trust: bool = False,
        stop: Stop | None = None,
        progress: Progress | None = None,
        ahead: bool = True,
        check: bool | None = None,
        like: int | None = None,
        ground: Ground | None = None,
    ) -> None:
        self.demo = demo
        self._ground = ground
        self._leaves: set[DemoLeaf] = set()
        self.soft: Soft | None = None
        """Once settled: output that differs from the recorded one."""
        saved = None if stop or ground else _saved_at(demo)
        self._order = Order(demo, stop[0] if stop else saved[0] if saved else None)
        self._calls = Calls(demo, self._order)
        self._signals = Signals(demo, self._order)
        self._replay = replay = ground.replay if ground else start_replay(demo, trust, self._order.final_thread)
        try:
            if ground:
                self._checkpoints = ground.checkpoints
                ground.stand(demo, self._order.final_thread)
            else:
                if check is None:
                    check = bool(replay.profile.knobs()["check"])
                self._checkpoints = Checkpoints(demo, replay, self._order.final_thread, ahead, check)
            self._segments = Segments(self._checkpoints, self._order, len(demo.threads))
            self._search = Search(self._checkpoints, self._order, self._segments)
            self._history = History(self._checkpoints, self._order, self._segments, self._search)
            self._end = self.present(saved[1]) if saved else Moment(demo.ticks)
            self.stopped: Stopped | None = None
            """How the process stands at the end, if it is one that was stopped."""
            self.lost_end = False
            """Its end was not where it is said to be."""
            if stop:
                thread, regs = stop
                self.stopped = self._segments.stopped_at(thread, Match(regs, {}), progress, like)
                self._end = self.stopped.moment
        except BaseException:
            self.close()
            raise

    def settle(self, progress: Progress | None = None) -> Desynchronised | None:
        """Find out whether the end can be reached. Where the replay is desynchronised on the way, time ends there.

        INVARIANT(end-is-reachable): behind this no moment is offered that the replay cannot come to.
        """
        try:
            worker = self._checkpoints.worker_at(self._end.tick, progress)
            self.soft = self._checkpoints.soft or worker.slot.soft
            worker.drop()
            self._settle_end(progress)
        except Desynchronised as error:
            if error.tick >= self._end.tick:
                raise
            self._order.cut(error.tick)
            self._end = Moment(error.tick)
            return error
        return None

    def _settle_end(self, progress: Progress | None) -> None:
        """Whoever made the demo may have written any moment into it."""
        if self._end.pc is None or self._ground is not None:
            return
        try:
            self._segments.brought_to(self._end, progress).drop()
        except (Interrupted, Desynchronised):
            raise
        except GdbrrError:
            self.lost_end, self._end = True, Moment(self._order.ticks)

    def verify(self, progress: Progress | None = None) -> int:
        """Replay every stretch between two checkpoints once more and compare the states at its end; tells how many were
        equal, and raises state.states.Differs at the first one that is not. For timelines opened with `check`."""
        if self._checkpoints.states is None:
            raise GdbrrError("the states of this timeline are not kept", "open it with check=True")
        return self._checkpoints.verify(self._end.tick, self._search.at_once, progress)

    @property
    def digests(self) -> int:
        """States of the recording that the demo holds (`record --digest`): every process that passes one, the skeleton,
        a worker or a leaf, compares itself with it, checked or not."""
        if not self._checkpoints.knob("digest"):
            return 0
        return sum(event.kind == lib.GR_OP_DIGEST for event in self.demo.events(stop=self._end.tick, runs=True))

    @property
    def start(self) -> Moment:
        return Moment(0)

    @property
    def end(self) -> Moment:
        return self._end

    @property
    def epochs(self) -> Sequence[Epoch]:
        last = self._order.ticks
        rows = [row for row in self.demo.epochs if row.start < max(last, 1)]
        return [Epoch(row.index, row.start, min(row.end, last), row.bytes, row.time) for row in rows]

    def next_call(
        self, tick: int, numbers: frozenset[int], thread: int | None = None, progress: Progress | None = None
    ) -> Call | None:
        return self._calls.first(tick, numbers, thread, progress)

    def last_call(self, tick: int, numbers: frozenset[int], progress: Progress | None = None) -> Call | None:
        return self._calls.last(tick, numbers, progress)

    def next_signal(self, tick: int, passed: frozenset[int]) -> Sent | None:
        return self._signals.first(tick, passed)

    def last_signal(self, tick: int, passed: frozenset[int], thread: int | None = None) -> Sent | None:
        return self._signals.last(tick, passed, thread)

    def siginfo(self, tick: int) -> bytes:
        return self._signals.info(tick)

    def next_turn(self, tick: int, thread: int) -> Turn | None:
        other, last = self._order.other(thread, tick), self._order.last_of(thread)
        if other is None:
            return None
        ends = last is not None and tick <= last < other
        return Turn(last, thread) if ends and last is not None else Turn(other, self._order.thread_of(other))

    def threads_in(self, epoch: Epoch) -> int:
        return self._order.threads_in(epoch.start, epoch.end)

    def segment_of(self, thread: int, tick: int) -> int:
        unfinished = thread == self._order.final_thread and tick == self._order.last_of(thread)
        return self._order.ticks if unfinished else tick

    def waiting(self, thread: int, tick: int) -> Moment:
        if tick >= self._order.ticks and thread == self._order.final_thread:
            return Moment(self._order.ticks)
        found = self._order.next_of(thread, tick)
        if found is None:
            found = self._order.last_of(thread)
        return Moment(tick if found is None else found)

    def birth(self, thread: int) -> Moment:
        return Moment(self._order.first_of(thread))

    def seconds(self, tick: int) -> float | None:
        return Clock(self.demo, self._order.ticks).seconds(tick)

    def tick_at(self, seconds: float) -> int:
        return Clock(self.demo, self._order.ticks).tick_at(seconds)

    @property
    def started(self) -> float | None:
        started = self.demo.manifest.get("started")
        return None if started is None else float(started)

    @property
    def checkpoints(self) -> Sequence[int]:
        """The ticks that have a checkpoint now."""
        return self._checkpoints.ticks

    def seek(self, moment: Moment, progress: Progress | None = None) -> DemoLeaf:
        moment = self._checked(moment)
        worker = self._checkpoints.with_room(lambda: self._segments.brought_to(moment, progress))
        order = self._order
        last = None if order.ticks == self.demo.ticks else order.ticks
        threads = order.thread_of(moment.tick), order.final_thread
        leaf = DemoLeaf(worker, moment, threads, len(self.demo.threads), self._leaves.discard, last)
        self._leaves.add(leaf)
        return leaf

    def last_hit(
        self,
        points: Sequence[Point],
        before: Moment | None = None,
        progress: Progress | None = None,
        *,
        thread: int | None = None,
        condition: bytes = b"",
        count: int = 1,
    ) -> Hit | None:
        """The COUNT-th last hit of any of POINTS before BEFORE (the end); None if there are not so many.

        THREAD and CONDITION hold for the points that have none of their own.
        """
        points = _filtered(points, thread, condition)
        if not points or count < 1:
            return None
        return self._search.last_hit(points, self._checked(before or self._end), progress, count)

    def first_hit(self, points: Sequence[Point], after: Moment, progress: Progress | None = None) -> Hit | None:
        check_points(points)
        found = self._search.first_hit(points, self._checked(after), self._end, progress)
        # There may be more of it, in other runs and in what is still to come of a repeated instruction.
        return found and replace(named(found, Moment(found.hit.tick)), old=found.hit.old, new=found.hit.new)

    def all_hits(
        self,
        points: Sequence[Point],
        *,
        after: Moment | None = None,
        before: Moment | None = None,
        thread: int | None = None,
        condition: bytes = b"",
        exact: bool = True,
        progress: Progress | None = None,
    ) -> list[Hit]:
        """Every hit of any of POINTS from AFTER (the start) up to BEFORE (the end), oldest first.

        Finding the very instruction of each takes about twice the time of finding the hits. Without EXACT the moment of
        a hit is the operation in whose segment it is, and its `pc` may be the instruction behind a store.
        """
        points = _filtered(points, thread, condition)
        if not points:
            return []
        return self._history.all_hits(
            points, self._checked(after or self.start), self._checked(before or self._end), exact, progress
        )

    def ordered(self, moments: Sequence[Moment], progress: Progress | None = None) -> list[Moment]:
        """MOMENTS in order of time; those of one tick at different pcs are put in order by replaying its segment."""
        result: list[Moment] = []
        for tick in sorted({self.present(moment).tick for moment in moments}):
            here = [moment for moment in moments if self.present(moment).tick == tick]
            places = self._segments.places(tick, [self.present(moment) for moment in here], progress)
            result += [here[at] for at in sorted(range(len(here)), key=lambda at: places[at])]
        return result

    def _checked(self, moment: Moment) -> Moment:
        if moment.tick > self._order.ticks:
            raise GdbrrError(f"the moment {moment} is behind the end", f"the last one is {self.end}; try rr-goto end")
        if moment.pc is not None and not (moment.pc < USER and moment.nth):
            raise GdbrrError(f"the moment {moment} does not exist", "see rr-when for the form of a moment")
        return self.present(moment)

    def previous(self, moment: Moment, progress: Progress | None = None) -> Moment | None:
        return self._segments.previous(self.present(moment), progress)

    def behind_others(
        self,
        now: Moment,
        line: range,
        function: range | None,
        points: Sequence[Point],
        progress: Progress | None = None,
    ) -> tuple[Moment, int] | None:
        def last() -> Moment | None:
            hit = self.last_hit(points, now, progress) if points else None
            return hit.moment if hit else None

        return self._segments.behind_others(self.present(now), line, function, last, progress)

    @property
    def ending(self) -> Mapping[str, Any] | None:
        if self._end.pc is None:
            return None
        return {"thread": self._order.final_thread, "moment": str(self.lasting(self._end))}

    def lasting(self, moment: Moment) -> Moment:
        last = self._order.last_of(self._order.final_thread)
        if moment.pc is None or moment.tick < self._order.ticks or last is None:
            return moment
        return replace(moment, tick=last)

    def present(self, moment: Moment) -> Moment:
        behind = moment.pc is not None and moment.tick == self._order.last_of(self._order.final_thread)
        return replace(moment, tick=self._order.ticks) if behind else moment

    @property
    def doubtful(self) -> bool:
        return self._segments.doubtful

    def locate(
        self,
        tick: int,
        thread: int,
        regs: dict[str, int],
        progress: Progress | None = None,
        *,
        like: int | None = None,
        views: Sequence[ThreadView] = (),
    ) -> Moment:
        tick = self.segment_of(thread, tick)
        since = next((leaf.moment for leaf in self._leaves if leaf.pid == like), None)
        return self._segments.locate(tick, thread, Match(regs, meant(regs, views)), progress, like, since)

    def close(self) -> None:
        for leaf in list(self._leaves):
            leaf.drop()
        if self._ground:
            self._ground.go_on()
        else:
            if hasattr(self, "_checkpoints"):
                self._checkpoints.close()
            self._replay.close()
        self.demo.close()

    def __enter__(self) -> DemoTimeline:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
