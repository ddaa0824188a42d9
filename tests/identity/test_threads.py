"""Digests that are taken while several threads live: they are, they are equal, and what differs is the right thread's.

Runs in: pytest. May call: gdbrr record, gdbrr replay; GDBRR_IDENTITY_REPLAYS says how often.
Owns: the rows of docs/determinism.md that name it.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

from gdbrr.abi import lib
from gdbrr.ctl.digest import Digest
from gdbrr.demo.reader import Demo
from gdbrr.errors import EXIT_DESYNC
from gdbrr.timeline.leaf import views
from gdbrr.timeline.timeline import open_demo
from gdbrr.timeline.worker import Desynchronised
from harness import programs
from harness.run import Result, run

GDBRR = (sys.executable, "-m", "gdbrr")
REPLAYS = int(os.environ.get("GDBRR_IDENTITY_REPLAYS", "3"))
ORDERS = ("parallel", "serial", "random", "pct")
PROGRAMS = (
    *("two_threads", "sync_barrier", "sync_broadcast", "sync_cancel_wait", "sync_cond_kinds", "sync_detach"),
    *("sync_keys", "sync_queue", "sync_robust", "sync_rwlock", "sync_rwlock_try", "sync_sem", "sync_spin"),
    *("sync_timedlock", "signal_within", "signal_pthread_kill", "signal_rwlock", "leader_leaves", "libc_output"),
    "preempt",
)
"""Threads that wait for each other in every way, are stopped where they compute, and get signals meanwhile."""
BESIDE = {
    *("two_threads", "sync_barrier", "sync_broadcast", "sync_cancel_wait", "sync_cond_kinds", "sync_detach"),
    *("sync_queue", "sync_robust", "sync_rwlock", "sync_rwlock_try", "sync_sem", "sync_timedlock", "signal_within"),
    "signal_rwlock",
}
"""Those that are recorded in order `parallel` as well: with threads that live long, and without races."""
CASES = [(name, order) for name in PROGRAMS for order in ORDERS if order != "parallel" or name in BESIDE]

LOCAL = (0x10CA1).to_bytes(8, "little")
"""What a variable on the second thread's stack holds."""


def record(demo: Path, order: str, every: int, *words: str | Path) -> Result:
    return run(*GDBRR, "record", "--order", order, "-o", demo, f"--digest={every}", "--", *words)


def several(demo: Path) -> list[int]:
    """The ticks of the digests that were taken while several threads lived."""
    with Demo.open(demo) as opened:
        events = [event for event in opened.events() if event.kind == lib.GR_OP_DIGEST]
        found = [event.tick for event in events if len(Digest.parse(event.data).regs) > 1]
    told = json.loads(run(*GDBRR, "info", "--json", demo).expect(0).out)["digests"]
    assert told == {"taken": len(events), "several": len(found)}
    return found


