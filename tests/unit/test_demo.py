"""Demo files: written, read, sought, unpacked; damaged ones up to the damage; other versions by the rule."""

from __future__ import annotations

import io
import os
import random
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.demos import HEAD, block, blocks, small_demo
from fuzz.recordings import make_recording, manifest, random_ops
from gdbrr.abi import ffi, lib
from gdbrr.demo import format as fmt
from gdbrr.demo.events import Event
from gdbrr.demo.format import BlockType
from gdbrr.demo.image import write_image, write_image_from_recording
from gdbrr.demo.manifest import serialise
from gdbrr.demo.pack import pack
from gdbrr.demo.reader import DamagedDemo, Demo
from gdbrr.demo.writer import Writer
from gdbrr.errors import GdbrrError


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A demo of three threads with several order and stream blocks."""
    where = tmp_path_factory.mktemp("sample")
    make_recording(where / "rec", random_ops(random.Random(11), 60_000, 3))
    pack(where / "rec", where / "sample.demo", keep=True)
    return where / "sample.demo"


@pytest.fixture(scope="module")
def events(sample: Path) -> list[Event]:
    with Demo.open(sample) as demo:
        return list(demo.events())


# ---------------------------------------------------------------- reading


def test_the_sample_has_what_the_tests_below_need(sample: Path, events: list[Event]) -> None:
    kinds = [b.type for _, b in blocks(sample.read_bytes())]
    assert kinds.count(BlockType.ORDER) >= 2 and kinds.count(BlockType.STREAM) >= 5
    assert kinds[0] == BlockType.MANIFEST and kinds[-3:] == [BlockType.EPOCHS, BlockType.END, BlockType.INDEX]
    assert [e.tick for e in events] == list(range(60_000))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 60_000), st.integers(0, 400), st.sampled_from([None, 0, 1, 2, 7]), st.booleans())
def test_seeking_gives_what_a_walk_gives(
    sample: Path, events: list[Event], start: int, n: int, thread: int | None, check: bool
) -> None:
    with Demo.open(sample, check=check) as demo:
        found = list(demo.events(thread, start, start + n))
    assert found == [e for e in events[start : start + n] if thread in (None, e.thread)]


def test_runs_are_the_order(sample: Path, events: list[Event]) -> None:
    with Demo.open(sample) as demo:
        threads = [t for t, count in demo.runs() for _ in range(count)]
        assert threads == [e.thread for e in events]
        assert [t.operations for t in demo.threads] == [threads.count(t) for t in range(3)]
        assert (demo.threads[0].recorded_tid, demo.threads[1].recorded_tid) == (100, None)
        assert demo.epochs[0].start == 0 and demo.epochs[-1].end == demo.ticks


def test_events_of_large_demos_do_not_stay_in_memory(sample: Path) -> None:
    with Demo.open(sample) as demo:
        for _ in demo.events():
            pass
        assert demo._cached == sum(len(raw) for raw in demo._cache.values())


@pytest.mark.parametrize("what", ["missing", "directory", "fifo", "empty", "text", "converted"])
def test_what_is_no_demo(tmp_path: Path, sample: Path, what: str) -> None:
    path = tmp_path / "x.demo"
    if what == "directory":
        path.mkdir()
    elif what == "fifo":
        os.mkfifo(path)  # must not wait for a writer either
    elif what == "empty":
        path.touch()
    elif what == "text":
        path.write_text("hello\n" * 100)
    elif what == "converted":
        path.write_bytes(sample.read_bytes().replace(b"\r\n", b"\n"))
    with pytest.raises(GdbrrError) as error:
        Demo.open(path)
    assert str(path) in error.value.message and error.value.hint
    assert what != "converted" or "copied as text" in error.value.hint


# ---------------------------------------------------------------- writing


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.binary(min_size=0, max_size=200)), max_size=60), st.integers(1, 7))
def test_what_is_written_is_read(rows: list[tuple[int, bytes]], size: int) -> None:
    """Writer and reader alone, without a recording: blocks of `size` operations."""
    out, done, last = io.BytesIO(), [0] * 4, [0] * 4
    writer = Writer(out, manifest())
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        before = struct.pack("<4Q", *done)
        for thread in range(4):
            own = [(start + i + 1, data) for i, (t, data) in enumerate(part) if t == thread]
            if own:
                raw = encode(own, last[thread])
                writer.stream(thread, raw, len(own), last[thread], own[0][0], own[-1][0])
                done[thread] += len(own)
                last[thread] = own[-1][0]
        writer.order(b"".join(fmt.RUN.pack(t, 1) for t, _ in part), len(part), before)
    assert writer.finish([(0, writer.stream_bytes, 7)] if rows else []) == len(out.getvalue())
    path = Path(f"/proc/self/fd/{memory_file(out.getvalue())}")
    for check_first in (True, False):
        with Demo.open(path, check=check_first) as demo:
            assert [(e.thread, e.data) for e in demo.events()] == rows
            assert demo.complete and demo.manifest == manifest()
    os.close(int(path.name))


def encode(rows: list[tuple[int, bytes]], base: int) -> bytes:
    raw, last = b"", ffi.new("uint64_t *", base)
    for stamp, data in rows:
        out, held = ffi.new("uint8_t[]", lib.GR_EVENT_MAX_HEAD + len(data)), ffi.from_buffer(data)
        event = ffi.new("struct gr_event *", {"stamp": stamp, "kind": 1, "len": len(data), "data": held})
        raw += bytes(ffi.buffer(out, lib.gr_event_encode(out, event, last)))
    return raw


def memory_file(raw: bytes) -> int:
    fd = os.memfd_create("demo")
    os.write(fd, raw)
    return fd


def test_the_writer_refuses_what_the_reader_would() -> None:
    writer = Writer(io.BytesIO(), manifest())
    with pytest.raises(GdbrrError):
        writer.stream(0, bytes(fmt.BLOCK_RAW + 1), 1, 0, 1, 1)
    with pytest.raises(GdbrrError):
        writer.stream(fmt.MAX_THREADS, bytes((1, 0, 1)), 1, 0, 1, 1)
    with pytest.raises(GdbrrError, match="smaller environment"):
        Writer(io.BytesIO(), manifest(env=["A=" + "x" * fmt.MANIFEST_RAW]))


# ---------------------------------------------------------------- damage


def test_cut_off_anywhere(sample: Path, events: list[Event], tmp_path: Path) -> None:
    raw, table = sample.read_bytes(), blocks(sample.read_bytes())
    interesting = {at + d for at, b in table for d in (-1, 0, 1, HEAD - 1, HEAD, HEAD + b.stored // 2)}
    path = tmp_path / "cut.demo"
    first = table[1][0]  # behind the manifest
    for size in sorted(s for s in interesting if s < table[-1][0]):
        path.write_bytes(raw[:size])
        if size < first:
            with pytest.raises(GdbrrError):
                Demo.open(path)
            continue
        whole = sum(b.first for at, b in table if b.type == BlockType.ORDER and at + HEAD + b.stored <= size)
        for check_first in (True, False):
            with Demo.open(path, check=check_first) as demo:
                assert demo.damage and "cut off" in demo.damage.reason
                assert (demo.ticks, demo.damage.tick) == (whole, whole)
                assert demo.damage.offset + demo.damage.lost_bytes == size
                assert sum(1 for _ in demo.events()) == whole
                assert not demo.epochs or demo.epochs[-1].end == whole


def test_a_lost_index_costs_nothing(sample: Path, events: list[Event], tmp_path: Path) -> None:
    raw, index = sample.read_bytes(), blocks(sample.read_bytes())[-1][0]
    path = tmp_path / "noindex.demo"
    for size in (index, index + 10, len(raw) - 1):
        path.write_bytes(raw[:size])
        with Demo.open(path, check=False) as demo:
            assert demo.complete and demo.ticks == len(events)


def test_a_flipped_bit_in_any_block(sample: Path, events: list[Event], tmp_path: Path) -> None:
    raw, table = sample.read_bytes(), blocks(sample.read_bytes())
    path = tmp_path / "bad.demo"
    for at, b in table[:-1]:
        for where in (at + 6, at + HEAD + b.stored // 2):
            if where >= at + HEAD + b.stored:
                continue  # the end block has no content
            bad = bytearray(raw)
            bad[where] ^= 4
            path.write_bytes(bad)
            if b.type == BlockType.MANIFEST:
                with pytest.raises(GdbrrError):
                    Demo.open(path)
                continue
            whole = sum(o.first for p, o in table if o.type == BlockType.ORDER and p < at)
            with Demo.open(path) as demo:
                assert demo.damage and (demo.damage.offset, demo.ticks) == (at, whole)
                assert list(demo.events()) == events[:whole]


def test_damage_that_shows_while_reading(sample: Path, events: list[Event], tmp_path: Path) -> None:
    at, b = [row for row in blocks(sample.read_bytes()) if row[1].type == BlockType.STREAM][-1]
    bad = bytearray(sample.read_bytes())
    bad[at + HEAD + b.stored // 2] ^= 1
    (tmp_path / "bad.demo").write_bytes(bad)
    with Demo.open(tmp_path / "bad.demo", check=False) as demo:
        assert demo.complete and demo.ticks == len(events)
        found = []
        with pytest.raises(DamagedDemo, match="damaged"):
            for event in demo.events():
                found.append(event)
        assert 0 < len(found) < len(events) and found == events[: len(found)]


# ---------------------------------------------------------------- versions


def test_the_small_demo_is_good(tmp_path: Path) -> None:
    with Demo.open(small_demo(tmp_path / "x.demo")) as demo:
        assert demo.complete and [e.kind for e in demo.events()] == [1]
        assert demo.epochs[0].time == 1.5


def test_a_newer_minor_version_is_read(tmp_path: Path) -> None:
    skipped = block(fmt.OPTIONAL | 5, b"something new")
    path = small_demo(tmp_path / "x.demo", skipped, version=(fmt.FORMAT[0], fmt.FORMAT[1] + 9))
    with Demo.open(path) as demo:
        assert demo.complete and demo.ticks == 1 and demo.format[1] == fmt.FORMAT[1] + 9


def test_a_newer_major_version_is_refused(tmp_path: Path) -> None:
    path = small_demo(tmp_path / "x.demo", version=(fmt.FORMAT[0] + 1, 0))
    with pytest.raises(GdbrrError, match=r"format 4\.0"):
        Demo.open(path)


def test_an_unknown_block_that_matters_ends_the_demo(tmp_path: Path) -> None:
    with Demo.open(small_demo(tmp_path / "x.demo", block(77, b"must know"))) as demo:
        assert demo.damage and "not known" in demo.damage.reason and demo.ticks == 0


# ---------------------------------------------------------------- the image


def read_image(path: Path) -> list[Event]:
    """Reads an image as the engine does: runs in order, each from its thread's stream."""
    raw = path.read_bytes()
    head = ffi.from_buffer("struct gr_image *", raw)
    assert (head.magic, head.abi) == (lib.GR_IMAGE_MAGIC, lib.GR_ABI_VERSION)
    streams = ffi.cast("struct gr_stream *", ffi.from_buffer(raw) + head.streams_off)
    runs = ffi.cast("struct gr_run *", ffi.from_buffer(raw) + head.runs_off)
    at = [streams[t].off for t in range(head.threads)]
    stamp = [ffi.new("uint64_t *") for _ in at]
    found: list[Event] = []
    event = ffi.new("struct gr_event *")
    for i in range(head.runs):
        t = runs[i].thread
        for _ in range(runs[i].count):
            end = streams[t].off + streams[t].len
            took = lib.gr_event_decode(ffi.from_buffer(raw) + at[t], end - at[t], event, stamp[t])
            assert took
            at[t] += took
            data = bytes(ffi.buffer(event.data, event.len)) if event.len else b""
            fields = (event.kind, event.nr, event.object, event.result, event.check, event.flags, event.stamp, data)
            fields = (*fields, event.time)
            found.append(Event(len(found), t, *fields))
    assert len(found) == head.ticks and at == [streams[t].off + streams[t].len for t in range(head.threads)]
    ops = [sum(e.thread == t for e in found) for t in range(head.threads)]
    assert ops == [streams[t].ops for t in range(head.threads)]
    return found


