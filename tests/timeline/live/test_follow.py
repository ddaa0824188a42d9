"""A replay follows a recording: whatever part of it is known, it stands where a replay of the whole one would."""

from __future__ import annotations

import os
import random
import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from gdbrr.abi import ffi, lib
from gdbrr.config import profiles
from gdbrr.demo import grow
from gdbrr.demo.grow import Growth
from gdbrr.demo.image import GrowingImage
from gdbrr.demo.log import Chunk, Log
from gdbrr.demo.reader import Demo
from gdbrr.launch import live, replay, scratch
from gdbrr.sessions import RecordedProcess
from gdbrr.timeline.live.checkpoints import FollowingCheckpoints
from gdbrr.timeline.model import Moment
from gdbrr.timeline.timeline import DemoTimeline, Ground, open_demo, start_replay
from harness import programs

from ..conftest import children

CUTS = 10


class Partly(Log):
    """A log as it was when the newest stamp was `upto`, or, as threads are looked at one by one, a little later."""

    upto = 0
    later = random.Random(0)
    holder: Callable[[int], int] | None = None
    """The program stands, and the thread whose operation this tick is has taken its stamp and not written it."""

    def look(self, units: int) -> None:
        self._chunks, self._seen, self._empty = {}, 0, []
        super().look(units)
        known: dict[int, int] = self.__dict__.setdefault("until", {})
        top = max([self.upto, *known.values()]) + 1
        for thread in self._chunks:
            later = self.later.choice((0, 0, 1, 5, 50))
            known[thread] = top if self.holder else max(self.upto, known.get(thread, 0)) + later
        if self.holder:
            known[self.holder(top - 1)] = top - 1
        self._chunks = {thread: list(self._cut(chunks, known[thread])) for thread, chunks in self._chunks.items()}

    def _cut(self, chunks: list[Chunk], until: int) -> Iterator[Chunk]:
        event = ffi.new("struct gr_event *")
        for chunk in chunks:
            raw, at, last = os.pread(self._fd, chunk.used, chunk.offset), 0, ffi.new("uint64_t *", chunk.base)
            while took := lib.gr_event_decode(ffi.from_buffer(raw)[at : len(raw)], len(raw) - at, event, last):
                if event.stamp > until:
                    break
                at += took
            if at:
                yield chunk._replace(used=at)
            if at < len(raw):
                return


@contextmanager
def recorded(place: Path, *words: str, settings: tuple[str, ...] = ()) -> Iterator[live.LiveRecording]:
    """A program that was recorded as under a debugger, up to its end."""
    with open(place / "out", "wb") as out, open(os.devnull, "rb") as nothing:
        stdio = (nothing.fileno(), out.fileno(), out.fileno())
        started = live.start(words, profiles.resolve("default", None, list(settings)), str(place), stdio=stdio)
    try:
        os.kill(started.pid, signal.SIGCONT)
        watched = os.pidfd_open(started.pid)
        poll = select.poll()
        poll.register(watched, select.POLLIN)
        assert poll.poll(60_000)
        os.close(watched)
        assert started.poll() is not None
        yield started
    finally:
        started.close()
    assert not children()


