"""Hostile demos: whatever a file claims, it ends in an error with a sentence, in bounded time and memory."""

from __future__ import annotations

import re
import resource
import struct
from pathlib import Path

import pytest
import zstandard

from fuzz.demos import block, blocks, small_demo, with_block
from fuzz.recordings import manifest
from gdbrr.demo import format as fmt
from gdbrr.demo.format import BlockType
from gdbrr.demo.image import write_image
from gdbrr.demo.manifest import check, parse, serialise
from gdbrr.demo.reader import DamagedDemo, Demo
from gdbrr.errors import GdbrrError


def test_a_block_that_unpacks_to_more_or_less_than_it_claims_is_refused(tmp_path: Path) -> None:
    real = zstandard.ZstdCompressor().compress(bytes(1 << 28))
    silent = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(1 << 28))
    honest = zstandard.ZstdCompressor().compress(b"{}" * 50)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    path = small_demo(tmp_path / "x.demo")
    good = path.read_bytes()
    for stored in (real, silent, honest, honest + honest, honest[:-1], b"no zstd"):
        for claimed in (10, fmt.MANIFEST_RAW):
            path.write_bytes(with_block(good, 0, block(BlockType.MANIFEST, stored=stored, flags=1, raw=claimed)))
            with pytest.raises(GdbrrError, match=r"lies about its length|cannot be decompressed"):
                Demo.open(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"raw": fmt.BLOCK_RAW + 1, "flags": 1}, "the limit is"),
        ({"items": fmt.RUN_OPS + 1}, "makes no sense"),
        ({"first": 0}, "makes no sense"),
        ({"base": 3}, "makes no sense"),
        ({"thread": fmt.MAX_THREADS}, "makes no sense"),
        ({"flags": 2}, "makes no sense"),
        ({"raw": 9}, "makes no sense"),
    ],
)
def test_a_stream_header_that_lies_ends_the_demo(tmp_path: Path, fields: dict[str, int], why: str) -> None:
    good: dict[str, int] = {"items": 1, "first": 2, "last": 2, "base": 1}
    bad = block(BlockType.STREAM, bytes((1, 0, 1)), **(good | fields))
    with Demo.open(small_demo(tmp_path / "x.demo", bad)) as demo:
        assert demo.damage and why in demo.damage.reason and demo.ticks == 0


def test_blocks_that_do_not_follow_each_other_end_the_demo(tmp_path: Path) -> None:
    again = block(BlockType.STREAM, bytes((1, 0, 1)), items=1, first=1, last=1)
    with Demo.open(small_demo(tmp_path / "x.demo", again)) as demo:
        assert demo.damage and "goes back in stamps" in demo.damage.reason
    early = block(BlockType.ORDER, struct.pack("<IIQ", 0, 1, 0), thread=1, items=1, first=1, base=5)
    with Demo.open(small_demo(tmp_path / "x.demo", early)) as demo:
        assert demo.damage and "where tick 0 is due" in demo.damage.reason


@pytest.mark.parametrize(
    ("content", "fields"),
    [
        (struct.pack("<IIQ", 0, 2, 0), {}),  # names more operations than its header
        (struct.pack("<IIQ", 1, 1, 0), {}),  # a thread that it has no position for
        (struct.pack("<IIQ", 0, 1, 1), {}),  # operations in front of the first
        (struct.pack("<IIIIQ", 0, 0, 0, 1, 0), {"items": 2, "first": 2}),  # an empty run
        (struct.pack("<IIQ", 0, 9, 0), {"first": 9}),  # operations that no stream holds
    ],
)
def test_an_order_that_contradicts_itself_is_an_error(tmp_path: Path, content: bytes, fields: dict[str, int]) -> None:
    head = small_demo(tmp_path / "x.demo").read_bytes()
    table = blocks(head)
    good: dict[str, int] = {"thread": 1, "items": 1, "first": 1}
    path = tmp_path / "bad.demo"
    path.write_bytes(head[: table[2][0]] + block(BlockType.ORDER, content, **(good | fields)))
    with Demo.open(path) as demo:
        for read in (lambda: list(demo.events()), lambda: demo.threads, lambda: write_image(demo, tmp_path / "image")):
            with pytest.raises(DamagedDemo):
                read()


