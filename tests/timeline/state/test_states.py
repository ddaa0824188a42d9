"""The state at each checkpoint is compared between the skeleton and whoever comes there again."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from gdbrr.abi import lib
from gdbrr.ctl import changes
from gdbrr.errors import EXIT_DESYNC
from gdbrr.timeline.hits import Pass
from gdbrr.timeline.model import Moment, Point, PointKind
from gdbrr.timeline.state.states import Differs, State, States, differences, state_of
from gdbrr.timeline.step.points import pieces_of
from gdbrr.timeline.timeline import DemoTimeline, open_demo
from gdbrr.timeline.worker import Desynchronised
from harness import programs
from harness.run import gdbrr

from ..conftest import BOTH_WAYS, Program, children, in_epochs, recorded

EPOCHS = ("--set", "epochs.ticks=16")
PROGRAMS = (
    "moments",
    "model",
    "grows",
    "calls_libc_threads",
    "one_by_one",
    "sync_main_leaves",
    "sync_cxx_future",
    "sync_detach_ends",
)
ATOMIC = {"sync_cxx_future"}
"""The state of a std::future is an atomic in the program's own code, whose order is in no parallel recording."""


def states_of(timeline: DemoTimeline) -> States:
    found = timeline._checkpoints.states
    assert found
    return found


def alter(pid: int, address: int, value: bytes) -> None:
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        assert os.pwrite(memory.fileno(), value, address) == len(value)


# ---------------------------------------------------------------- equal
@pytest.mark.parametrize(
    ("name", "order"), [(name, order) for name in PROGRAMS for order in ("parallel", "serial")[name in ATOMIC :]]
)
def test_every_stretch_ends_in_the_same_state(name: str, order: str, tmp_path: Path) -> None:
    demo = recorded(programs.build(name), tmp_path, *EPOCHS, "--order", order)
    with open_demo(demo, check=True) as timeline:
        compared = timeline.verify()
        known = states_of(timeline).ticks
        assert compared == len(known) - 1  # nobody comes to the first one again
        assert known[-1] == timeline.end.tick and compared >= 3
        assert timeline.verify() >= compared
    assert not children()


@pytest.mark.parametrize("points", BOTH_WAYS)
def test_searches_compare_where_they_come_to_a_checkpoint(
    points: str, moments_program: Program, tmp_path: Path
) -> None:
    counter = Point(PointKind.CHANGE, moments_program.symbols["counter"], 4)
    with open_demo(in_epochs(moments_program.path, tmp_path, points), check=True) as timeline:
        assert len(timeline.all_hits([counter], exact=False)) == 340
        assert (
            states_of(timeline).compared > len(timeline.checkpoints) // 2
        )  # the others were left out: nobody wrote there
        assert timeline.last_hit([counter])
    assert not children()