def compared(differences: Iterator[str]) -> list[str]:
    """Less where a thread is shown that waits, and in whose wait a handler runs later: when that is known, it is shown
    as the handler will find it."""
    return [text for text in differences if ": rip is" not in text]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("program", "settings"),
    [
        ("rounds", ()),
        ("rounds", ("order=serial",)),
        ("rounds", ("order=random", "seed=3")),
        ("matrix", ()),
        ("signal_within", ()),
        ("sync_churn", ()),
        ("sync_once", ()),
        ("sync_cancel_wait", ()),
        ("preempt", ("order=serial",)),
        ("libc_stream", ()),
    ],
)
def test_each_part_is_replayed_as_in_the_whole(
    program: str, settings: tuple[str, ...], seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = Partly.later = random.Random(seed)
    monkeypatch.setattr(grow, "Log", Partly)
    with ExitStack() as stack:
        words = [str(programs.build(program)), *(("3", "0", "alarms") if program == "rounds" else ())]
        recording = stack.enter_context(recorded(tmp_path, *words, settings=settings))
        whole = stack.enter_context(open_demo(recording.snapshot(), trust=True))
        ticks = whole.demo.ticks
        fd = stack.enter_context(scratch.file())
        image, path = GrowingImage(fd, int(recording.page.c.data_size)), tmp_path / "growing.demo"
        growth = Growth(recording.directory, recording.page, path, recording.manifest(), image)
        stack.callback(growth.close)
        checkpoints: FollowingCheckpoints | None = None
        for cut in sorted(rng.sample(range(8, ticks), min(CUTS, ticks - 8))):
            Partly.upto = cut
            recording.page.c.clock += 1  # by which one sees that there is more
            if checkpoints is None:
                growth.finish()
                replayed = start_replay(stack.enter_context(Demo.open(path)), trust=True, grows=(fd, image.bytes))
                stack.callback(replayed.close)
                checkpoints = FollowingCheckpoints(Demo.open(path), replayed, 0)
                stack.callback(checkpoints.close)
            ground = Ground(replayed, checkpoints, checkpoints.stand, checkpoints.go_on)
            if rng.random() < 0.4:
                Partly.holder = whole._order.thread_of
                growth.finish()
                Partly.holder = None
                checkpoints.follow([*growth.starts(), growth.limit])
                with DemoTimeline(Demo.open(path), ground=ground) as timeline:
                    timeline.seek(timeline.end)
            recording.page.c.clock += 1
            growth.grow()
            checkpoints.follow([*growth.starts(), growth.limit, growth.limit])  # an epoch may begin at the limit
            checkpoints.reach(growth.limit)
            assert len(set(checkpoints.ticks)) == len(checkpoints.ticks)
            leaf = whole.seek(Moment(growth.limit))
            worker = checkpoints.worker_at(growth.limit)
            assert not compared(worker.digest().differences(leaf.digest())), f"tick {growth.limit}, cut at {cut}"
            worker.drop()
            leaf.drop()
        assert checkpoints is not None
        Partly.upto = 1 << 60
        growth.finish()
        checkpoints.follow([*growth.starts(), growth.limit])
        ground = Ground(replayed, checkpoints, checkpoints.stand, checkpoints.go_on)
        with DemoTimeline(Demo.open(path), ground=ground) as timeline:
            assert timeline.demo.ticks == ticks
            for tick in (ticks, *rng.sample(range(1, ticks), 4)):
                one, other = timeline.seek(Moment(tick)), whole.seek(Moment(tick))
                assert not compared(one.digest().differences(other.digest())), f"tick {tick}"
                one.drop()
                other.drop()


class Stopping:
    """`rounds` under a server, stopped after some of its rounds."""

    def __init__(self, place: Path, *settings: str) -> None:
        terminal, side = os.openpty()
        words = [str(programs.build("rounds")), "1000", "0", "alarms"]
        profile = profiles.resolve("default", None, ["epochs.ticks=64", *settings])
        self.recording = live.start(words, profile, str(place), stdio=(side, side, side))
        self.process = RecordedProcess(self.recording, terminal, os.ttyname(side), None)
        os.close(side)
        self._terminal = terminal
        self._seen = b""

    def __iter__(self) -> Iterator[DemoTimeline]:
        """What there is of it each time."""
        for number in range(4):
            os.kill(self.recording.pid, signal.SIGCONT)
            while self._seen.count(b":") < 2 * number + 1:
                self._seen += os.read(self._terminal, 1000)
            os.kill(self.recording.pid, signal.SIGSTOP)
            assert os.WIFSTOPPED(os.waitpid(self.recording.pid, os.WUNTRACED)[1])
            timeline = self.process.timeline_finished()
            assert isinstance(timeline, DemoTimeline)
            yield timeline
            timeline.close()


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Processes in which a replay began at its beginning."""
    real, pids = replay.start, []

    def start(*args: Any, **kwargs: Any) -> replay.Replay:
        started = real(*args, **kwargs)
        pids.append(started.pid)
        return started

    monkeypatch.setattr(replay, "start", start)
    return pids


def test_all_stops_share_one_replay_and_its_checkpoints(tmp_path: Path, starts: list[int]) -> None:
    stopping, kept = Stopping(tmp_path), set()
    try:
        for number, timeline in enumerate(stopping):
            leaf = timeline.seek(timeline.end)
            assert leaf.ended
            assert len(starts) == 1
            assert not number or kept & {checkpoint.pid for checkpoint in timeline._checkpoints._kept}
            kept = {checkpoint.pid for checkpoint in timeline._checkpoints._kept}
            with open_demo(stopping.recording.snapshot(), trust=True) as whole:
                assert whole.demo.ticks == timeline.demo.ticks
                assert [epoch.start for epoch in whole.epochs] == [epoch.start for epoch in timeline.epochs]
                other = whole.seek(whole.end)
                assert not compared(leaf.digest().differences(other.digest()))
            starts.pop()
    finally:
        stopping.process.close()
    assert not children()


def test_without_it_each_stop_is_replayed_from_its_beginning(tmp_path: Path, starts: list[int]) -> None:
    stopping = Stopping(tmp_path, "follow=off")
    try:
        for number, timeline in enumerate(stopping):
            timeline.seek(timeline.end)
            assert len(starts) == number + 1
    finally:
        stopping.process.close()


def test_what_cannot_be_followed_is_replayed_from_its_beginning(
    tmp_path: Path, starts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def grow_not(self: Growth) -> None:
        raise grow.Unfollowable("something came that nobody had thought of")

    stopping = Stopping(tmp_path)
    try:
        for number, timeline in enumerate(stopping):
            leaf = timeline.seek(timeline.end)
            assert leaf.ended
            assert len(starts) == number + 1
            monkeypatch.setattr(Growth, "grow", grow_not)
            monkeypatch.setattr(Growth, "finish", grow_not)
    finally:
        stopping.process.close()
    assert not children()


def test_who_asks_while_it_is_taken_down_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """INVARIANT(told-then-ended)"""
    ending, asked = threading.Event(), threading.Event()
    close = FollowingCheckpoints.close

    def grow_not(self: Growth) -> None:
        raise grow.Unfollowable("something came that nobody had thought of")

    def slowly(self: FollowingCheckpoints) -> None:
        ending.set()
        asked.wait(60)
        close(self)

    monkeypatch.setattr(FollowingCheckpoints, "close", slowly)
    stopping = Stopping(tmp_path)
    try:
        next(iter(stopping)).close()
        following = stopping.process._following
        assert following and not following.failed
        monkeypatch.setattr(Growth, "grow", grow_not)
        assert ending.wait(60)
        try:
            with pytest.raises(grow.Unfollowable, match="nobody had thought of"):
                following.timeline().close()
        finally:
            asked.set()
    finally:
        stopping.process.close()
    assert not children()
