"""What is taken out of a log while it is written comes back in its place, also when whoever took it out was killed."""

from __future__ import annotations

import dataclasses
import json
import mmap
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzz.recordings import CHUNK, Log, Op, manifest, random_ops
from gdbrr.abi import Ctl, ffi, lib, map_ctl
from gdbrr.ctl.drain import NAME, Drain
from gdbrr.demo import drained
from gdbrr.demo.pack import pack
from gdbrr.demo.reader import Demo
from gdbrr.errors import GdbrrError

UNITS = 8192


class Writer(Log):
    """Writes as the engine does: chunks of the usual size, of those that are free the first."""

    def __init__(self, where: Path, page: Ctl) -> None:
        super().__init__(where / "log")
        self.page = page
        self.fresh = self.again = 0
        self.path.write_bytes(bytes(UNITS * lib.GR_UNIT))
        with open(self.path, "r+b") as file:
            self.bytes = mmap.mmap(file.fileno(), 0)  # type: ignore[assignment]

    def take(self, units: int) -> int:
        for place in range(lib.GR_FREE_CHUNKS):
            if unit := self.page.c.free[place]:
                self.page.c.free[place] = 0
                self.again += 1
                header = self.header((unit - 1) * lib.GR_UNIT)
                assert header.magic == lib.GR_CHUNK_FREE and not header.full
                header.used = header.run = header.run_at = 0
                return (unit - 1) * lib.GR_UNIT
        offset = self.units * lib.GR_UNIT
        self.units += lib.GR_CHUNK_UNITS
        self.page.c.units = self.units
        self.fresh += 1
        return offset

    def append(self, op: Op, stamp: int | None = None) -> None:
        before = self._open.get(op.thread)
        super().append(op, stamp)
        now = self._open[op.thread]
        self.header(now).units = lib.GR_CHUNK_UNITS
        if before is not None and before != now:
            self.header(before).full = 1


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Ctl]:
    (tmp_path / "rec").mkdir()
    with map_ctl(tmp_path / "rec" / "ctl", create=True) as made:
        made.c.data_size = UNITS * lib.GR_UNIT
        yield made


def ops_of(count: int) -> list[Op]:
    """With data, so that they fill some chunks."""
    rng = random.Random(5)
    return [dataclasses.replace(op, data=rng.randbytes(300)) for op in random_ops(rng, count, 3)]


def written(tmp_path: Path, page: Ctl, ops: list[Op], every: int) -> tuple[Writer, Drain]:
    log = Writer(tmp_path / "rec", page)
    drain = Drain(page, log.bytes, str(tmp_path / "rec" / NAME))  # type: ignore[arg-type]
    for number, op in enumerate(ops):
        log.append(op)
        if number % every == every - 1:
            drain.look()
    return log, drain


def finished(tmp_path: Path, page: Ctl, log: Writer, ops: list[Op]) -> list[tuple[object, ...]]:
    page.c.clock, page.c.end_kind, page.c.started = log.clock, 1, 1
    (tmp_path / "rec" / "manifest.json").write_text(json.dumps(manifest()))
    pack(tmp_path / "rec", tmp_path / "x.demo", keep=True)
    with Demo.open(tmp_path / "x.demo") as demo:
        assert demo.damage is None
        return [(e.thread, e.kind, e.nr, e.object, e.result, e.check, e.flags, e.data, e.time) for e in demo.events()]


def test_the_names_are_one() -> None:
    assert drained.NAME == NAME


@pytest.mark.parametrize("every", [1, 150, 700, 4000])
def test_all_comes_back(every: int, tmp_path: Path, page: Ctl) -> None:
    ops = ops_of(4000)
    log, drain = written(tmp_path, page, ops, every)
    drain.end()
    assert page.c.drained == os.stat(tmp_path / "rec" / NAME).st_size > 0
    assert (log.again > 0) is (every < 4000)
    assert finished(tmp_path, page, log, ops) == [op.fields() for op in ops]


def test_the_same_pages_again(tmp_path: Path, page: Ctl) -> None:
    log, _ = written(tmp_path, page, ops_of(20_000), 50)
    assert log.fresh < 3 * 3 + 2
    assert log.again > 60


def test_more_than_go_round_give_their_pages_back(tmp_path: Path, page: Ctl) -> None:
    ops = ops_of(16_000)
    log = Writer(tmp_path / "rec", page)
    for op in ops:
        log.append(op)
    held = os.stat(log.path).st_blocks
    drain = Drain(page, log.bytes, str(tmp_path / "rec" / NAME))  # type: ignore[arg-type]
    while drain.look():
        pass
    assert drain.on and sum(unit > 0 for unit in page.c.free) == lib.GR_FREE_CHUNKS
    assert os.stat(log.path).st_blocks < held
    drain.end()
    assert finished(tmp_path, page, log, ops) == [op.fields() for op in ops]


