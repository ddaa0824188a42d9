"""Events a second: encoding, decoding, merging and packing, each on one core.

Runs in: python -m bench. May call: gdbrr.abi, gdbrr.demo.
Owns: nothing.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from bench.kit import ROOT, Bench, Row, only
from gdbrr.abi import ffi, lib
from gdbrr.demo.pack import pack
from gdbrr.demo.reader import Demo

sys.path.append(str(ROOT / "tests"))
from fuzz.recordings import Op, make_recording

BATCH = 4096
TABLE, SIZES = "codec: time an event", "codec: size"
ALL = (1 << 64) - 1


def timed(bench: Bench, what: str, events: int, action: Callable[[], Any]) -> Row:
    found = []
    for number in range(bench.rounds(3)):
        if number and bench.late():
            break
        bench.progress(what)
        start = time.perf_counter()
        action()
        found.append((time.perf_counter() - start) / events * 1e9)
    return Row(TABLE, what, "ns", {"one core": found})


def shape(name: str, rng: random.Random) -> tuple[Any, list[bytes]]:
    """A batch of events as a kind of program would make them."""
    rows = ffi.new("struct gr_event[]", BATCH)
    keep: list[Any] = []
    stamp = 0
    for row in rows:
        stamp += rng.randrange(1, 5)
        row.stamp = stamp
        if name == "locks":
            row.kind, row.object = lib.GR_OP_MUTEX_LOCK, 0x7FFFF7DD1000 + 64 * rng.randrange(8)
        else:
            row.kind, row.nr, row.object = lib.GR_OP_SYS_END, 1 + rng.randrange(300), rng.randrange(20)
            row.result, row.check = rng.randrange(-40, 4096), rng.randrange(1 << 32)
            if name == "calls with 64 bytes":
                keep.append(ffi.new("uint8_t[]", rng.randbytes(64)))
                row.data, row.len = keep[-1], 64
    return rows, keep


def codec(bench: Bench) -> Iterator[Row]:
    total = bench.scaled(4_000_000)
    stamp, used = ffi.new("uint64_t *"), ffi.new("size_t *")
    for name in ("locks", "calls", "calls with 64 bytes"):
        rows, _keep = shape(name, random.Random(1))
        room = BATCH * (lib.GR_EVENT_MAX_HEAD + 64)
        out, again = ffi.new("uint8_t[]", room), ffi.new("struct gr_event[]", BATCH)

        def encode(rows: Any = rows, out: Any = out, room: int = room) -> None:
            for _ in range(total // BATCH):
                stamp[0] = 0
                lib.gr_batch_encode(out, room, rows, BATCH, stamp, used)

        def decode(out: Any = out, again: Any = again) -> None:
            size = used[0]
            for _ in range(total // BATCH):
                stamp[0] = 0
                lib.gr_batch_decode(out, size, again, BATCH, ALL, stamp, used)

        events = total // BATCH * BATCH
        yield timed(bench, f"encode {name}", events, encode)
        yield Row(SIZES, name, "bytes an event", {"encoded": [used[0] / BATCH]})
        yield timed(bench, f"decode {name}", events, decode)


def merge(bench: Bench, threads: int, turn: int) -> Row:
    """`threads` streams whose operations alternate every `turn` operations."""
    each = bench.scaled(1_000_000) // threads
    streams = []
    for thread in range(threads):
        rows = ffi.new("struct gr_event[]", each)
        for i, row in enumerate(rows):
            row.stamp = 1 + (i // turn * threads + thread) * turn + i % turn
            row.kind, row.object = lib.GR_OP_MUTEX_LOCK, 64 + thread
        out, used = ffi.new("uint8_t[]", each * 16 + 64), ffi.new("size_t *")
        assert lib.gr_batch_encode(out, each * 16 + 64, rows, each, ffi.new("uint64_t *"), used) == each
        streams.append((out, used[0]))
    runs = ffi.new("struct gr_run[]", each * threads)

    def go() -> None:
        m = ffi.gc(lib.gr_merge_new(threads), lib.gr_merge_free)
        count, ticks, size = ffi.new("size_t *"), ffi.new("uint64_t *"), ffi.new("uint64_t *")
        fed: set[int] = set()
        while lib.gr_merge_step(m, runs, each * threads, count, ticks, ALL, size, ALL) == lib.GR_MERGE_NEED:
            thread = lib.gr_merge_needs(m)
            out, length = streams[thread]
            lib.gr_merge_feed(m, thread, out, 0 if thread in fed else length, 0)
            fed.add(thread)
        assert ticks[0] == each * threads

    return timed(bench, f"merge {threads} threads, runs of {turn}", each * threads, go)


def files(bench: Bench) -> Iterator[Row]:
    rng = random.Random(2)
    ops = [Op(rng.randrange(4), lib.GR_OP_MUTEX_LOCK, object=64 * rng.randrange(8)) for _ in range(100_000)]
    recording, packed = bench.scratch / "codec.recording", bench.scratch / "codec.demo"
    make_recording(recording, ops)
    yield timed(bench, "pack a recording", len(ops), lambda: pack(recording, packed, keep=True))
    size = packed.stat().st_size
    with Demo.open(packed) as demo:
        raw = demo.stream_bytes
        yield timed(bench, "walk a demo in Python", len(ops), lambda: sum(1 for _ in demo.events()))
    sizes = {"encoded": [raw / len(ops)], "in a demo": [size / len(ops)]}
    yield Row(SIZES, "locks of four threads", "bytes an event", sizes)


def rows(bench: Bench) -> Iterator[Row]:
    yield from codec(bench)
    for threads, turn in ((2, 1), (2, 50), (64, 1), (64, 50)):
        yield merge(bench, threads, turn)
    yield from files(bench)


if __name__ == "__main__":
    only(rows)
