"""A short budget of the demo fuzzer, in every run of the suite; and the fuzzer itself."""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import zstandard

from fuzz import bent_recordings, demo_fuzz, readers
from fuzz.demos import HEAD, block, small_demo
from fuzz.recordings import Op, make_recording
from fuzz.recordings import manifest as manifest_of
from gdbrr.abi import lib
from gdbrr.cli import main
from gdbrr.demo import format as fmt
from gdbrr.demo import manifest
from gdbrr.demo.format import Block, BlockType
from gdbrr.demo.pack import pack
from gdbrr.demo.reader import Demo
from gdbrr.errors import GdbrrError
from gdbrr.launch import waits
from gdbrr.sparse import payload

BUDGET = 10_000
DEEP = 2000
RECOVERED = 200


@pytest.mark.limit(400)
def test_bent_demos_end_in_success_or_one_clear_line() -> None:
    counts = demo_fuzz.run(BUDGET)
    assert sum(row.total() for row in counts.values()) == BUDGET
    assert set(counts) == {how.__name__ for how in demo_fuzz.MUTATIONS}
    # A fuzzer whose mutants are all refused at the door tests only the door.
    verdicts = sum(counts.values(), start=Counter[str]())
    assert min(verdicts["read"], verdicts["damaged"], verdicts["refused"]) > BUDGET // 20


@pytest.mark.limit(200)
def test_what_sealed_demos_mean_is_believed_by_nobody() -> None:
    """Every checksum is right: what is wrong shows only to those who take events and texts apart."""
    counts = sum(demo_fuzz.run_deeply(DEEP).values(), start=Counter[str]())
    for reader in readers.READERS:
        name = reader.__name__.strip("_")
        assert min(counts[name], counts[f"{name}|"]) > DEEP // 20, (
            f"{name} reads or refuses nearly all of them: {counts}"
        )


@pytest.mark.limit(200)
def test_bent_recordings_end_in_a_demo_or_one_clear_line(tmp_path: Path) -> None:
    verdicts = bent_recordings.run(RECOVERED, tmp_path)
    assert min(verdicts["recovered"], verdicts["refused"]) > RECOVERED // 20