def test_killed_before_chunks_are_free(tmp_path: Path, page: Ctl, monkeypatch: pytest.MonkeyPatch) -> None:
    ops = ops_of(4000)
    monkeypatch.setattr(Drain, "_give", lambda self: setattr(self, "on", False))
    log, _ = written(tmp_path, page, ops, 1000)
    assert page.c.drained and not log.again
    assert finished(tmp_path, page, log, ops) == [op.fields() for op in ops]


def test_killed_in_a_record(tmp_path: Path, page: Ctl, monkeypatch: pytest.MonkeyPatch) -> None:
    ops = ops_of(4000)
    monkeypatch.setattr(Drain, "_give", lambda self: setattr(self, "on", False))
    log, _ = written(tmp_path, page, ops, 1000)
    os.truncate(tmp_path / "rec" / NAME, int(page.c.drained) - 7)
    assert finished(tmp_path, page, log, ops) == [op.fields() for op in ops]


def test_killed_where_a_free_chunk_is_begun(tmp_path: Path, page: Ctl) -> None:
    ops = ops_of(4000)
    log, _ = written(tmp_path, page, ops, 300)
    unit = next(unit for unit in page.c.free if unit) - 1
    header = log.header(unit * lib.GR_UNIT)
    header.thread, header.seq, header.used = 1, 1000, 0
    inside = log.header((unit + 1) * lib.GR_UNIT)  # what lies in it is no header
    inside.magic, inside.units, inside.thread = lib.GR_CHUNK_MAGIC, 99999, 7
    assert finished(tmp_path, page, log, ops) == [op.fields() for op in ops]


def test_a_full_disk_leaves_the_log_as_it_is(tmp_path: Path, page: Ctl, monkeypatch: pytest.MonkeyPatch) -> None:
    ops = ops_of(4000)
    monkeypatch.setattr(os, "writev", lambda fd, parts: os.write(fd, b"some") or 4)
    log, drain = written(tmp_path, page, ops, 300)
    assert not drain.on and not log.again and os.stat(tmp_path / "rec" / NAME).st_size == 0
    assert finished(tmp_path, page, log, ops) == [op.fields() for op in ops]


@pytest.mark.parametrize("how", range(60))
def test_a_damaged_file_is_an_end_or_an_error(how: int, tmp_path: Path, page: Ctl) -> None:
    ops = ops_of(3000)
    log, drain = written(tmp_path, page, ops, 300)
    drain.end()
    rng = random.Random(how)
    raw = bytearray((tmp_path / "rec" / NAME).read_bytes())
    for _ in range(rng.choice((1, 3))):
        at = rng.choice((rng.randrange(24 + 16 * CHUNK), rng.randrange(len(raw))))
        raw[at] = rng.randrange(256)
    (tmp_path / "rec" / NAME).write_bytes(raw)
    try:
        found = finished(tmp_path, page, log, ops)
    except GdbrrError:
        return
    wanted = {op.fields() for op in ops}
    assert sum(row in wanted for row in found) >= len(found) - 40


def test_a_link_is_no_such_file(tmp_path: Path, page: Ctl) -> None:
    ops = ops_of(50)
    log = Writer(tmp_path / "rec", page)
    for op in ops:
        log.append(op)
    (tmp_path / "rec" / NAME).symlink_to("/etc/passwd")
    with pytest.raises(GdbrrError, match="is not a recording"):
        finished(tmp_path, page, log, ops)


def test_what_takes_out_knows_no_chunk_outside(tmp_path: Path, page: Ctl) -> None:
    """A program that stores anywhere may have stored into the log."""
    log, drain = written(tmp_path, page, ops_of(100), 1000)
    page.c.units = 1 << 40
    header = log.header(log.units * lib.GR_UNIT)
    header.magic, header.units, header.used, header.full = lib.GR_CHUNK_MAGIC, lib.GR_CHUNK_UNITS, 1 << 60, 1
    behind = log.header((log.units + lib.GR_CHUNK_UNITS) * lib.GR_UNIT)
    behind.magic, behind.units, behind.full = lib.GR_CHUNK_MAGIC, 1 << 30, 1
    assert drain.look() == 1
    assert ffi.sizeof("struct gr_chunk") == CHUNK
