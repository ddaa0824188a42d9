"""The merge: threads' streams become one order by stamp, however the bytes are handed over and the steps are cut."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gdbrr.abi import ffi, lib

U64 = (1 << 64) - 1


def stream(stamps: list[int], base: int = 0) -> bytes:
    """Events that hold nothing but their stamps."""
    raw, last, out = b"", ffi.new("uint64_t *", base), ffi.new("uint8_t[]", lib.GR_EVENT_MAX_HEAD)
    for stamp in stamps:
        event = ffi.new("struct gr_event *", {"kind": 1, "stamp": stamp})
        raw += bytes(ffi.buffer(out, lib.gr_event_encode(out, event, last)))
    return raw


class Merge:
    """A merge in Python's terms: step() returns the state, `order` collects the thread of each tick."""

    def __init__(self, threads: int, room: int = 64) -> None:
        self.m = ffi.gc(lib.gr_merge_new(threads), lib.gr_merge_free)
        self.room = room
        self.runs = ffi.new("struct gr_run[]", room)
        self.count, self.ticks, self.bytes = ffi.new("size_t *"), ffi.new("uint64_t *"), ffi.new("uint64_t *")
        self.keep: list[Any] = []
        self.order: list[int] = []

    def feed(self, thread: int, raw: bytes, base: int = 0) -> None:
        self.keep.append(ffi.from_buffer(raw))
        lib.gr_merge_feed(self.m, thread, self.keep[-1], len(raw), base)

    def step(self, max_ticks: int = U64, max_bytes: int = U64) -> int:
        where = (self.runs, self.room, self.count, self.ticks, max_ticks, self.bytes, max_bytes)
        return int(lib.gr_merge_step(self.m, *where))

    def flush(self) -> None:
        for i in range(self.count[0]):
            self.order += [self.runs[i].thread] * self.runs[i].count
        self.count[0] = 0

    def needs(self) -> int:
        return int(lib.gr_merge_needs(self.m))


@given(st.integers(0, 1 << 32), st.integers(1, 9), st.integers(0, 200), st.integers(1, 7), st.integers(1, 20))
def test_any_cut_gives_the_order_of_the_stamps(seed: int, threads: int, n: int, room: int, piece: int) -> None:
    rng = random.Random(seed)
    owner = [rng.randrange(threads) for _ in range(n)]
    stamps = sorted(rng.sample(range(1, 3 * n + 2), n))
    queues: list[list[tuple[int, bytes]]] = []
    for thread in range(threads):
        own = [stamp for stamp, t in zip(stamps, owner, strict=True) if t == thread]
        parts = [own[i : i + piece] for i in range(0, len(own), piece)]
        bases = [0, *(part[-1] for part in parts)]
        queues.append([(base, stream(part, base)) for base, part in zip(bases, parts, strict=False)])
    merge = Merge(threads, room)
    while (state := merge.step(merge.ticks[0] + rng.randrange(1, 9), merge.bytes[0] + rng.randrange(1, 99))) != (
        lib.GR_MERGE_DONE
    ):
        if state == lib.GR_MERGE_NEED:
            queue = queues[merge.needs()]
            base, raw = queue.pop(0) if queue else (0, b"")
            merge.feed(merge.needs(), raw, base)
        elif state == lib.GR_MERGE_ROOM or rng.random() < 0.5:
            merge.flush()
    merge.flush()
    assert merge.order == owner and merge.ticks[0] == n
    positions = ffi.new("uint64_t[]", threads)
    lib.gr_merge_positions(merge.m, positions)
    assert list(positions) == [owner.count(t) for t in range(threads)]


def test_limits_are_exact_in_ticks_and_just_passed_in_bytes() -> None:
    merge = Merge(1)
    merge.feed(0, stream([1, 2, 3, 4, 5]))
    assert (merge.step(max_ticks=2), merge.ticks[0]) == (lib.GR_MERGE_LIMIT, 2)
    assert (merge.step(max_bytes=7), merge.bytes[0]) == (lib.GR_MERGE_LIMIT, 9)
    assert merge.count[0] == 1 and merge.runs[0].count == 3


def test_a_run_is_not_begun_without_room() -> None:
    merge = Merge(2, room=1)
    merge.feed(0, stream([1, 2, 4]))
    merge.feed(1, stream([3]))
    assert merge.step() == lib.GR_MERGE_ROOM
    merge.flush()
    assert merge.order == [0, 0]