def with_several(demo: Path, order: str, every: int, *words: str | Path, late: bool = False) -> Result:
    """A recording with such digests, LATE also towards its end. In order `parallel` they are left out for 0.4 s where
    somebody did not stand within 50 ms: on a busy machine that is all of a short program's life."""
    for _ in range(20):
        result = record(demo, order, every, *words)
        with Demo.open(demo) as opened:
            last = opened.ticks
        if several(demo)[-1:] > [last * 3 // 4 if late else -1]:
            return result
        assert order == "parallel", "no digest was taken while several threads lived"
    raise AssertionError("the machine is too busy")


@pytest.mark.limit(300)
@pytest.mark.parametrize(("name", "order"), CASES)
def test_states_of_several_threads_are_the_recording_s(name: str, order: str, tmp_path: Path) -> None:
    """INVARIANT(all-stand), INVARIANT(stands-as-replayed), and others of the state: each replay compares itself."""
    demo = tmp_path / "x.demo"
    first = with_several(demo, order, 4, programs.build(name))
    for _ in range(REPLAYS):
        result = run(*GDBRR, "replay", demo)
        assert result.out == first.out, result.describe()
        result.expect(first.status)


@pytest.mark.parametrize("order", ORDERS)
def test_ids_that_the_library_left_anywhere_are_no_difference(order: str, tmp_path: Path) -> None:
    """INVARIANT(no-id-by-chance): in frames of handlers and on stacks; of threads that have ended, too."""
    demo = tmp_path / "x.demo"
    first = with_several(demo, order, 1, programs.build("signal_ids")).expect(0)
    for _ in range(REPLAYS):
        assert run(*GDBRR, "replay", demo).expect(0).out == first.out


# ---------------------------------------------------------------- negative controls
@pytest.mark.parametrize("order", ORDERS[1:])
def test_control_a_number_beside_ids_is_named(order: str, tmp_path: Path) -> None:
    """INVARIANT(no-id-by-chance): what might be an id, and is not the recording's then."""
    demo = tmp_path / "x.demo"
    record(demo, order, 1, programs.build("signal_ids"), "counts").expect(0)
    told = run(*GDBRR, "replay", demo).expect(EXIT_DESYNC).err
    assert "the state differs in" in told and re.search(r"on that page .*the stack of thread \d\n", told), told


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("where", "name"),
    [
        ("global", "counter.* of unseen_threads"),
        ("heap", "heap blocks of 48 bytes"),
        ("stack", "the stack of thread 1"),
        ("thread-local", "thread-local memory of thread 1"),
    ],
)
def test_control_what_another_thread_keeps_is_named(where: str, name: str, order: str, tmp_path: Path) -> None:
    """By the replay alone, and by the skeleton of a timeline."""
    program, demo = programs.build("unseen_threads", ["-no-pie"]), tmp_path / "x.demo"
    with_several(demo, order, 4, program, where, late=True).expect(0)
    told = run(*GDBRR, "replay", demo).expect(EXIT_DESYNC).err
    assert "the state differs in 1 pages" in told and re.search(f"on that page .*{name}\n", told), told
    with open_demo(demo) as timeline:
        with pytest.raises(Desynchronised, match=rf"; on that page: .*{name}\. ") as caught:
            timeline.seek(timeline.end)
        assert 0 < caught.value.tick < timeline.end.tick


@pytest.mark.parametrize("order", ["parallel", "serial"])
def test_what_another_thread_keeps_nowhere_is_equal(order: str, tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    record(demo, order, 4, programs.build("unseen_threads", ["-no-pie"])).expect(0)
    assert run(*GDBRR, "replay", demo).expect(0).out == "end\n"


@pytest.mark.parametrize("order", ["parallel", "serial"])
def test_control_a_byte_of_another_thread_s_stack_in_a_leaf(order: str, tmp_path: Path) -> None:
    """Whoever passes a digest compares: here a copy that a checkpoint was woken to, whose first thread comes to one."""
    demo = tmp_path / "x.demo"
    program = programs.build("unseen_threads", ["-no-pie"])
    options = ("--set", "epochs.ticks=16", "--order", order, "--digest=4")
    run(*GDBRR, "record", "-o", demo, *options, "--", program).expect(0)
    with open_demo(demo) as timeline:
        timeline.seek(timeline.end).drop()
        worker = timeline._checkpoints._kept[-4].wake(lib.GR_LIVE_THREADS)
        (second,) = [view for view in views(worker.pid, 2) if view.index == 1]
        with open(f"/proc/{worker.pid}/mem", "r+b", buffering=0) as memory:
            pointer = second.regs["rsp"]
            local = pointer + os.pread(memory.fileno(), 256, pointer).index(LOCAL)
            assert os.pwrite(memory.fileno(), b"\x55", local) == 1
        with pytest.raises(Desynchronised, match="on that page: the stack of thread 1"):
            worker.run(timeline.end.tick)
        worker.drop()
