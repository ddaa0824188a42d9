"""The program's heap: blocks lie where they lay, memory comes back, and nothing is logged for a single allocation.

Runs in: pytest. May call: gdbrr record, gdbrr replay.
Owns: the heap's rows of docs/determinism.md.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from fuzz.recordings import Op
from gdbrr.abi import lib
from gdbrr.demo.reader import Demo
from gdbrr.errors import EXIT_DESYNC
from gdbrr.launch import engine
from gdbrr.timeline.state import places
from harness import ROOT, needs, programs, users
from harness.run import gdbrr, run
from replay.alter import alter
from replay.test_spine import record, recorded, replay


def test_layout_differs_from_run_to_run_without_the_engine() -> None:
    program = programs.build("heap_threads")
    assert len({run(program).expect(0).out for _ in range(4)}) > 1


@pytest.mark.parametrize("name", ["heap_threads", "heap_churn"])
def test_blocks_lie_where_they_lay(name: str, tmp_path: Path) -> None:
    demo, first = recorded(name, tmp_path)
    for _ in range(3):
        assert replay(demo).expect(0).out == first.out


def test_no_wish_for_an_address_takes_the_place_of_a_heap(tmp_path: Path) -> None:
    """V8 wishes for random addresses, some of which are where a further thread's heap will be."""
    demo, first = recorded("map_wishes", tmp_path)
    assert first.out == "16\n"
    assert replay(demo).expect(0).out == first.out


def test_a_gigabyte_goes_through_and_the_process_stays_small(tmp_path: Path) -> None:
    _, first = recorded("heap_churn", tmp_path)
    assert "small" in first.out


@pytest.mark.parametrize("order", ["parallel", "serial"])
def test_threads_that_ended_take_no_memory(order: str, tmp_path: Path) -> None:
    """INVARIANT(log-is-no-burden). Of the log each has 4 KiB for itself, which stay in the file alone: 16 MB of 4,000
    threads. What the engine has of each is used again from the 1,024th on."""
    program, demo = programs.build("heap_births"), tmp_path / "x.demo"
    done = gdbrr("record", "--order", order, "-o", demo, "--", program, "1100", "4000").expect(0)
    assert int(done.err.split()[0]) < 2000
    assert gdbrr("replay", "--quiet", demo).status == 0


def test_what_was_only_looked_through_takes_no_memory(tmp_path: Path) -> None:
    """INVARIANT(one-thread-yet). When a second thread is made, all of libc is: a megabyte of it stayed, where now
    it is half a megabyte more with all that the engine has."""
    program, demo = programs.build("heap_births"), tmp_path / "x.demo"
    native = int(run(program, "1", "1").expect(0).err.split()[1])
    recorded = int(gdbrr("record", "-o", demo, "--", program, "1", "1").expect(0).err.split()[1])
    assert recorded - native < 1100
    assert gdbrr("replay", "--quiet", demo).status == 0


@pytest.mark.parametrize("limit", [(), ("prlimit", f"--data={1 << 30}")])
def test_addresses_are_no_memory(limit: tuple[str, ...], tmp_path: Path) -> None:
    """INVARIANT(addresses-are-no-memory): neither to a program that goes through its mappings, nor where it locks them,
    nor for a limit. Each of nine heaps has 32 GiB of addresses."""
    words = (*limit, sys.executable, "-m", "gdbrr", "record", "-o", tmp_path / "x.demo", "--")
    assert run(*words, programs.build("heap_grows"), env=users.environment()).expect(0).out == "less than a gigabyte\n"
    assert replay(tmp_path / "x.demo").expect(0).out == "less than a gigabyte\n"


def test_allocations_are_not_logged(tmp_path: Path) -> None:
    """58,000 allocations and as many releases of all sizes: only the exchanges between heaps are operations.

    How many there are depends on the schedule, on who frees what another allocated; mostly it is some hundred. At the
    worst, small blocks make 15,000, because they change hands in batches; and one block in six is large: should each of
    these come from the pool and go there, some in three parts, that makes 21,000.
    """
    demo, _ = recorded("heap_threads", tmp_path)
    with Demo.open(demo) as opened:
        exchanges = sum(event.kind == lib.GR_OP_HEAP for event in opened.events())
    assert 0 < exchanges < 40_000


def test_the_allocator_works_where_the_engine_is_off(tmp_path: Path) -> None:
    """A child of a recorded program, or a library that somebody preloads by hand."""
    library = engine.find().library
    for name in ("heap_threads", "heap_churn"):
        result = run(programs.build(name), env={"LD_PRELOAD": str(library)}).expect(0)
        assert re.search(r"\w", result.out)


@pytest.mark.needs("jemalloc")
@pytest.mark.parametrize("order", ["serial", "random"])
def test_an_allocator_that_the_program_brings_along(order: str, tmp_path: Path) -> None:
    """One thread at a time: jemalloc has atomics of its own, whose order is not in a parallel recording."""
    library = needs.jemalloc()
    assert library
    program = programs.build("heap_own", ["-Wl,--no-as-needed", library])
    demo = tmp_path / "x.demo"
    first = gdbrr("record", "--order", order, "-o", demo, "--", program).expect(0)
    for _ in range(2):
        assert gdbrr("replay", demo).expect(0).out == first.out


def test_what_names_blocks_cuts_spans_as_the_heap_does() -> None:
    header = (ROOT / "preload" / "heap" / "heap.h").read_text()
    found = dict(re.findall(r"#define (GR_\w+) (0x[0-9a-f]+|\d+)", header))
    assert int(found["GR_SPAN_PAGES"]) == places._SPAN_PAGES
    assert int(found["GR_HEAPS"]) == places._HEAPS
    assert int(found["GR_HEAP_REGION"], 16) == places._REGION
    assert places._class_size(int(found["GR_CLASSES"]) - 1) == int(found["GR_SMALL_MAX"])


FORKING = """
import os
pid = os.fork()
blocks = [bytes(n) for n in range(20000)]
os.write(1, f"{'child' if pid == 0 else 'parent'} {sum(map(len, blocks))}\\n".encode())  # in one piece
os._exit(0) if pid == 0 else os.waitpid(pid, 0)
"""


def test_a_forked_child_of_a_recorded_program_allocates(tmp_path: Path) -> None:
    demo = tmp_path / "fork.demo"
    first = record(Path("/usr/bin/python3"), demo, arguments=["-c", FORKING]).expect(0)
    assert "child" in first.out and "parent" in first.out
    assert replay(demo).expect(0).out in first.out


# ---------------------------------------------------------------- negative controls
def exchanges_dropped(ops: list[Op]) -> list[Op]:
    return [op for op in ops if op.kind != lib.GR_OP_HEAP]


def another_heap(ops: list[Op]) -> list[Op]:
    """A thread begins with a heap that it never had: every address it is given differs."""
    [op for op in ops if op.kind == lib.GR_OP_START][1].object = 40
    return ops


def test_control_without_the_exchanges_the_replay_is_reported(tmp_path: Path) -> None:
    demo, _ = recorded("heap_threads", tmp_path)
    replay(alter(demo, tmp_path / "altered.demo", exchanges_dropped)).expect(EXIT_DESYNC)


def test_control_other_heaps_give_other_addresses(tmp_path: Path) -> None:
    demo, first = recorded("heap_threads", tmp_path)
    assert replay(alter(demo, tmp_path / "altered.demo", another_heap)).out != first.out