@pytest.mark.parametrize("order", ["parallel", "serial"])
def test_operations_without_a_frame_leave_what_those_with_one_do(order: str, tmp_path: Path) -> None:
    """Where a point is armed each operation has its frame; where nobody looks most that are only counted have none."""
    program = Program("sync_edges")
    demo = recorded(program.path, tmp_path, "--set", "epochs.ticks=777", "--order", order)
    address = program.symbols["common"] + 40
    number = Point(PointKind.CHANGE, address, 8)
    with open_demo(demo, check=True) as timeline:
        assert timeline.verify() > 20
        compared = states_of(timeline).compared
        hits = timeline.all_hits([number], exact=False)
        assert len(hits) > 100 and states_of(timeline).compared > compared + 10
        for hit in hits[:: len(hits) // 10]:
            word = timeline.seek(Moment(hit.moment.tick + 1)).read(address, 8)
            assert int.from_bytes(word, "little") == hit.new
    assert not children()


def test_a_profile_can_want_it(moments_program: Program, tmp_path: Path) -> None:
    demo = recorded(moments_program.path, tmp_path, *EPOCHS, "--set", "check=on")
    with open_demo(demo) as timeline:
        assert timeline.verify() > 3
    with open_demo(demo, check=False) as timeline, pytest.raises(Exception, match="not kept"):
        timeline.verify()


def test_only_what_changed_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte changes in every fifth epoch or so; the states are those of looks at everything."""
    demo = recorded(programs.build("untouched", ["-no-pie"]), tmp_path, *EPOCHS)
    seen: list[dict[int, State]] = []
    pages: list[int] = []
    for whole in (False, True):
        if whole:
            monkeypatch.setattr(changes, "pages_are_merged", lambda: True)
        with open_demo(demo, check=True) as timeline:
            timeline.seek(timeline.end).drop()
            states = states_of(timeline)
            seen.append(dict(states._known))
            pages.append(states.looked)
            timeline.verify()
    both = (seen[0].keys() & seen[1].keys()) - {
        0
    }  # in front of the first operation the loader's stack is not cleared yet
    assert len(both) > 15 and all(seen[0][tick].memory == seen[1][tick].memory for tick in both)
    assert pages[0] * 3 < pages[1]


# ---------------------------------------------------------------- controls: what differs is found, and has its name
def test_control_a_byte_of_a_leaf(moments_program: Program, tmp_path: Path) -> None:
    address = moments_program.symbols["filled"] + 40
    with open_demo(recorded(moments_program.path, tmp_path, *EPOCHS), check=True) as timeline:
        timeline.seek(timeline.end).drop()
        source, behind = timeline._checkpoints._kept[-2:]
        worker = source.wake(lib.GR_LIVE_THREADS)
        alter(worker.pid, address, b"\x55")
        with pytest.raises(Differs) as caught:
            worker.run(behind.tick)
        worker.drop()
        assert caught.value.tick == behind.tick and caught.value.exit_code == EXIT_DESYNC
        (what,) = caught.value.what
        assert what.startswith(f"{address:#x} (filled+0x28 of moments") and "not 0x707070707070707" in what
        assert timeline.verify() > 3  # the others are as they were
    assert not children()


@pytest.mark.parametrize("byte", [0, 1, 3])
def test_control_a_byte_of_a_checkpoint(byte: int, moments_program: Program, tmp_path: Path) -> None:
    """Whichever byte of a number differs, the number is named as it is shown."""
    address = moments_program.symbols["calls"] + byte
    with open_demo(recorded(moments_program.path, tmp_path, *EPOCHS), check=True) as timeline:
        timeline.seek(timeline.end).drop()
        place = len(timeline._checkpoints._kept) // 2
        alter(timeline._checkpoints._kept[place].pid, address, b"\x01")
        told = rf"{address:#x} \(calls of moments\S*\) is {1 << 8 * byte:#x}, not 0x0"
        with pytest.raises(Differs, match=told) as caught:
            timeline.verify()
        assert caught.value.tick == timeline.checkpoints[place + 1]
    assert not children()


@pytest.mark.parametrize(
    ("where", "name"), [("g", "counter of unseen"), ("h", "heap block 0x"), ("s", "the stack of thread 0")]
)
def test_control_what_is_not_recorded_is_found(where: str, name: str, tmp_path: Path) -> None:
    """A program that keeps what gdbrr does not see, and prints nothing of it: nothing else notices."""
    program, demo = programs.build("unseen", ["-no-pie"]), tmp_path / "x.demo"
    gdbrr("record", "-o", demo, *EPOCHS, "--", program, where).expect(0)
    gdbrr("replay", demo).expect(0)
    told = gdbrr("replay", "--check", demo).expect(EXIT_DESYNC).err
    with open_demo(demo, check=True) as timeline, pytest.raises(Differs) as caught:
        timeline.verify()
    assert name in caught.value.what[0] and name in told and "is not what it was the first time" in told
    assert len(caught.value.what) == 1 and ("of 48 bytes" in told) == (where == "h")


def test_what_is_recorded_is_equal(tmp_path: Path) -> None:
    demo = recorded(programs.build("unseen"), tmp_path, *EPOCHS)
    done = gdbrr("replay", "--check", demo).expect(0)
    assert done.out == "end 0\n" and "the state was the same at 6 places" in done.err


def test_control_a_register(moments_program: Program, tmp_path: Path) -> None:
    """Registers are not written from outside; so two ticks are taken for one."""
    with open_demo(recorded(moments_program.path, tmp_path, *EPOCHS), check=True) as timeline:
        one, other = (timeline.seek(Moment(tick)) for tick in (3, 60))
        told = list(differences(one._worker, other._worker, len(timeline.demo.threads)))
        assert any(what.startswith("rip of thread 0 is") for what in told)
        assert state_of(one._worker.slot)[0].registers != (state_of(other._worker.slot)[0].registers)


def test_a_copy_of_a_copy_keeps_what_changed_in_between(moments_program: Program, tmp_path: Path) -> None:
    """INVARIANT(hashed-then-copied)."""
    with open_demo(recorded(moments_program.path, tmp_path, *EPOCHS), check=True) as timeline:
        timeline.seek(timeline.end).drop()
        source, behind = timeline._checkpoints._kept[-2:]
        worker = source.wake(lib.GR_LIVE_THREADS)
        alter(worker.pid, moments_program.symbols["filled"], b"\x55")
        copy = worker.freeze()  # the hashes are brought up to date here
        worker.drop()
        again = copy.wake(lib.GR_LIVE_THREADS)
        with pytest.raises(Differs, match="filled of moments"):
            again.run(behind.tick)
        again.drop()
        copy.drop()
    assert not children()


def test_what_is_recorded_with_digests_is_equal(tmp_path: Path) -> None:
    demo = recorded(programs.build("unseen"), tmp_path, *EPOCHS, "--digest=10")
    told = gdbrr("replay", "--check", demo).expect(0).err
    with open_demo(demo, check=True) as timeline:
        compared, digests = timeline.verify(), timeline.digests
    assert compared > 3 and digests > 5
    assert f"the same at {compared} places that were compared, and the recording's at {digests} places" in told
    with open_demo(recorded(programs.build("unseen"), tmp_path, *EPOCHS), check=True) as timeline:
        assert timeline.digests == 0


def test_a_lock_of_the_c_library_leaves_one_state_by_stub_and_by_trap(tmp_path: Path) -> None:
    """INVARIANT(no-trace-of-stubs): recordings have stubs, timelines traps."""
    demo = recorded(programs.build("sync_queue"), tmp_path, *EPOCHS, "--order", "serial", "--digest=1")
    with open_demo(demo, check=True) as timeline:
        assert timeline.verify() > 3 and timeline.digests > 100


@pytest.mark.parametrize(
    ("where", "name"),
    [("g", "counter.* of unseen"), ("h", "heap blocks of 48 bytes"), ("s", "the stack of thread 0")],
)
def test_control_a_recording_with_digests_is_compared_by_the_skeleton(where: str, name: str, tmp_path: Path) -> None:
    """INVARIANT(pages-are-recorded): of what differs the page is known, and what stands there."""
    program, demo = programs.build("unseen", ["-no-pie"]), tmp_path / "x.demo"
    gdbrr("record", "-o", demo, *EPOCHS, "--digest=10", "--", program, where).expect(0)
    told = gdbrr("replay", demo).expect(EXIT_DESYNC).err
    assert "the state differs in 1 pages" in told and re.search(f"on that page .*{name}\n", told)
    with open_demo(demo) as timeline:
        with pytest.raises(Desynchronised, match=rf"; on that page: .*{name}\. ") as caught:
            timeline.seek(timeline.end)
        assert 0 < caught.value.tick < timeline.end.tick
    assert not children()


def test_a_recording_with_digests_is_compared_in_leaves(tmp_path: Path) -> None:
    """What the demo knows of the state: whoever passes there compares, the skeleton and the leaves."""
    program = Program("grows")
    demo = recorded(program.path, tmp_path, *EPOCHS, "--set", "digest=10")
    with open_demo(demo, check=True) as timeline:
        assert timeline.verify() > 3
        source = timeline._checkpoints._kept[-3]
        worker = source.wake(lib.GR_LIVE_THREADS)
        area = next(line for line in Path(f"/proc/{worker.pid}/maps").read_text().splitlines() if "[stack]" in line)
        address = int(area.split()[0].split("-")[1], 16) - 16
        alter(worker.pid, address, b"\x55")
        told = "the state differs in 1 pages of memory.*; on that page: the stack of thread 0"
        with pytest.raises(Desynchronised, match=told):
            worker.run(timeline.end.tick)
        worker.drop()
        # And in a search's, whose process is a copy of one that was altered.
        altered = source.wake(lib.GR_LIVE_THREADS)
        alter(altered.pid, address, b"\x55")
        copy = altered.freeze()
        altered.drop()
        pieces = pieces_of(Point(PointKind.EXEC, program.symbols["main"]))
        run = Pass(copy, timeline._order, pieces, timeline.end.tick, None)
        with pytest.raises(Desynchronised, match=told):
            run.wait(None, "searching", 0)
        run.drop()
        copy.drop()
    assert not children()
