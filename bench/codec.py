"""Events a second: encoding, decoding, merging and packing, each on one core.

    make bench, or .venv/bin/python bench/codec.py

Runs in: a command of its own. May call: gdbrr.abi, gdbrr.demo. Prints; judges nothing.
Owns: nothing.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from fuzz.recordings import Op, make_recording  # noqa: E402
from gdbrr.abi import ffi, lib  # noqa: E402
from gdbrr.demo.pack import pack  # noqa: E402
from gdbrr.demo.reader import Demo  # noqa: E402

BATCH = 4096
TOTAL = 4_000_000
ALL = (1 << 64) - 1


def best(action: Callable[[], Any], times: int = 3) -> float:
    """Seconds of the fastest run: other load only adds."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        action()
        found.append(time.perf_counter() - start)
    return min(found)


def say(what: str, events: int, seconds: float, note: str = "") -> None:
    line = f"{what:<34} {events / seconds / 1e6:8.1f} M events/s  {seconds / events * 1e9:8.1f} ns each  {note}"
    print(line.rstrip())


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


def codec() -> None:
    stamp, used = ffi.new("uint64_t *"), ffi.new("size_t *")
    for name in ("locks", "calls", "calls with 64 bytes"):
        rows, _keep = shape(name, random.Random(1))
        room = BATCH * (lib.GR_EVENT_MAX_HEAD + 64)
        out, again = ffi.new("uint8_t[]", room), ffi.new("struct gr_event[]", BATCH)

        def encode(rows: Any = rows, out: Any = out, room: int = room) -> None:
            for _ in range(TOTAL // BATCH):
                stamp[0] = 0
                lib.gr_batch_encode(out, room, rows, BATCH, stamp, used)

        def decode(out: Any = out, again: Any = again) -> None:
            size = used[0]
            for _ in range(TOTAL // BATCH):
                stamp[0] = 0
                lib.gr_batch_decode(out, size, again, BATCH, ALL, stamp, used)

        events = TOTAL // BATCH * BATCH
        say(f"encode {name}", events, best(encode), f"{used[0] / BATCH:.1f} bytes each")
        say(f"decode {name}", events, best(decode))


def merge(threads: int, turn: int) -> None:
    """`threads` streams whose operations alternate every `turn` operations."""
    each = TOTAL // 4 // threads
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

    say(f"merge {threads} threads, runs of {turn}", each * threads, best(go))


def files() -> None:
    rng = random.Random(2)
    ops = [Op(rng.randrange(4), lib.GR_OP_MUTEX_LOCK, object=64 * rng.randrange(8)) for _ in range(200_000)]
    with tempfile.TemporaryDirectory(prefix="gdbrr-bench-") as scratch:
        where = Path(scratch)
        make_recording(where / "rec", ops)
        say("pack a recording", len(ops), best(lambda: pack(where / "rec", where / "x.demo", keep=True)))
        size = (where / "x.demo").stat().st_size
        with Demo.open(where / "x.demo") as demo:
            raw = demo.stream_bytes
            say("walk a demo in Python", len(ops), best(lambda: sum(1 for _ in demo.events())))
        print(f"{'size of that demo':<34} {size / len(ops):8.2f} bytes an event, {raw / size:.1f} times smaller")


if __name__ == "__main__":
    codec()
    for threads, turn in ((2, 1), (2, 50), (64, 1), (64, 50)):
        merge(threads, turn)
    files()