def test_equal_stamps_go_by_thread() -> None:
    merge = Merge(3)
    for thread in range(3):
        merge.feed(thread, stream([7]))
    while merge.step() == lib.GR_MERGE_NEED:
        merge.feed(merge.needs(), b"")
    merge.flush()
    assert merge.order == [0, 1, 2]


def test_stamps_that_go_back_are_bad() -> None:
    merge = Merge(1)
    merge.feed(0, stream([5]))
    assert merge.step() == lib.GR_MERGE_NEED
    merge.feed(0, stream([9], 3), base=3)
    assert (merge.step(), merge.needs(), merge.ticks[0]) == (lib.GR_MERGE_BAD, 0, 1)


def test_an_invalid_event_is_bad_and_stays_so() -> None:
    merge = Merge(1)
    merge.feed(0, stream([5]) + b"\0\0\0")
    assert (merge.step(), merge.ticks[0]) == (lib.GR_MERGE_BAD, 1)
    merge.feed(0, stream([9], 5), base=5)
    assert merge.step() == lib.GR_MERGE_BAD


def test_only_the_thread_that_is_needed_is_fed() -> None:
    merge = Merge(2)
    assert merge.needs() == 0
    merge.feed(1, stream([1]))
    merge.feed(0, stream([2]))
    assert (merge.step(), merge.needs(), merge.ticks[0]) == (lib.GR_MERGE_NEED, 1, 0)


@given(st.integers(1, 7), st.integers(1, 4))
def test_a_run_counts_for_its_operations_and_can_be_cut(step: int, room: int) -> None:
    def run(delta: int, count: int, last: int) -> bytes:
        event = ffi.new("struct gr_event *", {"kind": lib.GR_OP_RUN, "stamp": last + delta, "object": count})
        out = ffi.new("uint8_t[]", lib.GR_EVENT_MAX_HEAD)
        return bytes(ffi.buffer(out, lib.gr_event_encode(out, event, ffi.new("uint64_t *", last))))

    merge = Merge(2, room)
    streams = [stream([1]) + run(0, 5, 1) + stream([9], 1), run(4, 3, 0) + run(4, 2, 4)]
    while True:
        state = merge.step(merge.ticks[0] + step)
        merge.flush()
        if state == lib.GR_MERGE_DONE:
            break
        if state == lib.GR_MERGE_NEED:
            thread = merge.needs()
            merge.feed(thread, streams[thread])
            streams[thread] = b""
    assert merge.order == [0] * 6 + [1] * 5 + [0]
    positions = ffi.new("uint64_t[]", 2)
    lib.gr_merge_positions(merge.m, positions)
    assert list(positions) == [7, 5] and merge.ticks[0] == 12


def marked(rows: list[tuple[int, int]], base: int = 0) -> bytes:
    """Events of these (kind, stamp)."""
    raw, last, out = b"", ffi.new("uint64_t *", base), ffi.new("uint8_t[]", lib.GR_EVENT_MAX_HEAD)
    for kind, stamp in rows:
        event = ffi.new("struct gr_event *", {"kind": kind, "stamp": stamp})
        raw += bytes(ffi.buffer(out, lib.gr_event_encode(out, event, last)))
    return raw


def merged(streams: list[bytes], late: bool = False) -> list[int]:
    merge = Merge(len(streams))
    if late:
        lib.gr_merge_late(merge.m)
    while (state := merge.step()) != lib.GR_MERGE_DONE:
        assert state == lib.GR_MERGE_NEED
        thread = merge.needs()
        merge.feed(thread, streams[thread])
        streams[thread] = b""
    merge.flush()
    return merge.order


def test_a_mark_comes_right_in_front_of_what_its_thread_does_next() -> None:
    waits, other = lib.GR_OP_BLOCK, 1

    def streams() -> list[bytes]:
        return [marked([(waits, 1), (waits, 3), (other, 8), (waits, 9)]), marked([(other, s) for s in (2, 5, 7, 10)])]

    assert merged(streams()) == [0, 1, 0, 1, 1, 0, 0, 1]
    assert merged(streams(), late=True) == [1, 1, 1, 0, 0, 0, 0, 1]  # the last one has nothing behind it


def test_of_equal_stamps_the_thread_goes_on_that_had_the_turn() -> None:
    assert merged([stream([1, 4]), stream([2, 4])]) == [0, 1, 1, 0]
