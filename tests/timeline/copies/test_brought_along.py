"""What a copy brings along: pending signals, threads as a debugger's library knows them; and who may make no more.

Runs in: pytest. May call: gdbrr record, the timeline, gdb.
Owns: nothing.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gdbrr.abi import lib
from gdbrr.timeline.model import Moment, Point, PointKind
from gdbrr.timeline.timeline import open_demo
from harness import programs, users
from harness.run import gdbrr, run

from ..conftest import BOTH_WAYS, Program, children, word

EPOCHS = ("--set", "epochs.ticks=16")


# ---------------------------------------------------------------- signals
@pytest.mark.parametrize("points", BOTH_WAYS)
@pytest.mark.parametrize("order", ["parallel", "serial"])
def test_signals_that_are_pending_at_a_checkpoint(order: str, points: str, tmp_path: Path) -> None:
    """They are the recording's: of the process, of a thread, queued with values, waited for. A woken copy has none of
    the kernel's, and does not need them."""
    program, demo = Program("signal_pending"), tmp_path / "x.demo"
    options = (*EPOCHS, "--order", order, "--set", f"points={points}")
    told = gdbrr("record", "-o", demo, *options, "--", program.path).expect(0).out
    assert "ours d theirs f" in told and "values 123 waited 1 left 0, from itself" in told, told
    handled = told.split("handled ")[1].split()[0]
    assert sorted(handled) == [*"12333"]
    place = Point(PointKind.CHANGE, program.symbols["handled"], 8)
    with open_demo(demo, check=True) as timeline:
        assert timeline.verify() > 20
        hits = timeline.all_hits([place])
        assert [hit.new for hit in hits] == [int(handled[: count + 1]) for count in range(5)]
        pending = [kept for kept in timeline._checkpoints._kept if 16 < kept.tick < hits[1].moment.tick]
        assert len(pending) > 10
        for kept in pending[::4]:
            worker = kept.wake(lib.GR_LIVE_THREADS)
            assert worker.run(timeline.end.tick) == lib.GR_S_ENDED
            found = [int.from_bytes(worker.read(program.symbols[name], 8), "little") for name in ("handled", "values")]
            assert found == [int(handled), 123], kept.tick
            worker.drop()
        for hit in hits:  # and in front of each handler's own store
            leaf = timeline.seek(hit.moment)
            assert (word(leaf, place.addr, 8), leaf.thread) == (hit.old, hit.thread)
            leaf.drop()
    assert not children()


# ---------------------------------------------------------------- exceptions
@pytest.mark.needs("g++")
@pytest.mark.parametrize("order", ["parallel", "serial"])
def test_exceptions_and_objects_of_threads_go_on_in_a_copy(order: str, tmp_path: Path) -> None:
    """Woken while each thread handles one exception or two, which is thrown on; then the threads' objects end."""
    program, demo = Program("brought_cxx"), tmp_path / "x.demo"
    told = gdbrr("record", "-o", demo, *EPOCHS, "--order", order, "--", program.path).expect(0).out
    assert told == "4 ended, 12 caught, 510\n"
    with open_demo(demo, check=True) as timeline:
        assert timeline.verify() > 5
        for kept in timeline._checkpoints._kept[1:]:
            worker = kept.wake(lib.GR_LIVE_THREADS)
            assert worker.run(timeline.end.tick) == lib.GR_S_ENDED
            found = [
                int.from_bytes(worker.read(program.symbols[name], 8), "little") for name in ("ended", "caught", "sum")
            ]
            assert found == [4, 12, 510], kept.tick
            worker.drop()
    assert not children()