HALF = "the manifest holds half a character"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"cwd": "/\ud800"}, HALF),
        ({"argv": ["a\udc80\udfff"]}, HALF),
        ({"what nobody knows": {"\udbff": 1}}, HALF),
        ({"env": ["NAME=\udcff"]}, ""),
        ({"cwd": "/\U0001f600"}, ""),
        ({"profile": []}, "'profile' is not valid"),
        ({"profile": {"values": []}}, "'profile' is not valid"),
        ({"profile": {"values": {"digest": 5}}}, "'profile' is not valid"),
        ({"profile": {"values": {"digest": {"value": {}, "origin": "x"}}}}, "'profile' is not valid"),
        ({"profile": {"name": None}}, "'profile' is not valid"),
        ({"signals": {"ignored": "all"}}, "'signals' is not valid"),
    ],
)
@pytest.mark.parametrize("verb", ["info", "info --json", "events", "redact", "replay"])
def test_texts_and_profiles_of_another_shape(
    changes: dict[str, Any], why: str, verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = json.dumps({**manifest_of(), **changes}).encode()
    demo = small_demo(tmp_path / "x.demo", text=text)
    status = main.main([*verb.split(), str(demo)])
    said = capsys.readouterr().err
    assert why in said and said.count("\n") <= (1 if why else 6)
    assert status == 1 if why else "Traceback" not in said


def test_a_profile_that_is_not_there_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = manifest_of()
    del text["profile"]
    demo = small_demo(tmp_path / "x.demo", text=json.dumps(text).encode())
    assert main.main(["replay", str(demo)]) == 1
    assert "the demo's profile is not valid" in capsys.readouterr().err


STORE = struct.pack("<QQII", 0x1000, 8, 0, 0) + b"8 bytes."
LONG = STORE[:8] + b"\xff" * 8 + STORE[16:]
HELD = struct.pack("<I", len(STORE))


@pytest.mark.parametrize(
    ("data", "stores", "why"),
    [
        pytest.param(STORE, 32, "stores longer than its data", id="no length in front"),
        pytest.param(HELD + STORE, 1 << 63, "stores longer than its data", id="no memory is so long"),
        pytest.param(HELD + STORE, 33, "stores longer than its data", id="one byte more"),
        pytest.param(HELD + LONG, 32, "a store longer than its data", id="a store that is longer"),
        pytest.param(HELD + STORE, 32, "", id="as it should be"),
    ],
)
def test_stores_end_with_their_data(data: bytes, stores: int, why: str, tmp_path: Path) -> None:
    ops = [
        Op(0, lib.GR_OP_START),
        Op(0, lib.GR_OP_SYS_START, nr=1),
        Op(0, lib.GR_OP_SYS_END, nr=1, object=stores, data=data),
    ]
    make_recording(tmp_path / "r", ops)
    pack(tmp_path / "r", tmp_path / "x.demo")
    with Demo.open(tmp_path / "x.demo") as demo:
        if why:
            with pytest.raises(GdbrrError, match=f"the call that ends at tick 2 has {why}"):
                list(payload.calls(demo, {}))
        else:
            (call,) = payload.calls(demo, {})
            assert [payload.read(demo, span) for span in call.payload] == [b"8 bytes."]


def many(path: Path, pieces: int) -> Path:
    """A demo of a few kilobytes whose one thread has done thousands of millions of operations, and was killed."""
    run = bytes((lib.GR_OP_RUN, 0, 0xFF, 0xFF, 3, 0, 0))
    first = bytes((lib.GR_OP_START, 0, 1))
    room = fmt.STREAM_RAW // len(run) - 1
    text = json.dumps({**manifest_of(), "end": {"kind": "signal", "value": 15}}).encode()
    head = fmt.file_header()
    zstd = zstandard.ZstdCompressor()

    def stream(raw: bytes, items: int, base: int) -> bytes:
        stored = zstd.compress(raw)
        return block(
            BlockType.STREAM, raw, stored, flags=1, items=items, base=base, first=1, last=1, crc=zlib.crc32(stored)
        )

    streams = [stream(first + run * room, 1 + room * 65535, 0)]
    streams += [stream(run * room, room * 65535, 1) for _ in range(pieces - 1)]
    ticks = 1 + pieces * room * 65535
    counts = [min(1 << 31, ticks - at) for at in range(0, ticks, 1 << 31)]
    runs = b"".join(struct.pack("<II", 0, count) for count in counts)
    order = block(BlockType.ORDER, runs + bytes(8), thread=1, items=len(counts), first=ticks)
    size = sum(Block.unpack(part[:HEAD]).raw for part in streams)
    path.write_bytes(
        b"".join((head, block(BlockType.MANIFEST, text), *streams, order, block(BlockType.END, base=ticks, first=size)))
    )
    return path


@pytest.mark.limit(60)
def test_what_operations_a_demo_claims_costs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """INVARIANT(bytes-are-the-cost): to count them one by one would take hours."""
    demo = many(tmp_path / "x.demo", 8)
    assert demo.stat().st_size < 100_000
    assert main.main(["info", str(demo)]) == 0
    assert re.search(r"19,\d{3},\d{3},\d{3} operations of 1 thread", capsys.readouterr().out)
    with Demo.open(demo) as opened:
        assert list(payload.calls(opened, {})) == [] and not list(payload.checks(opened))
        assert [row.thread for row in waits.at_the_end(opened)] == [0]
        told = [(e.tick, e.object, e.result) for e in opened.events(start=65000, stop=200_000, runs=True)]
        assert told == [(65000, 65535, 65000), (65536, 65535, 1), (131071, 65535, 1), (196606, 65535, 1)]


def test_the_same_seed_makes_the_same_mutants(tmp_path: Path) -> None:
    good = demo_fuzz.seeds(tmp_path)
    assert [demo_fuzz.mutant(n, 7, good) for n in range(50)] == [demo_fuzz.mutant(n, 7, good) for n in range(50)]
    assert demo_fuzz.mutant(1, 7, good) != demo_fuzz.mutant(1, 8, good)


def test_the_fuzzer_notices_a_reader_that_believes_the_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "check", lambda text: text)
    with pytest.raises(AssertionError, match=r"mutant \d+ of seed 1 \(bend_manifest\)"):
        demo_fuzz.run(500)
