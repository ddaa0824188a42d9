"""The event encoding: every event survives it, no bytes can crash it, one event has one encoding."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdbrr.abi import OPS, ffi, lib

ROOT = Path(__file__).resolve().parents[2]
U64 = (1 << 64) - 1

RUN = lib.GR_OP_RUN
RUNS = st.fixed_dictionaries(
    {
        "delta": st.one_of(st.integers(0, 300), st.integers(0, 1 << 62)),
        "kind": st.just(RUN),
        "object": st.integers(1, lib.GR_RUN_LIMIT),
        "check": st.integers(0, 65535),
        **{name: st.just(0) for name in ("result", "nr", "flags", "time")},
        "data": st.just(b""),
    }
)
OTHERS = st.fixed_dictionaries(
    {
        "delta": st.one_of(st.integers(1, 300), st.integers(1, 1 << 62)),
        "kind": st.integers(1, len(OPS) - 1).filter(lambda kind: kind != RUN),
        "object": st.one_of(st.just(0), st.integers(0, U64)),
        "result": st.one_of(st.just(0), st.integers(-300, 300), st.integers(-(1 << 63), (1 << 63) - 1)),
        "check": st.one_of(st.just(0), st.integers(0, (1 << 32) - 1)),
        "nr": st.one_of(st.just(0), st.integers(0, 65535)),
        "flags": st.integers(0, 255),
        "time": st.one_of(st.just(0), st.integers(0, U64)),
        "data": st.binary(max_size=300),
    }
)
EVENTS = st.one_of(RUNS, OTHERS)


def encode(event: dict[str, Any], last: int) -> bytes:
    data = ffi.from_buffer(event["data"])
    fields = {k: v for k, v in event.items() if k not in ("delta", "data")}
    fields |= {"stamp": last + event["delta"], "len": len(event["data"]), "data": data}
    c = ffi.new("struct gr_event *", fields)
    stamp = ffi.new("uint64_t *", last)
    out = ffi.new("uint8_t[]", lib.GR_EVENT_MAX_HEAD + len(event["data"]))
    size = lib.gr_event_encode(out, c, stamp)
    assert size <= lib.GR_EVENT_MAX_HEAD + len(event["data"])
    assert stamp[0] == last + event["delta"]
    return bytes(ffi.buffer(out, size))


def decode(raw: bytes, last: int = 0) -> tuple[int, dict[str, Any]]:
    """How many bytes were read (0: refused) and the event."""
    source = ffi.new("uint8_t[]", raw or b"\0")  # a copy of its own, so that a checked build sees reads behind it
    c = ffi.new("struct gr_event *")
    stamp = ffi.new("uint64_t *", last)
    took = lib.gr_event_decode(source, len(raw), c, stamp)
    if not took:
        assert stamp[0] == last
        return 0, {}
    data = bytes(ffi.buffer(c.data, c.len)) if c.len else b""
    fields = {name: getattr(c, name) for name in ("kind", "object", "result", "check", "nr", "flags", "time")}
    return took, {**fields, "delta": c.stamp - last, "data": data}


@given(EVENTS, st.integers(0, 1 << 62), st.binary(max_size=5))
def test_every_event_comes_back(event: dict[str, Any], last: int, behind: bytes) -> None:
    raw = encode(event, last)
    assert decode(raw + behind, last) == (len(raw), event)


@given(EVENTS)
def test_a_cut_event_is_refused(event: dict[str, Any]) -> None:
    raw = encode(event, 0)
    for size in range(len(raw)):
        assert decode(raw[:size])[0] == 0


@given(st.binary(max_size=80))
def test_arbitrary_bytes_are_refused_or_are_the_encoding_of_what_they_say(raw: bytes) -> None:
    took, event = decode(raw)
    if took:
        assert encode(event, 0) == raw[:took]


@given(st.integers(1, len(OPS) - 1), st.integers(0, 127), st.binary(min_size=1, max_size=60))
def test_bytes_with_a_valid_start_are_refused_or_canonical(kind: int, mask: int, rest: bytes) -> None:
    took, event = decode(bytes((kind, mask)) + rest)
    if took:
        assert encode(event, 0) == (bytes((kind, mask)) + rest)[:took]


def test_the_example_in_the_specification() -> None:
    text = (ROOT / "docs" / "demo-format.md").read_text()
    example = re.search(r"For example `([0-9a-f ]+)`", text)
    assert example
    raw = bytes.fromhex(example[1])
    took, event = decode(raw)
    assert took == len(raw) and OPS[event["kind"]] == "SYS_END"
    assert (event["delta"], event["object"], event["result"], event["nr"]) == (5, 3, 6, 1)
    assert event["data"] == b"hello\n"


def test_the_drawn_bytes() -> None:
    event = {"delta": 5, "kind": 4, "object": 3, "result": -2, "check": 0x01020304, "nr": 1, "flags": 9}
    event |= {"time": 300, "data": b"hi"}
    assert encode(event, 100).hex(" ") == "04 7f 05 03 03 04 03 02 01 01 09 ac 02 02 68 69"
    bare = {**dict.fromkeys(event, 0), "delta": 300, "kind": 4, "data": b""}
    assert encode(bare, 0).hex(" ") == "04 00 ac 02"
    run = {**bare, "kind": RUN, "delta": 3, "object": 300, "check": 0x1234}
    assert encode(run, 0).hex(" ") == f"{RUN:02x} 03 ac 02 34 12"


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        ("00 00 01", "kind 0 is no operation"),
        (f"{len(OPS):02x} 00 01", "a kind behind the last one"),
        ("01 80 01", "an unknown bit in the mask"),
        ("01 00 00", "a stamp that stands still"),
        ("01 00 81 00", "an overlong varint"),
        ("01 00 ff ff ff ff ff ff ff ff ff 02", "a varint of more than 64 bits"),
        ("01 00 80 80 80 80 80 80 80 80 80 80 01", "a varint of eleven bytes"),
        ("01 01 01 00", "a present field that is 0"),
        ("01 04 01 00 00 00 00", "a check that is 0"),
        ("01 08 01 80 80 04", "a call number of more than 16 bits"),
        ("01 10 01 00", "flags that are 0"),
        ("01 40 01 00", "a time that is 0"),
        ("01 20 01 00", "data of length 0"),
        ("01 20 01 05 61 62 63 64", "data longer than what is there"),
        (f"{RUN:02x} 00 00 00 00", "a run of nothing"),
        (f"{RUN:02x} 00 80 80 04 00 00", "a run of more than 65,535 operations"),
        (f"{RUN:02x} 00 01 00", "a run without all of its hash"),
        ("01 20 01 ff ff ff ff ff ff ff ff ff 01 61", "data longer than memory"),
    ],
)
def test_invalid_bytes_are_refused(raw: str, why: str) -> None:
    assert decode(bytes.fromhex(raw))[0] == 0, why


def test_a_stamp_never_overflows() -> None:
    raw = bytes.fromhex("01 00 02")
    assert decode(raw, U64 - 2)[0] == len(raw)
    assert decode(raw, U64 - 1)[0] == 0


@given(st.lists(EVENTS, max_size=30), st.integers(0, 3000))
def test_batches_do_what_single_calls_do(events: list[dict[str, Any]], room: int) -> None:
    events = [{**e, "delta": e["delta"] >> 6 or int(e["kind"] != RUN)} for e in events]  # so that the sum of them fits
    raw, last = b"", 0
    rows = ffi.new("struct gr_event[]", len(events))
    keep = []
    for row, event in zip(rows, events, strict=True):
        raw += encode(event, last)
        last += event["delta"]
        keep.append(ffi.from_buffer(event["data"]))
        for name in ("kind", "object", "result", "check", "nr", "flags", "time"):
            setattr(row, name, event[name])
        row.stamp, row.len, row.data = last, len(event["data"]), keep[-1]
    out, used, stamp = ffi.new("uint8_t[]", room), ffi.new("size_t *"), ffi.new("uint64_t *")
    done = lib.gr_batch_encode(out, room, rows, len(events), stamp, used)
    assert used[0] <= room and bytes(ffi.buffer(out, used[0])) == raw[: used[0]]
    assert done == len(events) or room < used[0] + lib.GR_EVENT_MAX_HEAD + len(events[done]["data"])

    stamp[0] = 0
    again = ffi.new("struct gr_event[]", len(events) + 1)
    assert lib.gr_batch_decode(ffi.from_buffer(raw), len(raw), again, len(events) + 1, U64, stamp, used) == len(events)
    assert used[0] == len(raw) and stamp[0] == last
    assert [again[i].stamp for i in range(len(events))] == [row.stamp for row in rows]


def test_the_encoder_needs_no_library(tmp_path: Path) -> None:
    """INVARIANT of codec.h: it runs in the engine, where there is no libc and no vector register."""
    for level in ("-O0", "-O2", "-O3"):
        out = tmp_path / "codec.o"
        flags = ["-std=gnu11", level, "-fPIC", "-ffreestanding", "-mgeneral-regs-only", "-fno-stack-protector"]
        command = ["gcc", *flags, "-c", "preload/log/codec.c", "-o", str(out)]
        subprocess.run(command, cwd=ROOT, check=True, timeout=60)
        undefined = subprocess.run(["nm", "-u", str(out)], check=True, capture_output=True, text=True, timeout=60)
        assert undefined.stdout.replace("_GLOBAL_OFFSET_TABLE_", "").split() in ([], ["U"])
