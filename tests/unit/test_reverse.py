"""What `bc` looks for and what it answers; the targets of armed commands."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from gdbrr.errors import GdbrrError
from gdbrr.rsp import calls
from gdbrr.rsp.process import history
from gdbrr.rsp.reverse import (
    ACCESS_WATCH,
    HARDWARE,
    SOFTWARE,
    WATCH,
    PointTable,
    Span,
    Target,
    parse_target,
    resolve,
    slots,
    split,
)
from gdbrr.timeline.model import Epoch, Hit, Moment, Point, PointKind, Progress

SPAN = Span(Moment(0), Moment(1000, 0x401000, 2), [Epoch(i, i * 250, i * 250 + 250, 10, i / 2) for i in range(4)])


def table(*held: tuple[int, int, int]) -> PointTable:
    points = PointTable()
    for each in held:
        points.change(True, each)
    return points


def hit(kind: PointKind, addr: int, length: int = 1) -> Hit:
    return Hit(Moment(3), Point(kind, addr, length), 0)


def test_breakpoints_become_points() -> None:
    points = table((SOFTWARE, 0x401136, 1), (HARDWARE, 0x401136, 1), (WATCH, 0x404040, 64), (ACCESS_WATCH, 0x404000, 8))
    assert points.for_search() == [
        Point(PointKind.EXEC, 0x401136),
        Point(PointKind.ACCESS, 0x404000, 8),
        Point(PointKind.CHANGE, 0x404040, 64),
    ]
    points.change(False, (WATCH, 0x404040, 64))
    assert len(points.for_search()) == 2


def test_a_hit_is_reported_for_the_breakpoint_gdb_has() -> None:
    points = table((SOFTWARE, 0x10, 1), (HARDWARE, 0x20, 1), (WATCH, 0x404040, 8), (ACCESS_WATCH, 0x404048, 8))
    assert points.reasons(hit(PointKind.EXEC, 0x10)) == (("swbreak", ""),)
    assert points.reasons(hit(PointKind.EXEC, 0x20)) == (("hwbreak", ""),)
    assert points.reasons(hit(PointKind.CHANGE, 0x404040, 8)) == (("watch", "404040"),)
    assert points.reasons(hit(PointKind.ACCESS, 0x404048, 8)) == (("awatch", "404048"),)


def test_a_hit_of_a_command_is_no_breakpoint_of_gdb() -> None:
    points = table((SOFTWARE, 0x10, 1), (WATCH, 0x404040, 8))
    assert points.reasons(hit(PointKind.EXEC, 0x11)) == ()
    assert points.reasons(hit(PointKind.CHANGE, 0x404048, 4)) == ()


@pytest.mark.parametrize(
    ("held", "count"),
    [
        ((SOFTWARE, 0x10, 1), 0),
        ((HARDWARE, 0x10, 1), 1),
        ((WATCH, 0x1000, 8), 1),
        ((WATCH, 0x1001, 8), 4),  # 1 + 2 + 4 + 1
        ((WATCH, 0x1000, 32), 4),
        ((WATCH, 0x1000, 4096), 512),
        ((WATCH, 0x1004, 8), 2),
    ],
)
def test_debug_registers(held: tuple[int, int, int], count: int) -> None:
    assert slots(held) == count


def test_what_the_cpu_cannot_watch_is_refused_in_the_live_process_only() -> None:
    points = table(*((WATCH, 0x1000 + 8 * i, 8) for i in range(4)), (SOFTWARE, 0x10, 1))
    points.check_live()
    assert points.fit
    points.change(True, (WATCH, 0x2002, 9))
    assert len(points.for_search()) == 6
    assert not points.fit and points.code() == {(SOFTWARE, 0x10, 1)}
    assert [(point.addr, point.length) for point in points.watched()][4:] == [(0x2002, 9)]
    found = [points.piece(addr) for addr in (0x1000, 0x2002, 0x2004, 0x2008, 0x200A)]
    assert found[1:] == [(WATCH, 0x2002, 2), (WATCH, 0x2004, 4), (WATCH, 0x2008, 2), (WATCH, 0x200A, 1)]
    assert found[0] == (WATCH, 0x1000, 8)
    with pytest.raises(GdbrrError, match="need 8 debug registers and the CPU has 4"):
        points.check_live()


def test_many_bytes_are_looked_for_as_they_are() -> None:
    wide = Point(PointKind.CHANGE, 0x1000, 5000)
    assert split([wide, Point(PointKind.CHANGE, 0x10, 12)]) == [
        *(wide, Point(PointKind.CHANGE, 0x10, 8), Point(PointKind.CHANGE, 0x18, 4)),
    ]


def test_a_step_over_a_breakpoint_is_recognised() -> None:
    points = table((SOFTWARE, 0x10, 1))
    assert not points.stepping_over(0x10)
    points.change(False, (SOFTWARE, 0x10, 1))
    assert points.stepping_over(0x10)
    assert not points.stepping_over(0x11)


TARGETS: list[tuple[dict[str, Any], Moment]] = [
    ({"moment": "120:0x401136#2"}, Moment(120, 0x401136, 2)),
    ({"epoch": 2}, Moment(500)),
    ({"where": "start"}, Moment(0)),
    ({"where": "end"}, SPAN.end),
    ({"percent": 50}, Moment(500)),
    ({"percent": 33.33}, Moment(334)),  # the first tick of which rr-when says 33%
    ({"percent": 0}, Moment(0)),
    ({"percent": 100}, SPAN.end),
    ({"epochs_back": 1}, Moment(500)),
    ({"epochs_back": 2}, Moment(250)),
    ({"epochs_back": 99}, Moment(0)),
]


@pytest.mark.parametrize(("body", "moment"), TARGETS, ids=[str(body) for body, _ in TARGETS])
def test_targets(body: dict[str, Any], moment: Moment) -> None:
    assert resolve(parse_target(body), SPAN, Moment(600)) == moment


def test_the_start_of_this_epoch_and_then_the_one_before() -> None:
    back = Target(epochs_back=1)
    assert resolve(back, SPAN, Moment(500, 0x401000, 1)) == Moment(500)
    assert resolve(back, SPAN, Moment(500)) == Moment(250)
    assert resolve(back, SPAN, Moment(0)) == Moment(0)


def test_points_of_a_command() -> None:
    target = parse_target({"points": [{"kind": "change", "addr": 0x404040, "length": 8}], "count": 3})
    assert target == Target(points=(Point(PointKind.CHANGE, 0x404040, 8),), count=3)


@pytest.mark.parametrize(
    "body",
    [
        *({}, {"points": []}, {"moment": "noon"}, {"where": "nowhere"}, {"epoch": "x"}, {"epochs_back": 0}),
        *({"points": [{"kind": "smell", "addr": 1}]}, {"points": [{"kind": "exec"}]}, {"points": 3}),
        *({"points": [{"kind": "exec", "addr": -1}]}, {"points": [{"kind": "exec", "addr": 1}], "count": 0}),
    ],
)
def test_bad_targets_are_errors_with_a_way_out(body: dict[str, Any]) -> None:
    with pytest.raises(GdbrrError) as caught:
        parse_target(body)
    assert caught.value.hint


@pytest.mark.parametrize("body", [{"moment": "1001"}, {"epoch": 4}, {"percent": 101}, {"percent": -1}])
def test_targets_outside_of_the_demo_name_its_bounds(body: dict[str, Any]) -> None:
    with pytest.raises(GdbrrError) as caught:
        resolve(parse_target(body), SPAN, Moment(600))
    assert caught.value.hint


class Twice:
    """A clock that is known at two ticks only: 0 s at tick 0, 1 s at tick 10."""

    started = None

    def seconds(self, tick: int) -> float:
        return float(tick >= 10)

    def tick_at(self, seconds: float) -> int:
        return 10 if seconds > 0 else 0


@pytest.mark.parametrize(
    ("now", "later", "tick"), [(10, -0.5, 9), (15, -0.5, 10), (15, -1.0, 0), (0, -1.0, 0), (3, 0.5, 10)]
)
def test_earlier_is_never_here(now: int, later: float, tick: int) -> None:
    span = Span(Moment(0), Moment(20), [], cast(Any, Twice()))
    assert resolve(Target(later=later), span, Moment(now)) == Moment(tick)


def test_a_list_that_takes_long_is_asked_for_by_a_move(monkeypatch: pytest.MonkeyPatch) -> None:
    """That obeys Ctrl-C; this answer does not, and tries nothing else behind a search of all in an epoch."""

    class Slow:
        def know(self, *_: object) -> bool:
            return True

        def rows(self, _before: Moment, _count: int, progress: Progress) -> None:
            while True:
                progress("searching", 0.0)

    monkeypatch.setattr(history, "changes", lambda *_: pytest.fail("it is late already"))
    monkeypatch.setattr(history, "Changes", lambda *_: Slow())
    timeline = SimpleNamespace(present=lambda moment: moment)
    navigator = cast(Any, SimpleNamespace(timeline=timeline, listed=history.Listing()))
    link = cast(Any, SimpleNamespace(take_interrupt=lambda: False, pump=lambda: None))
    point = {"kind": "change", "addr": 0x1000, "length": 4}
    body = {"verb": "history", "points": [point], "before": "7", "count": 3}
    assert calls.answer(navigator, link, body) == {"ok": {"rows": [], "late": True, "each": False}}


def test_a_condition_is_looked_at_where_it_is_the_only_one_and_known() -> None:
    met, other, unknown = b"\x22\x01\x27", b"\x22\x00\x27", b"\x30\x27"
    points = PointTable()
    points.change(True, (SOFTWARE, 0x10, 1), [met])
    points.change(True, (SOFTWARE, 0x20, 1), [met, other])
    points.change(True, (SOFTWARE, 0x30, 1), [unknown])
    points.change(True, (SOFTWARE, 0x40, 1), [met])
    points.change(True, (HARDWARE, 0x40, 1))
    points.change(True, (HARDWARE, 0x50, 1), [b"\x22\x01" * 600 + b"\x27"])
    assert points.conditions == {0x10: met}
    assert [point.condition for point in points.for_search()] == [met, b"", b"", b"", b""]
    points.change(True, (SOFTWARE, 0x10, 1))
    assert not points.conditions


def test_where_a_called_function_returns_to_is_data_in_other_processes() -> None:
    """INVARIANT(no-byte-in-data): GDB wants its breakpoint there until that function has returned."""
    here, there = object(), object()
    back, code = (SOFTWARE, 0x7FFFE5FF, 1), (SOFTWARE, 0x401136, 1)
    points = table(code)
    points.wrote(back[1], b"X7fffe5ff,1:\xcc", here)
    points.wrote(0x404040, b"X404040,4:\xcc\xcc\xcc\xcc", here)
    points.change(True, back)
    assert points.of(here) == {code, back} and points.returns_in(here) == {back[1]}
    for process in (there, None):
        assert points.of(process) == {code}
    assert points.code() == {code} and [point.addr for point in points.for_search()] == [code[1]]
