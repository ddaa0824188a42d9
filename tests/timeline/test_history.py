"""Histories: every hit, in order, with its moment; conditions, threads, counts; what the processor does not see."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gdbrr
from gdbrr.errors import GdbrrError
from gdbrr.rsp.process.history import Changes, changes
from gdbrr.timeline.checkpoints import Checkpoints
from gdbrr.timeline.hits import Pass
from gdbrr.timeline.model import Interrupted, Moment, Point, PointKind
from gdbrr.timeline.step.code import always_stores, leads_on
from gdbrr.timeline.step.points import WIDEST, WIDEST_WRITE, groups_of
from gdbrr.timeline.timeline import DemoTimeline
from gdbrr.timeline.worker import Checkpoint
from harness import ROOT
from harness.run import run

from .conftest import BOTH_WAYS, Program, in_epochs, standing, whole, word

PLACE = 0x30000000
VALUES = [*range(1, 3042)]
MASK = (1 << 64) - 1


@pytest.fixture(scope="module")
def program() -> Program:
    return Program("hits")


@pytest.fixture(scope="module", params=BOTH_WAYS)
def demo(request: pytest.FixtureRequest, program: Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return in_epochs(program.path, tmp_path_factory.mktemp("hits"), request.param)


@pytest.fixture
def opened(demo: Path) -> Iterator[DemoTimeline]:
    with whole(demo) as timeline:
        yield timeline


@pytest.fixture
def value(program: Program) -> Point:
    return Point(PointKind.CHANGE, program.symbols["value"], 4)


# ---------------------------------------------------------------- agent bytecode, as GDB compiles it
def const(number: int) -> bytes:
    return b"\x25" + number.to_bytes(8, "big")


def ref32(address: int) -> bytes:
    return const(address) + b"\x19"


EQUAL, LESS, REM, NOT, END, DIV, TRACE = b"\x13", b"\x15", b"\x08", b"\x0e", b"\x27", b"\x05", b"\x0c"


# ---------------------------------------------------------------- all of them
def test_no_hit_is_lost_though_there_are_more_than_a_log_holds(opened: DemoTimeline, value: Point) -> None:
    hits = opened.all_hits([value])
    assert [hit.new for hit in hits] == VALUES
    assert [hit.old for hit in hits] == [0, *VALUES[:-1]]
    assert {hit.thread for hit in hits[:3001]} == {0} and {hit.thread for hit in hits[3001:]} == {1, 2}
    by_kernel = [hit for hit in hits if hit.moment.pc is None]
    assert [hit.new for hit in by_kernel] == [3001]
    # Landing in front of some of them: the value is the old one.
    for hit in (hits[0], hits[1500], hits[2999], hits[3000], hits[3001], hits[-1]):
        leaf = opened.seek(hit.moment)
        assert (word(leaf, value.addr), leaf.thread) == (hit.old, hit.thread)
        leaf.drop()
    assert hits == opened.all_hits([value]) == opened.all_hits([value], after=hits[0].moment)
    assert opened.ordered([hit.moment for hit in hits[::-50]]) == sorted(
        (hit.moment for hit in hits[::-50]), key=lambda moment: (moment.tick, moment.nth)
    )


def test_a_list_of_changes_is_that_of_single_searches(opened: DemoTimeline, value: Point) -> None:
    """As rr-history asks for them: newest first, some at a time, and cut short now and then."""

    def quietly(what: str, fraction: float) -> None:
        pass

    def interrupted(what: str, fraction: float) -> None:
        raise Interrupted("interrupted")

    listed, before, rows = Changes(opened, value, opened.end), opened.end, []
    with pytest.raises(Interrupted):
        listed.rows(before, 7, interrupted)
    while not rows or "moment" in rows[-1]:
        assert listed.know(opened, value, before)
        rows += listed.rows(before, 500, quietly)
        before = Moment.parse(rows[-1].get("moment", "0"))
    assert rows.pop() == {"begin": True, "born": False}
    assert [int.from_bytes(bytes.fromhex(row["old"]), "little") for row in rows] == [0, *VALUES[:-1]][::-1]
    for at in (0, 20, 39, 40, 41, 42, 1500, len(rows) - 1):
        before = Moment.parse(rows[at - 1]["moment"]) if at else opened.end
        assert changes(opened, [value], before, quietly) == rows[at]
        assert listed.rows(before, 1, quietly) == [rows[at]]
    assert not listed.know(opened, value, Moment(1))


def test_moments_of_a_history_are_those_of_single_searches(opened: DemoTimeline, value: Point) -> None:
    hits = opened.all_hits([value])
    for number in (1, 2, 41, 42, 3041):
        assert opened.last_hit([value], count=number) == hits[-number]
    assert opened.last_hit([value], count=3042) is None
    middle = hits[1234]
    assert opened.last_hit([value], middle.moment) == hits[1233]
    assert opened.all_hits([value], before=middle.moment) == hits[:1234]
    assert opened.all_hits([value], after=middle.moment) == hits[1234:]
    assert opened.all_hits([value], after=middle.moment, before=hits[1240].moment) == hits[1234:1240]


def test_among_many_hits_a_search_goes_for_the_later_half(
    opened: DemoTimeline, value: Point, monkeypatch: pytest.MonkeyPatch
) -> None:
    hits = opened.all_hits([value])
    monkeypatch.setattr("gdbrr.timeline.search.MANY", 3)
    halves: list[int] = []
    between = Checkpoints.between

    def counted(self: Checkpoints, source: Checkpoint, tick: int) -> Checkpoint | None:
        assert source.tick < tick <= opened.end.tick
        halves.append(tick)
        return between(self, source, tick)

    monkeypatch.setattr(Checkpoints, "between", counted)
    ticks = opened.checkpoints
    for number in (1, 2, 30, 41, 42, 3041):
        assert opened.last_hit([value], count=number) == hits[-number]
    assert opened.last_hit([value], count=3042) is None
    for place in (3035, 3020, 1234):
        assert opened.last_hit([value], hits[place].moment) == hits[place - 1]
    others = [Point(PointKind.WRITE, value.addr + 4 * at, 4) for at in range(1, 8)]  # in several passes
    found = opened.last_hit([*others, value], hits[3020].moment)
    assert found and (found.moment == hits[3019].moment or found.point in others)
    assert halves and {*ticks} <= {*opened.checkpoints} and len(opened.checkpoints) <= opened._checkpoints._most


def test_what_may_stand_in_front_of_an_instruction() -> None:
    store, back, end = b"\x48\x89\x05\x01\x02\x03\x04", b"\xeb\x05", b"\x90" * 15
    code = b"\xcc" * 8 + store + end
    assert leads_on(code, -7) and leads_on(code, -6)  # without its prefix it is another one, of the same end
    assert not leads_on(code, -4) and not leads_on(code, -8)
    assert not leads_on(b"\x90" * 13 + back + end, -2)  # a jump leads elsewhere
    assert not leads_on(b"\xcc" * 10 + b"\x05\x01\x02\x03\x04" + end, -5)  # adds a constant to a register
    assert leads_on(b"\x90" * 14 + b"\x06" + end, -1)  # unknown to the decoder


def test_a_variable_that_is_stored_to_by_its_address_needs_no_second_run(
    opened: DemoTimeline, value: Point, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[int] = []
    begin = Pass.__init__

    def counted(self: Pass, *arguments: object, **more: object) -> None:
        runs.append(1)
        begin(self, *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Pass, "__init__", counted)
    plain = opened.all_hits([value], exact=False)
    once = len(runs)
    exact = opened.all_hits([value])
    # A run is cut in two where a core has nothing to do, so there may be some more.
    assert len(runs) < 2.5 * once and len(plain) == len(exact)
    with monkeypatch.context() as patch:
        patch.setattr("gdbrr.timeline.step.writers.always_stores", lambda code: False)
        assert opened.all_hits([value]) == exact and len(runs) > 3 * once


def test_which_instructions_store_to_one_address_each_time() -> None:
    stores = (
        "c7050000000001000000 83050000000001 890500000000 48890500000000 f30f110500000000 660f7f0500000000 870500000000"
    )
    stores += " f71500000000 f0830500000000ff 0f940500000000 660fd60500000000 c605000000000a f0480fc10500000000"
    others = "833d0000000001 8b0500000000 f00fb10500000000 0f100500000000 d32500000000 8945fc ff1500000000 ff2500000000"
    others += " ff3500000000 f70500000000ffffffff a4 f3aa c3 0f 89"
    assert [code for code in stores.split() if not always_stores(bytes.fromhex(code))] == []
    assert [code for code in others.split() if always_stores(bytes.fromhex(code))] == []


def test_without_exact_the_moment_is_the_operation(opened: DemoTimeline, value: Point) -> None:
    exact, quick = opened.all_hits([value]), opened.all_hits([value], exact=False)
    assert [Moment(hit.moment.tick) for hit in exact] == [hit.moment for hit in quick]
    assert [(hit.old, hit.new, hit.thread) for hit in exact] == [(hit.old, hit.new, hit.thread) for hit in quick]


def test_a_region_longer_than_a_register(opened: DemoTimeline, program: Program) -> None:
    block = program.symbols["block"]
    hits = opened.all_hits([Point(PointKind.WRITE, block, 32)])
    words = [(0, 10), (8, 11), (16, 12), (24, 13), (16, 99)]
    assert [(hit.addr - block, hit.new >> 8 * (hit.addr - block) & MASK) for hit in hits] == words
    assert [hit.old for hit in hits] == [0, *(hit.new for hit in hits[:-1])]
    assert hits[-1].new == 10 | 11 << 64 | 99 << 128 | 13 << 192
    last = opened.last_hit([Point(PointKind.WRITE, block, 32)])
    assert last == hits[-1] and last.point == Point(PointKind.WRITE, block, 32)
    # More pieces than registers: groups of them are put in order by their moments.
    wide = opened.all_hits([Point(PointKind.WRITE, block, 32), Point(PointKind.EXEC, program.symbols["leaf"])])
    assert wide[:5] == hits and len(wide) == 8
    uneven = opened.all_hits([Point(PointKind.CHANGE, block + 7, 11)])  # of 1, 8 and 2 bytes
    assert [(hit.addr - block, hit.new >> 8) for hit in uneven] == [(8, 11), (16, 11 | 12 << 64), (16, 11 | 99 << 64)]


def test_what_is_mapped_over_unmapped_or_dropped_is_stored_to(opened: DemoTimeline) -> None:
    point = Point(PointKind.WRITE, PLACE + 8, 4)
    hits = opened.all_hits([point])
    assert [(hit.old, hit.new, hit.moment.pc is None) for hit in hits] == [
        (0, 0, True),  # mapped
        (0, 5, False),
        (5, 0, True),  # mapped over
        (0, 6, False),
        (6, 0, True),  # dropped
        (0, 7, False),
        (7, 0, True),  # unmapped
    ]
    over = opened.last_hit([Point(PointKind.CHANGE, PLACE + 8, 4)], hits[3].moment)
    assert over == opened.last_hit([Point(PointKind.CHANGE, PLACE + 8, 4)], count=5)
    assert over and (over.old, over.new) == (5, 0)
    before, after = opened.seek(over.moment), opened.seek(hits[3].moment)
    assert (word(before, PLACE + 8), word(after, PLACE + 8)) == (5, 0)


def test_the_end_of_the_heap_goes_back_and_forth(opened: DemoTimeline, program: Program) -> None:
    """By `brk`: what was behind it is zero when it comes back. It was no hit."""
    heap = word(opened.seek(opened.end), program.symbols["heap"], 8)
    hits = opened.all_hits([Point(PointKind.WRITE, heap + 8, 4)])
    moved = [(hit.old, hit.new, hit.moment.pc is None) for hit in hits]
    assert moved == [(0, 0, True), (0, 8, False), (8, 0, True), (0, 0, True)]  # forth, stored to, back, forth


def test_a_call_stores_where_it_returns_to(opened: DemoTimeline, program: Program) -> None:
    leaf = opened.seek(opened.all_hits([Point(PointKind.EXEC, program.symbols["leaf"])])[0].moment)
    place = standing(leaf)["rsp"]
    tick = leaf.moment.tick
    leaf.drop()
    calls = opened.all_hits([Point(PointKind.WRITE, place, 8)], after=Moment(tick), before=Moment(tick + 1))
    inside = [hit for hit in calls if program.symbols["caller"] < hit.pc < program.symbols["caller"] + 60]
    assert len(inside) == 3
    assert all(hit.new == hit.pc + 5 for hit in inside)


def test_a_write_behind_the_last_change_of_the_same_bytes_comes_first(opened: DemoTimeline, program: Program) -> None:
    """They take turns with the registers, so who was last is asked of their moments."""
    address = program.symbols["value"]
    access, change = Point(PointKind.ACCESS, address, 4), Point(PointKind.CHANGE, address, 4)
    end = opened.last_hit([access])
    assert end and end.old == end.new == 3041  # main prints it
    # `value += 0`: read, then written with what it holds; no change
    adds = opened.last_hit([Point(PointKind.WRITE, address, 4)], opened.last_hit([change], count=40).moment)  # type: ignore[union-attr]
    assert adds and adds.old == adds.new == 3001
    behind = Moment(adds.moment.tick + 1)
    assert opened.last_hit([change, access], behind) == opened.last_hit([access, change], behind)
    found = opened.last_hit([change, access], behind)
    assert found and found.point == access


def test_a_thread_in_front_of_its_first_operation_is_watched_once(
    opened: DemoTimeline, value: Point, program: Program
) -> None:
    """INVARIANT(one-event-per-point). Twice would be more than the processor has."""
    stores = Point(PointKind.WRITE, value.addr, 4)
    all_four = groups_of([stores, Point(PointKind.WRITE, program.symbols["block"], 24)], 4)[0]
    first = [next(event.tick for event in opened.demo.events(thread=index)) for index in (1, 2)]
    for tick in first:
        before = opened.all_hits([stores], after=Moment(tick), exact=False)
        source = opened._checkpoints.worker_at(tick)
        frozen = source.freeze()
        source.drop()
        counted = Pass(frozen, opened._order, all_four, opened.end.tick, None)
        counted.wait(None, "", 0)
        assert [one.hit.new for one in counted.hits()] == [hit.new for hit in before]
        assert len(before) >= 20
        counted.drop()
        frozen.drop()


# ---------------------------------------------------------------- conditions and threads
def test_condition_is_looked_at_at_every_hit(opened: DemoTimeline, value: Point) -> None:
    every = opened.all_hits([value])
    sevens = ref32(value.addr) + const(7) + REM + NOT + END
    hits = opened.all_hits([value], condition=sevens)
    assert [hit.new for hit in hits] == VALUES[6::7]
    assert [hit.moment for hit in hits] == [hit.moment for hit in every[6::7]]  # numbered as all of them
    small = ref32(value.addr) + const(100) + LESS + END
    found = opened.last_hit([value], condition=small)
    assert found and found.new == 99 and found.moment == every[98].moment
    assert opened.last_hit([value], condition=const(0) + END) is None
    one = opened.last_hit([value], every[50].moment, condition=ref32(value.addr) + const(20) + EQUAL + END)
    assert one and one.moment == every[19].moment


def test_condition_of_an_execution_sees_its_registers(opened: DemoTimeline, program: Program) -> None:
    leaf = Point(PointKind.EXEC, program.symbols["leaf"])
    hits = opened.all_hits([leaf])
    assert len(hits) == 3
    at = b"\x26\x00\x10" + const(leaf.addr) + EQUAL + END  # rip
    assert [hit.moment for hit in opened.all_hits([leaf], condition=at)] == [hit.moment for hit in hits]
    shown = opened.seek(hits[1].moment)
    word_on_stack = word(shown, standing(shown)["rsp"], 8)
    second = b"\x26\x00\x07\x1a" + const(word_on_stack) + EQUAL + END  # *rsp: where it returns to
    assert [hit.moment for hit in opened.all_hits([leaf], condition=second)] == [hits[1].moment]
    # In front of the second one: a condition does not keep the search from stopping there.
    assert opened.last_hit([leaf], hits[2].moment, condition=second) == opened.last_hit([leaf], condition=second)
    assert opened.last_hit([leaf], hits[1].moment, condition=second) is None


def test_condition_that_cannot_be_evaluated_is_met(opened: DemoTimeline, value: Point) -> None:
    for code in (ref32(8) + END, const(1) + const(0) + DIV + END, NOT + END, b"\x21\x00\x00", b""):
        assert len(opened.all_hits([value], condition=code, exact=False)) == len(VALUES), code


def test_condition_that_is_none_is_refused(opened: DemoTimeline, value: Point) -> None:
    with pytest.raises(GdbrrError, match="operation 0x0c of the agent bytecode"):
        opened.last_hit([value], condition=const(1) + TRACE)
    with pytest.raises(GdbrrError, match="too long"):
        opened.last_hit([value], condition=const(1) * 1000 + END)


def test_hits_of_one_thread(opened: DemoTimeline, value: Point) -> None:
    every = opened.all_hits([value])
    for thread in (0, 1, 2):
        mine = opened.all_hits([value], thread=thread)
        assert [hit.moment for hit in mine] == [hit.moment for hit in every if hit.thread == thread]
        last = opened.last_hit([value], thread=thread)
        assert last and last.moment == mine[-1].moment
    assert opened.last_hit([value], thread=3) is None


def test_condition_thread_and_count_together(opened: DemoTimeline, value: Point) -> None:
    every = opened.all_hits([value])
    asked = ((3, 1, 2, -1), (7, 0, 10, 2000), (2, 2, 3, -5), (50, None, 1, 40), (50, 2, 9, -1))
    for divisor, thread, count, place in asked:
        code = ref32(value.addr) + const(divisor) + REM + NOT + END
        wanted = [hit for hit in every[:place] if hit.new % divisor == 0 and thread in (None, hit.thread)]
        found = opened.last_hit([value], every[place].moment, condition=code, thread=thread, count=count)
        if len(wanted) < count:
            assert found is None
        else:
            assert found and (found.moment, found.new) == (wanted[-count].moment, wanted[-count].new)


def test_nothing_is_found_in_nothing(opened: DemoTimeline, value: Point) -> None:
    assert opened.all_hits([]) == [] and opened.last_hit([]) is None
    assert opened.all_hits([value], before=opened.start) == []
    with pytest.raises(GdbrrError, match="at least one byte"):
        opened.last_hit([Point(PointKind.WRITE, value.addr, 0)])
    with pytest.raises(GdbrrError, match=r"too many to be watched\. "):
        opened.last_hit([Point(PointKind.CHANGE, value.addr, WIDEST + 1)])
    with pytest.raises(GdbrrError, match="too many to be watched for every store"):
        opened.last_hit([Point(PointKind.WRITE, value.addr, WIDEST_WRITE + 1)])
    with pytest.raises(GdbrrError, match="behind the end"):
        opened.all_hits([value], before=Moment(opened.end.tick + 1))


# ---------------------------------------------------------------- as a script has it
def test_page_on_scripts_shows_what_runs(demo: Path, program: Program, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    script = page.split("```python\n")[1].split("```")[0]
    script = script.replace("lock-1.demo", str(demo)).replace("0x404060", hex(program.symbols["value"]))
    (tmp_path / "script.py").write_text(script)
    done = run(sys.executable, tmp_path / "script.py", env={"PYTHONPATH": str(ROOT)}).expect(0)
    lines = done.out.splitlines()
    assert lines[0].endswith(" 3040 3041") and lines[1].startswith(str((3040).to_bytes(4, "little")))
    assert lines[-1].endswith(" 3039 3040") and lines[-3040].endswith(" 0 1")


def test_names_for_scripts(opened: DemoTimeline, value: Point) -> None:
    assert gdbrr.Moment is Moment and gdbrr.Point is Point  # type: ignore[attr-defined]
    hit = opened.last_hit([value])
    assert hit
    leaf = opened.seek(hit.moment)
    assert int.from_bytes(leaf.read(value.addr, 4), "little") == 3040
    with pytest.raises(GdbrrError, match="no memory at 0x8"):
        leaf.read(8, 4)
    with pytest.raises(AttributeError):
        gdbrr.nothing  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.needs("gdb")
def test_call_stack_of_a_hit(opened: DemoTimeline, program: Program) -> None:
    hit = opened.last_hit([Point(PointKind.EXEC, program.symbols["leaf"])])
    assert hit
    frames = gdbrr.stack(opened.seek(hit.moment))  # type: ignore[attr-defined]
    assert [frame.function for frame in frames[:3]] == ["leaf", "caller", "main"]
