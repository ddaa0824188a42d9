"""The log's next pages are there before the program comes to them, and nothing that is in a page is lost by it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gdbrr import abi
from gdbrr.abi import lib
from gdbrr.ctl import ahead
from gdbrr.ctl.ahead import Ahead

SIZE = 64 << 20
USED = 4 << 20


@pytest.fixture
def page(tmp_path: Path) -> Iterator[abi.Ctl]:
    with abi.map_ctl(tmp_path / "ctl", create=True) as made:
        made.c.data_size = SIZE
        with open(tmp_path / "log", "xb") as log:
            os.truncate(log.fileno(), SIZE)
        yield made


def held(path: Path) -> int:
    return os.stat(path).st_blocks * 512


def test_short_logs_have_nothing_prepared(page: abi.Ctl, tmp_path: Path) -> None:
    page.c.units = 3
    feeder = Ahead(page, tmp_path / "log")
    assert feeder.look(0.01) > 0.01
    feeder.end()
    assert held(tmp_path / "log") == 0 and os.stat(tmp_path / "log").st_size == SIZE


def test_as_much_again_is_prepared_and_given_back(page: abi.Ctl, tmp_path: Path) -> None:
    log = tmp_path / "log"
    page.c.units = USED // lib.GR_UNIT
    feeder = Ahead(page, log)
    with open(log, "r+b") as file:  # the program is further by now than it was when it was looked at
        os.pwrite(file.fileno(), b"written", USED + 4096)
        assert feeder.look(0.01) < 0.01
        os.fsync(file.fileno())
        assert USED <= held(log) < 2 * USED
        assert os.pread(file.fileno(), 7, USED + 4096) == b"written"
        assert feeder.look(0.01) > 0.01
    feeder.end()
    assert os.stat(log).st_size == USED


def test_a_disk_that_is_nearly_full_is_left_to_the_program(
    page: abi.Ctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page.c.units = USED // lib.GR_UNIT
    monkeypatch.setattr(ahead, "_MOST", 1 << 60)
    feeder = Ahead(page, tmp_path / "log")
    assert feeder.look(0.01) > 0.01
    feeder.end()
    assert held(tmp_path / "log") == 0


def test_what_was_looked_at_is_not_held(page: abi.Ctl, tmp_path: Path) -> None:
    """A thread that ends leaves a short chunk, and a server may make many threads."""
    log = tmp_path / "log"
    header = abi.ffi.new("struct gr_chunk *", {"magic": lib.GR_CHUNK_MAGIC, "units": 1})
    with open(log, "r+b") as file:
        for unit in range(SIZE // lib.GR_UNIT):
            os.pwrite(file.fileno(), abi.ffi.buffer(header), unit * lib.GR_UNIT)
    feeder = Ahead(page, log)
    most = 0
    for part in range(1, 17):
        page.c.units = part * SIZE // lib.GR_UNIT // 16
        feeder.look(0.01)
        lines = Path("/proc/self/smaps").read_text().split(str(log), 1)[1].splitlines()
        most = max(most, int(next(line for line in lines if line.startswith("Rss:")).split()[1]) << 10)
    feeder.end()
    assert 0 < most < SIZE * 3 // 4
