"""Packing: what the engine logged comes back in the order of its stamps, also after kill -9."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.recordings import CHUNK, Log, Op, finish_recording, make_recording, random_ops
from gdbrr.abi import lib, map_ctl
from gdbrr.demo import format as fmt
from gdbrr.demo.pack import Summary, pack
from gdbrr.demo.reader import Demo
from gdbrr.errors import GdbrrError

ROOT = Path(__file__).resolve().parents[2]
RUN = lib.GR_OP_RUN


def fields(path: Path) -> list[tuple[object, ...]]:
    with Demo.open(path) as demo:
        assert demo.damage is None
        return [(e.thread, e.kind, e.nr, e.object, e.result, e.check, e.flags, e.data, e.time) for e in demo.events()]


def packed(tmp_path: Path, ops: list[Op], **options: int) -> tuple[Summary, Path]:
    make_recording(tmp_path / "rec", ops)
    return pack(tmp_path / "rec", tmp_path / "x.demo", **options), tmp_path / "x.demo"


def test_all_operations_come_back_in_order(tmp_path: Path) -> None:
    ops = random_ops(random.Random(1), 20_000, 7)
    summary, path = packed(tmp_path, ops)
    assert fields(path) == [op.fields() for op in ops]
    assert (summary.operations, summary.threads, summary.bytes) == (20_000, 7, path.stat().st_size)
    assert summary.notes == ()
    assert not (tmp_path / "rec").exists()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 1 << 32), st.integers(1, 400), st.integers(1, 12), st.integers(1, 50))
def test_any_order_of_any_threads(
    tmp_path_factory: pytest.TempPathFactory, seed: int, n: int, threads: int, ticks: int
) -> None:
    ops = random_ops(random.Random(seed), n, threads)
    summary, path = packed(tmp_path_factory.mktemp("any"), ops, epoch_ticks=ticks)
    assert fields(path) == [op.fields() for op in ops]
    assert summary.epochs == -(-n // ticks)


def test_gaps_between_stamps_are_harmless(tmp_path: Path) -> None:
    ops = random_ops(random.Random(2), 300, 3)
    (tmp_path / "rec").mkdir()
    log = Log(tmp_path / "rec" / "log")
    for i, op in enumerate(ops):
        log.append(op, stamp=1 + i * i)
    log.save()
    finish_recording(tmp_path / "rec", log)
    pack(tmp_path / "rec", tmp_path / "x.demo")
    assert fields(tmp_path / "x.demo") == [op.fields() for op in ops]


def test_epochs_end_at_ticks_or_bytes(tmp_path: Path) -> None:
    ops = [Op(0, data=bytes(1000)) if 500 <= i < 600 else Op(0) for i in range(1000)]
    summary, path = packed(tmp_path, ops, epoch_ticks=200, epoch_bytes=50_000)
    with Demo.open(path) as demo:
        epochs = demo.epochs
        assert sum(e.bytes for e in epochs) == summary.log_bytes
    assert [e.start for e in epochs[:4]] == [0, 200, 400, 550]
    assert [e.end for e in epochs] == [*[e.start for e in epochs[1:]], 1000]
    assert all(e.end - e.start <= 200 and e.bytes < 51_100 and e.time is None for e in epochs)


def test_epoch_limits_come_from_the_knobs_of_the_recording(tmp_path: Path) -> None:
    make_recording(tmp_path / "rec", random_ops(random.Random(3), 100, 2))
    with map_ctl(tmp_path / "rec" / "ctl") as ctl:
        ctl.c.knob[lib.GR_KNOB_epoch_ticks] = 30
    assert pack(tmp_path / "rec", tmp_path / "x.demo").epochs == 4


@pytest.mark.parametrize(("log", "late"), [(lib.GR_LOG_CLOCK, False), (lib.GR_LOG_TRANSITIVE, True)])
def test_marks_of_who_waits_come_late_unless_each_stamp_is_a_tick(log: int, late: bool, tmp_path: Path) -> None:
    make_recording(tmp_path / "rec", [Op(0), Op(1), Op(0, lib.GR_OP_BLOCK), Op(1), Op(1), Op(0)])
    with map_ctl(tmp_path / "rec" / "ctl") as ctl:
        ctl.c.knob[lib.GR_KNOB_order_log] = log
    pack(tmp_path / "rec", tmp_path / "x.demo")
    threads = [row[0] for row in fields(tmp_path / "x.demo")]
    assert threads == ([0, 1, 1, 1, 0, 0] if late else [0, 1, 0, 1, 1, 0])


@pytest.mark.parametrize(
    ("ctl", "given", "kept"),
    [((1, 3), None, ("exit", 3)), ((2, 11), None, ("signal", 11)), ((0, 0), None, ("unknown", 0)),
     ((1, 0), {"kind": "signal", "value": 9}, ("signal", 9))],
)  # fmt: skip
def test_how_it_ended(tmp_path: Path, ctl: tuple[int, int], given: dict[str, object], kept: tuple[str, int]) -> None:
    make_recording(tmp_path / "rec", [Op(0)], end=ctl)
    pack(tmp_path / "rec", tmp_path / "x.demo", end=given)
    with Demo.open(tmp_path / "x.demo") as demo:
        assert demo.end == kept


def test_an_operation_larger_than_a_block_gets_its_own(tmp_path: Path) -> None:
    ops = [Op(0), Op(0, data=os.urandom(3 << 20)), Op(1, data=b"x" * fmt.STREAM_RAW), Op(0)]
    _, path = packed(tmp_path, ops)
    assert fields(path) == [op.fields() for op in ops]


def test_an_operation_larger_than_any_block_is_refused_by_name(tmp_path: Path) -> None:
    make_recording(tmp_path / "rec", [Op(0), Op(3, data=bytes(fmt.BLOCK_RAW))])
    with pytest.raises(GdbrrError, match="an operation of thread 3 carries more than"):
        pack(tmp_path / "rec", tmp_path / "x.demo")
    assert [p.name for p in tmp_path.iterdir()] == ["rec"]


def test_a_program_without_operations(tmp_path: Path) -> None:
    summary, path = packed(tmp_path, [])
    assert fields(path) == []
    assert (summary.operations, summary.epochs) == (0, 0)


# ---------------------------------------------------------------- what kill -9 leaves behind


def crashed(tmp_path: Path, threads: int = 3) -> tuple[Path, Log, list[Op]]:
    ops = random_ops(random.Random(5), 9000, threads)
    return tmp_path / "rec", make_recording(tmp_path / "rec", ops, end=(0, 0)), ops


def repack(where: Path, log: Log) -> tuple[Summary, list[tuple[object, ...]]]:
    log.save()
    summary = pack(where, where.parent / "x.demo", keep=True)
    return summary, fields(where.parent / "x.demo")


def test_units_that_were_never_committed_are_passed_over(tmp_path: Path) -> None:
    ops = random_ops(random.Random(6), 9000, 3)
    (tmp_path / "rec").mkdir()
    log = Log(tmp_path / "rec" / "log")
    for i, op in enumerate(ops):
        if i % 1000 == 0:
            log.take(1 + i % 3)
        log.append(op)
    log.take(2)
    finish_recording(tmp_path / "rec", log)
    summary, found = repack(tmp_path / "rec", log)
    assert found == [op.fields() for op in ops] and summary.notes == ()


def test_bytes_behind_the_committed_ones_are_not_read(tmp_path: Path) -> None:
    where, log, ops = crashed(tmp_path)
    for thread in range(3):
        offset = log.chunk_offsets(thread)[-1]
        head = log.header(offset)
        at = offset + CHUNK + head.used
        del head
        log.bytes[at : at + 20] = os.urandom(20)
    assert repack(where, log)[1] == [op.fields() for op in ops]


def test_a_torn_tail_ends_the_demo_where_the_order_is_still_known(tmp_path: Path) -> None:
    where, log, ops = crashed(tmp_path)
    head = log.header(log.chunk_offsets(1)[-1])
    head.used -= 1
    del head
    summary, found = repack(where, log)
    lost = max(i for i, op in enumerate(ops) if op.thread == 1)
    # The torn event had a smaller stamp than what follows it, so that nothing behind it can be trusted.
    last_whole = max(i for i, op in enumerate(ops[:lost]) if op.thread == 1)
    assert found == [op.fields() for op in ops[: last_whole + 1]]
    assert len(summary.notes) == 1 and "thread 1" in summary.notes[0]


def test_a_missing_chunk_ends_the_demo(tmp_path: Path) -> None:
    ops = random_ops(random.Random(8), 20_000, 2, data=100)
    log = make_recording(tmp_path / "rec", ops)
    offset = log.chunk_offsets(0)[1]
    log.bytes[offset : offset + CHUNK] = bytes(CHUNK)
    summary, found = repack(tmp_path / "rec", log)
    assert found == [op.fields() for op in ops[: len(found)]] and 0 < len(found) < len(ops)
    assert "chunk 1 of its log is missing" in summary.notes[0]


def test_a_log_that_is_cut_off(tmp_path: Path) -> None:
    where, log, _ = crashed(tmp_path)
    log.bytes = log.bytes[: 2 * lib.GR_UNIT]
    with pytest.raises(GdbrrError, match=f"{log.units - 2} of {log.units} units are missing"):
        repack(where, log)
    assert (where / "log").exists()


@pytest.mark.parametrize(("field", "value"), [("units", 0), ("units", 1 << 20), ("used", 1 << 40), ("thread", 1 << 31)])
def test_a_header_that_makes_no_sense_is_refused(tmp_path: Path, field: str, value: int) -> None:
    where, log, _ = crashed(tmp_path)
    setattr(log.header(log.chunk_offsets(1)[0]), field, value)
    with pytest.raises(GdbrrError, match="makes no sense"):
        repack(where, log)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_damaged_log_gives_a_true_beginning(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    ops = random_ops(random.Random(9), 500, 3)
    tmp_path = tmp_path_factory.mktemp("damaged")
    log = make_recording(tmp_path / "rec", ops)
    starts = [log.chunk_offsets(t)[0] for t in range(3)]
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.sampled_from(starts)) + data.draw(st.integers(0, CHUNK + 3000))
        log.bytes[at] = data.draw(st.integers(0, 255))
    log.save()
    try:
        summary = pack(tmp_path / "rec", tmp_path / "x.demo", keep=True)
    except GdbrrError:
        return
    with Demo.open(tmp_path / "x.demo") as demo:
        assert demo.damage is None
        found = list(demo.events())
        assert len(found) == summary.operations
        # A byte may have become a run, which claims more operations than there were, in one event; or an event is
        # shorter, and its data are read as some.
        assert sum(event.kind != RUN or event.result == 1 for event in found) <= len(ops) + 40


# ---------------------------------------------------------------- errors and bounds


def test_not_a_recording(tmp_path: Path) -> None:
    with pytest.raises(GdbrrError, match="is not a recording"):
        pack(tmp_path, tmp_path / "x.demo")


@pytest.mark.parametrize(
    ("text", "why"), [("{", "not valid JSON"), ("[]", "not a JSON object"), ("{}", "has no 'gdbrr'")]
)
def test_a_bad_manifest_keeps_the_recording(tmp_path: Path, text: str, why: str) -> None:
    make_recording(tmp_path / "rec", [Op(0)])
    (tmp_path / "rec" / "manifest.json").write_text(text)
    with pytest.raises(GdbrrError, match=why):
        pack(tmp_path / "rec", tmp_path / "x.demo")
    assert (tmp_path / "rec" / "log").exists() and not (tmp_path / "x.demo").exists()


def test_a_control_page_of_another_version(tmp_path: Path) -> None:
    make_recording(tmp_path / "rec", [Op(0)])
    with map_ctl(tmp_path / "rec" / "ctl") as ctl:
        ctl.c.abi += 1
    with pytest.raises(GdbrrError, match="ABI version"):
        pack(tmp_path / "rec", tmp_path / "x.demo")


def test_foreign_files_in_the_recording_are_kept(tmp_path: Path) -> None:
    make_recording(tmp_path / "rec", [Op(0)])
    (tmp_path / "rec" / "notes.txt").write_text("mine")
    summary = pack(tmp_path / "rec", tmp_path / "x.demo")
    assert [p.name for p in (tmp_path / "rec").iterdir()] == ["notes.txt"]
    assert "was kept" in summary.notes[0]


def test_bytes_that_are_no_text_survive_in_arguments(tmp_path: Path) -> None:
    argument = os.fsdecode(b"\xff\xfe arg")
    make_recording(tmp_path / "rec", [Op(0)], argv=["prog", argument])
    pack(tmp_path / "rec", tmp_path / "x.demo")
    with Demo.open(tmp_path / "x.demo") as demo:
        assert demo.manifest["argv"] == ["prog", argument]


def test_a_demo_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    _, path = packed(tmp_path, [Op(0)])
    assert path.stat().st_mode & 0o777 == 0o600


_BOUNDED = """
import resource, sys
from pathlib import Path
import gdbrr.demo.pack, gdbrr.demo.reader, gdbrr.demo.image
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
where = Path(sys.argv[1])
gdbrr.demo.pack.pack(where / "rec", where / "x.demo", keep=True)
with gdbrr.demo.reader.Demo.open(where / "x.demo") as demo:
    n = sum(1 for e in demo.events())
    list(demo.events(start=n - 5))
    gdbrr.demo.image.write_image(demo, where / "image")
print(n, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_memory_does_not_grow_with_the_recording(tmp_path: Path) -> None:
    block = random.Random(10).randbytes(100_000)
    ops = [Op(i % 5, data=block) for i in range(2000)]  # 200 MB
    make_recording(tmp_path / "rec", ops)
    command = [sys.executable, "-c", _BOUNDED, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    n, kilobytes = map(int, done.stdout.split())
    assert n == 2000
    assert kilobytes < 80_000
