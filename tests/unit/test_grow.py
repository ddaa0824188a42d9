"""A demo and an image that grow with their recording: what is in them at each time, and how far a replay may go."""

from __future__ import annotations

import errno
import os
import random
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzz.recordings import Log, Op, finish_recording, random_ops
from gdbrr.abi import Ctl, ffi, lib, map_ctl
from gdbrr.demo.grow import Growth, Unfollowable
from gdbrr.demo.image import GrowingImage, write_image
from gdbrr.demo.pack import manifest_of, pack
from gdbrr.demo.reader import Demo
from gdbrr.errors import GdbrrError

LIMIT = 4 << 20
START, END, EXIT = lib.GR_OP_SYS_START, lib.GR_OP_SYS_END, lib.GR_OP_EXIT
READ, CLONE, MMAP = 0 + 1, 56 + 1, 9 + 1


class Growing:
    """A recording to which operations are added, and what follows it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        (place / "rec").mkdir()
        self.log = Log(place / "rec" / "log")
        self.log.take(1)  # taken by somebody who has not come to write its header
        self.log.save()
        finish_recording(place / "rec", self.log)
        self.ctl: Ctl = map_ctl(place / "rec" / "ctl")
        self.ctl.c.knob[lib.GR_KNOB_epoch_ticks] = 50
        self.fd = os.open(place / "image", os.O_RDWR | os.O_CREAT)
        self.image = GrowingImage(self.fd, LIMIT)
        self.demo = place / "x.demo"
        self.growth = Growth(place / "rec", self.ctl, self.demo, manifest_of(place / "rec", self.ctl), self.image)

    def add(self, *ops: Op, stamp: int | None = None) -> None:
        for op in ops:
            self.log.append(op, stamp)
        self.log.save()
        self.ctl.c.units, self.ctl.c.clock = self.log.units, self.log.clock

    def limit(self, *ops: Op) -> int:
        """How far a replay may go behind these."""
        self.add(*ops)
        self.growth.grow()
        return self.growth.limit

    def pieces(self) -> tuple[list[bytes], list[tuple[int, int]]]:
        """What a process sees in the image: streams, and the order joined."""
        head = ffi.new("struct gr_image *")
        ffi.buffer(head)[:] = os.pread(self.fd, ffi.sizeof("struct gr_image"), 0)
        return seen(self.fd, head)

    def close(self) -> None:
        self.growth.close()
        self.ctl.close()
        os.close(self.fd)


def seen(fd: int, head: object) -> tuple[list[bytes], list[tuple[int, int]]]:
    rows = ffi.new("struct gr_stream[]", head.threads)  # type: ignore[attr-defined]
    ffi.buffer(rows)[:] = os.pread(fd, ffi.sizeof(rows), head.streams_off)  # type: ignore[attr-defined]
    runs = ffi.new("struct gr_run[]", head.runs)  # type: ignore[attr-defined]
    ffi.buffer(runs)[:] = os.pread(fd, ffi.sizeof(runs), head.runs_off)  # type: ignore[attr-defined]
    joined: list[tuple[int, int]] = []
    for run in runs:
        if joined and joined[-1][0] == run.thread:
            joined[-1] = run.thread, joined[-1][1] + run.count
        else:
            joined.append((run.thread, run.count))
    return [os.pread(fd, row.len, row.off) for row in rows], joined


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[Growing]:
    made = Growing(tmp_path)
    yield made
    made.close()


def whole(growing: Growing) -> tuple[list[object], list[int], list[bytes], list[tuple[int, int]]]:
    """Events, epochs and image of what was packed at once."""
    pack(growing.place / "rec", growing.place / "y.demo", keep=True)
    with Demo.open(growing.place / "y.demo") as demo:
        write_image(demo, growing.place / "whole")
        fd = os.open(growing.place / "whole", os.O_RDONLY)
        head = ffi.new("struct gr_image *")
        ffi.buffer(head)[:] = os.pread(fd, ffi.sizeof("struct gr_image"), 0)
        streams, runs = seen(fd, head)
        os.close(fd)
        return list(demo.events()), [epoch.start for epoch in demo.epochs], streams, runs


def test_it_is_the_same_as_if_it_was_packed_at_once(growing: Growing) -> None:
    rng = random.Random(4)
    ops = random_ops(rng, 4000, 6, data=300)
    while ops:
        count = rng.randrange(1, 700)
        growing.add(*ops[:count])
        del ops[:count]
        growing.growth.grow()
        if rng.random() < 0.5:
            growing.growth.finish()
            events, epochs, streams, runs = whole(growing)
            with Demo.open(growing.demo) as demo:
                assert demo.damage is None
                assert list(demo.events()) == events
                assert [epoch.start for epoch in demo.epochs] == epochs
            assert growing.pieces() == (streams, runs)
    growing.growth.finish()
    assert growing.pieces()[0] == whole(growing)[2]


def test_behind_a_stamp_that_nobody_committed_it_goes_on_when_that_comes(growing: Growing) -> None:
    growing.add(*[Op(0), Op(1), Op(0)])
    growing.add(Op(1, object=7), stamp=5)
    growing.growth.grow()
    assert growing.pieces()[1] == [(0, 1), (1, 1), (0, 1)]
    growing.growth.finish()
    with Demo.open(growing.demo) as demo:  # WHERE the program stands, nothing more will come of that thread
        assert [(event.thread, event.stamp) for event in demo.events()] == [(0, 1), (1, 2), (0, 3), (1, 5)]
    growing.add(Op(0, object=9), stamp=4)
    growing.add(Op(0), stamp=6)
    growing.growth.finish()
    with Demo.open(growing.demo) as demo:
        assert [event.stamp for event in demo.events()] == [1, 2, 3, 4, 5, 6]
    assert growing.pieces()[1] == [(0, 1), (1, 1), (0, 2), (1, 1), (0, 1)]


def test_what_a_thread_does_behind_its_newest_operation_is_not_known(growing: Growing) -> None:
    assert growing.limit(Op(0), Op(1), Op(0), Op(0)) == 1
    assert growing.limit(Op(1)) == 3
    assert growing.limit(Op(0), Op(0)) == 4


@pytest.mark.parametrize(
    "wait",
    [
        Op(1, START, nr=READ),
        Op(1, lib.GR_OP_COND_WAIT),
        Op(1, lib.GR_OP_BARRIER_ARRIVE),
        Op(1, lib.GR_OP_BLOCK, object=9, result=lib.GR_OP_JOIN),
        Op(1, EXIT),
    ],
)
def test_one_that_waits_holds_nobody_up(growing: Growing, wait: Op) -> None:
    assert growing.limit(Op(0), Op(1), wait, Op(0), Op(0), Op(0)) == 5


@pytest.mark.parametrize(
    "wait",
    [
        Op(1, START, nr=MMAP),
        Op(1, START, nr=READ, flags=lib.GR_ACT_NATIVE),
        Op(1, lib.GR_OP_BLOCK, object=9, result=lib.GR_OP_ONCE),
        Op(1, lib.GR_OP_BLOCK, object=9, result=lib.GR_OP_FUTEX_WAIT),
        Op(1, lib.GR_OP_YIELD),
    ],
)
def test_one_that_looks_ahead_does(growing: Growing, wait: Op) -> None:
    assert growing.limit(Op(0), Op(1), wait, Op(0), Op(0), Op(0)) in (1, 2)


def test_a_thread_is_made_when_its_first_operation_is_known(growing: Growing) -> None:
    made = Op(0, START, nr=CLONE, object=1)
    assert growing.limit(Op(0), made, Op(0, END, nr=CLONE, result=100), Op(0), Op(0)) == 1
    assert growing.limit(Op(1, lib.GR_OP_START), Op(1)) == 4


def test_a_wait_that_failed_was_none(growing: Growing) -> None:
    growing.limit(Op(0), Op(1), Op(1, lib.GR_OP_COND_WAIT), Op(0), Op(0))
    growing.add(Op(1, lib.GR_OP_COND_WOKEN, result=errno.EPERM))
    with pytest.raises(Unfollowable, match="condition"):
        growing.growth.grow()


def test_operations_that_are_only_counted_cannot_be_followed(growing: Growing) -> None:
    growing.add(Op(0), Op(0, lib.GR_OP_RUN, object=3, check=7))
    with pytest.raises(Unfollowable, match="counted"):
        growing.growth.grow()


def test_a_file_that_cannot_be_so_large_is_told(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, before[1]))
    try:
        with open(tmp_path / "image", "wb") as file, pytest.raises(GdbrrError, match=r"limits\.log"):
            GrowingImage(file.fileno(), 1 << 40)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