def test_events_that_are_none_are_an_error(tmp_path: Path) -> None:
    bad = block(BlockType.STREAM, bytes((1, 0, 1, 1, 0, 0)), items=2, base=1, first=2, last=3)
    with Demo.open(small_demo(tmp_path / "x.demo", bad)) as demo:
        assert list(demo.events())  # the order does not name them
    path = small_demo(tmp_path / "x.demo")
    bad = block(BlockType.STREAM, bytes((0, 0, 1)), items=1, first=1, last=1)
    path.write_bytes(with_block(path.read_bytes(), 1, bad))
    with Demo.open(path) as demo:
        with pytest.raises(DamagedDemo, match="no valid events"):
            list(demo.events())
        with pytest.raises(DamagedDemo, match="no valid events"):
            write_image(demo, tmp_path / "image")


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'{"gdbrr": ' + b"9" * 5000 + b"}", b'{"a": NaN}', b'{"a": 1e999}'],
)
def test_manifests_that_are_none(tmp_path: Path, text: bytes) -> None:
    with pytest.raises(GdbrrError, match="manifest"):
        parse(text)
    with pytest.raises(GdbrrError, match="manifest"):
        Demo.open(small_demo(tmp_path / "x.demo", text=text))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("argv", "ls"), ("argv", [1]), ("argv", ["a\0b"]), ("env", ["NOEQUALS"]), ("abi", True), ("abi", -1),
        ("abi", 1.5), ("random", "00"), ("random", "zz" * 16), ("end", {"kind": "magic", "value": 0}),
        ("end", {"kind": "exit"}),
        ("limits", {"stack": 5}), ("limits", {"stack": [1]}), ("limits", [1]), ("profile", []), ("started", "now"),
        ("started", 1e300), ("engine", {"path": 5}), ("objects", [{"build_id": "ab"}]),
        ("objects", [{"path": "x", "base": 1 << 64}]), ("host", {"a": {}}), ("threads", [{"index": -1}]), ("cwd", None),
    ],
)  # fmt: skip
def test_manifest_keys_have_types(key: str, value: object) -> None:
    with pytest.raises(GdbrrError, match=f"'{key}'"):
        check(manifest(**{key: value}))


def test_the_manifest_goes_round(tmp_path: Path) -> None:
    text = manifest(argv=["x", "\udcff", "\u20ac"], future_key={"a": [1]})
    assert parse(serialise(text)) == text


def test_the_limits_are_the_specified_ones() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "demo-format.md").read_text()
    rows = dict(re.findall(r"^\| ([a-z ]+) \| ([^|]+?) \|$", text.partition("## Limits")[2], re.MULTILINE))
    assert rows["content of a block"].startswith(f"{fmt.BLOCK_RAW >> 20} MiB")
    assert rows["manifest"] == f"{fmt.MANIFEST_RAW >> 20} MiB"
    assert rows["runs in an order block"] == f"{fmt.MAX_ORDER_RUNS:,}"
    assert rows["threads"] == f"{fmt.MAX_THREADS:,}"
    assert [2 ** int(rows[key][2:]) for key in ("blocks", "epochs")] == [fmt.MAX_BLOCKS, fmt.MAX_EPOCHS]
    assert rows["carried files"] == f"{fmt.MAX_CARRIED:,}"
    assert rows["bytes of carried files"] == f"{fmt.MAX_CARRIED_BYTES >> 30} GiB"
    assert rows["content of all blocks"] == f"{fmt.MAX_RAW_TOTAL >> 40} TiB"
    assert f"Version {fmt.FORMAT[0]}.{fmt.FORMAT[1]}." in text
    assert f"it has at most {fmt.STREAM_RAW >> 10} KiB" in text
    assert f"header of {fmt.BLOCK_HEADER.size} bytes" in text and f"last {fmt.TRAILER.size} bytes" in text