def test_the_image_holds_the_same_events(sample: Path, events: list[Event], tmp_path: Path) -> None:
    with Demo.open(sample) as demo:
        info = write_image(demo, tmp_path / "image")
    assert read_image(tmp_path / "image") == events
    assert (info.threads, info.ticks, info.bytes) == (3, 60_000, (tmp_path / "image").stat().st_size)
    assert (tmp_path / "image").stat().st_mode & 0o777 == 0o600


def test_the_image_of_a_cut_demo_ends_where_its_order_ends(sample: Path, events: list[Event], tmp_path: Path) -> None:
    last_order = [at for at, b in blocks(sample.read_bytes()) if b.type == BlockType.ORDER][-1]
    (tmp_path / "cut.demo").write_bytes(sample.read_bytes()[: last_order + 5])
    with Demo.open(tmp_path / "cut.demo") as demo:
        write_image(demo, tmp_path / "image")
        assert 0 < demo.ticks < 60_000
        assert read_image(tmp_path / "image") == events[: demo.ticks]


def test_the_image_of_a_recording_leaves_it_alone(sample: Path, events: list[Event], tmp_path: Path) -> None:
    recording = sample.parent / "rec"
    before = sorted(p.name for p in recording.iterdir())
    write_image_from_recording(recording, tmp_path / "image")
    assert read_image(tmp_path / "image") == events
    assert sorted(p.name for p in recording.iterdir()) == before
    assert [p.name for p in tmp_path.iterdir()] == ["image"]


def test_an_image_for_another_engine_is_refused(tmp_path: Path) -> None:
    path = small_demo(tmp_path / "x.demo", text=serialise(manifest(abi=99)))
    with Demo.open(path) as demo, pytest.raises(GdbrrError, match="ABI 99"):
        write_image(demo, tmp_path / "image")