# ---------------------------------------------------------------- threads
@pytest.mark.needs("gdb")
def test_the_library_for_debuggers_knows_the_threads_of_a_copy(tmp_path: Path) -> None:
    """libthread_db compares what the C library says of its threads with the kernel's ids, and finds their variables."""
    program, demo, count = programs.build("matrix", ["-no-pie"]), tmp_path / "x.demo", 8
    gdbrr("record", "-o", demo, *EPOCHS, "--", program, str(count)).expect(0)
    with open_demo(demo) as timeline:
        seen = 0
        for tick in range(timeline.end.tick // 4, timeline.end.tick, timeline.end.tick // 4):
            leaf = timeline.seek(Moment(tick))
            views = leaf.threads()
            asked = ("info threads", "thread apply all print own")
            words = [word for command in asked for word in ("-ex", command)]
            out = run("gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off", *words, program, str(leaf.pid)).out
            known = {int(tid) for tid in re.findall(r"Thread 0x[0-9a-f]+ \(LWP (\d+)\)", out)}
            assert known == {view.tid for view in views}, out
            numbers = re.findall(r"^\s*\*?\s*(\d+) +Thread 0x[0-9a-f]+ \(LWP (\d+)\)", out, re.MULTILINE)
            index = {number: view.index for number, tid in numbers for view in views if view.tid == int(tid)}
            blocks = dict(re.findall(r"^Thread (\d+)[^\n]*\n\$\d+ = (-?\d+)$", out, re.MULTILINE))
            own = {index[number]: int(value) for number, value in blocks.items()}
            assert own.keys() == {view.index for view in views}, out
            # its number and how often it has read so far; 0 where it has not begun
            read = {thread: value - (thread - 1) for thread, value in own.items() if thread and value}
            assert all(0 <= times <= 6 for times in read.values()), own
            seen += sum(times > 0 for times in read.values())
            assert timeline.seek(Moment(tick)).tick == tick
            leaf.drop()
        assert seen
    assert not children()


# ---------------------------------------------------------------- a limit of processes
ALLOWED = 12
"""Processes and threads: two of the server, three of the skeleton and of each woken copy, one of each checkpoint."""
REFUSED = r"\.(NoProcess|Busy|GdbrrError): (this machine refuses another|no new) (process|thread).*"
REFUSED += r"(`ulimit -u`|End some)"
LIMITED = """
import resource, sys
import gdbrr
from gdbrr.errors import GdbrrError
from gdbrr.timeline.model import Moment, Point, PointKind

demo, address, allowed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_NPROC, (allowed, allowed))
counter = Point(PointKind.CHANGE, address, 4)
with gdbrr.open(demo) as timeline:
    leaf = timeline.seek(timeline.end)
    print("end", int.from_bytes(leaf.read(address, 4), "little"))
    leaf.drop()
    before, values = timeline.end, []
    while len(values) < 42:
        hit = timeline.last_hit([counter], before)
        values.append(hit.new)
        before = hit.moment
    print("hits", *values)
    print("checkpoints", len(timeline.checkpoints), "of", len(timeline.epochs))
    held = []
    try:
        while len(held) < allowed:
            held.append(timeline.seek(Moment(40)))
    except GdbrrError as error:
        print("refused:", error.message, "|", error.hint)
    for leaf in held:
        leaf.drop()
    print("again", timeline.seek(Moment(40)).tick)
"""


@pytest.mark.needs("any_user")
@pytest.mark.parametrize("points", BOTH_WAYS)
def test_where_the_kernel_allows_no_more_processes_checkpoints_go(points: str) -> None:
    """INVARIANT(copies-go-first). Root is not limited, so somebody else does it, of whom there is nothing but this."""
    program, user = Program("moments"), users.lonely()
    with users.place(user) as place:
        own = place / "moments"
        own.write_bytes(program.path.read_bytes())
        own.chmod(0o755)
        words = ("record", "-o", "x.demo", *EPOCHS, "--set", f"points={points}", "--", own)
        users.as_user(user, "-m", "gdbrr", *words, cwd=place).expect(0)
        place_of = str(program.symbols["counter"])
        told = users.as_user(user, "-c", LIMITED, "x.demo", place_of, str(ALLOWED), cwd=place).expect(0)
        few = [users.as_user(user, "-c", LIMITED, "x.demo", place_of, str(most), cwd=place) for most in (1, 2, 3, 6)]
    lines = dict(line.split(" ", 1) for line in told.out.splitlines())
    assert lines["end"] == "340" and lines["hits"].split() == [str(value) for value in range(340, 298, -1)]
    kept, epochs = (int(number) for number in re.findall(r"\d+", lines["checkpoints"]))
    assert 2 <= kept < ALLOWED and kept < epochs
    assert re.match(
        r"this machine refuses another (process|thread) \(error 11\) \| raise `ulimit -u`", lines["refused:"]
    )
    assert lines["again"] == "40"
    for done in few:  # fewer than the program itself has, and who replays it
        last = done.expect(1).err.splitlines()[-1]
        assert re.search(REFUSED, last), done.err


LATE = """
import resource, sys
import gdbrr
from gdbrr.timeline.model import Point, PointKind

demo, address, allowed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_NPROC, (allowed, allowed))
with gdbrr.open(demo) as timeline:
    leaf = timeline.seek(timeline.end)
    print("end", int.from_bytes(leaf.read(address, 4), "little"))
    leaf.drop()
    print("hits", len(timeline.all_hits([Point(PointKind.CHANGE, address, 4)])))
    print("checkpoints", len(timeline.checkpoints), "of", len(timeline.epochs))
"""


@pytest.mark.needs("any_user")
@pytest.mark.parametrize("points", BOTH_WAYS)
def test_threads_that_are_made_late_find_room(points: str) -> None:
    """INVARIANT(copies-go-first): the skeleton needs them when checkpoints have taken all there is. Without it the demo
    was lost: the skeleton was refused a thread for good. There must be room for nine threads, two tasks of the server,
    the first process, which stays until all end, two checkpoints and a tracer."""
    program, user = Program("late_threads"), users.lonely()
    with users.place(user) as place:
        own = place / "late_threads"
        own.write_bytes(program.path.read_bytes())
        own.chmod(0o755)
        words = ("record", "-o", "x.demo", *EPOCHS, "--set", f"points={points}", "--", own, "8")
        users.as_user(user, "-m", "gdbrr", *words, cwd=place).expect(0)
        address = str(program.symbols["count"])
        for allowed in (15, 17, 40):
            told = users.as_user(user, "-c", LATE, "x.demo", address, str(allowed), cwd=place).expect(0)
            lines = dict(line.split(" ", 1) for line in told.out.splitlines())
            assert lines["end"] == "80" and lines["hits"] == "80"
            kept, epochs = (int(number) for number in re.findall(r"\d+", lines["checkpoints"]))
            assert 2 <= kept < allowed and kept < epochs
        few = users.as_user(user, "-c", LATE, "x.demo", address, "12", cwd=place).expect(1)
    assert re.search(REFUSED, few.err.splitlines()[-1]), few.err
