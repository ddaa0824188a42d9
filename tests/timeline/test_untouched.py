"""Epochs in which nobody wrote to the watched bytes are not run; those in which somebody did are, in whatever way."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest

from gdbrr.ctl import changes
from gdbrr.timeline.checkpoints import Checkpoints
from gdbrr.timeline.hits import Pass
from gdbrr.timeline.model import Hit, Moment, Point, PointKind
from gdbrr.timeline.timeline import DemoTimeline, open_demo

from .conftest import BOTH_WAYS, Program, children, in_epochs, word

AREA, PAGE = 0x30000000, 4096
NAMES = ("early", "same", "back", "kernel", "late", "zeros")
STORES = {"early": 2, "same": 2, "back": 3, "kernel": 2, "late": 2}


@pytest.fixture(scope="module")
def program() -> Program:
    return Program("untouched")


@pytest.fixture(scope="module", params=BOTH_WAYS)
def demo(request: pytest.FixtureRequest, program: Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return in_epochs(program.path, tmp_path_factory.mktemp("untouched"), request.param)


@pytest.fixture(scope="module")
def places(program: Program) -> dict[str, int]:
    return {**{name: program.symbols[name] for name in NAMES}, **{f"area {at}": AREA + at * PAGE for at in range(4)}}


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The end of each span that was run."""
    run: list[int] = []
    begin = Pass.__init__

    def counted(
        self: Pass, source: object, order: object, pieces: object, stop: int, *rest: object, **more: object
    ) -> None:
        run.append(stop)
        begin(self, source, order, pieces, stop, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Pass, "__init__", counted)
    return run


def everything(timeline: DemoTimeline, places: dict[str, int]) -> dict[tuple[str, PointKind], list[Hit]]:
    wanted = [(name, PointKind.WRITE) for name in places]
    wanted += [("same", PointKind.CHANGE), ("back", PointKind.CHANGE)]
    return {(name, kind): timeline.all_hits([Point(kind, places[name], 4)], exact=False) for name, kind in wanted}


@pytest.fixture(scope="module")
def told(demo: Path, places: dict[str, int]) -> Iterator[dict[tuple[str, PointKind], list[Hit]]]:
    """What a search finds that leaves nothing out."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpoints, "untouched", lambda *_: False)
        with open_demo(demo) as timeline:
            found = everything(timeline, places)
    for name, stores in STORES.items():
        assert len(found[name, PointKind.WRITE]) == stores, name
    assert len(found["back", PointKind.CHANGE]) == 3 and len(found["same", PointKind.CHANGE]) == 1
    for at in range(4):
        assert len(found[f"area {at}", PointKind.WRITE]) >= 3
    yield found
    assert not children()


def test_answers_are_those_of_a_search_that_leaves_nothing_out(
    demo: Path, places: dict[str, int], told: dict[tuple[str, PointKind], list[Hit]], passes: list[int]
) -> None:
    with open_demo(demo) as timeline:
        assert everything(timeline, places) == told
        for (name, kind), hits in told.items():
            before = timeline.end
            for hit in reversed(hits):
                found = timeline.last_hit([Point(kind, places[name], 4)], before)
                assert found and found.moment.tick == hit.moment.tick, (name, kind)
                before = found.moment
            assert timeline.last_hit([Point(kind, places[name], 4)], before) is None, (name, kind)


def test_epochs_without_a_write_are_not_run(demo: Path, places: dict[str, int], passes: list[int]) -> None:
    with open_demo(demo) as timeline:
        epochs = len(timeline.epochs)
        assert epochs > 20
        for name, kind in (("early", PointKind.WRITE), ("early", PointKind.CHANGE), ("same", PointKind.WRITE)):
            passes.clear()
            hit = timeline.last_hit([Point(kind, places[name], 4)])
            assert hit
            # the epoch of the hit, the one that is not over, and one that is run beside it
            assert 1 < len(passes) <= 5, (name, passes)
            assert hit.moment.tick < min(sorted(passes)[1:])
        for kind, length in ((PointKind.ACCESS, 4), (PointKind.EXEC, 1)):  # nobody knows who only reads or executes
            passes.clear()
            assert timeline.all_hits([Point(kind, places["zeros"] + 64, length)]) == []
            assert len(passes) == len(timeline.checkpoints) > 15


def test_several_points_leave_out_what_none_of_them_needs(
    demo: Path, places: dict[str, int], told: dict[tuple[str, PointKind], list[Hit]], passes: list[int]
) -> None:
    points = [Point(PointKind.WRITE, places[name], 4) for name in STORES]  # more than there are registers
    with open_demo(demo) as timeline:
        hits = timeline.all_hits(points, exact=False)
        assert len(passes) < 2 * len(timeline.epochs)
    expected = [hit for name in STORES for hit in told[name, PointKind.WRITE]]
    assert len(hits) == len(expected) and {str(hit.moment) for hit in hits} == {str(hit.moment) for hit in expected}
    assert [hit.moment.tick for hit in hits] == sorted(hit.moment.tick for hit in hits)


def test_what_is_moved_elsewhere_is_gone_from_there_on(demo: Path, places: dict[str, int]) -> None:
    """At the start of the call: at its end nothing stands there that could be shown as what it was."""
    with open_demo(demo) as timeline:
        hits = timeline.all_hits([Point(PointKind.CHANGE, places["area 3"], 4)])
        assert [(hit.old, hit.new) for hit in hits] == [(0, 4), (4, 0)]
        assert word(timeline.seek(hits[-1].moment), places["area 3"]) == 4


# ---------------------------------------------------------------- controls
def _pages_with_their_own_too(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(changes, "_ROWS", changes.re.compile(b"[\x80\x81]+"))


def _moves_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(changes, "_without", lambda stretches, moved: stretches)


def _zeros_believed(patch: pytest.MonkeyPatch) -> None:
    def untouched(self: Checkpoints, span: tuple[object, int], address: int, size: int) -> bool:
        return self._changes.unwritten(span[0].tick, span[1], address, size)  # type: ignore[attr-defined]

    patch.setattr(Checkpoints, "untouched", untouched)


@pytest.mark.parametrize(
    ("wrong", "missed"),
    [
        (_pages_with_their_own_too, {"early", "back", "kernel"}),
        (_moves_forgotten, {"area 2"}),
        (lambda patch: (_moves_forgotten(patch), _zeros_believed(patch)), {"area 1", "area 2"}),
    ],
)
def test_control_what_is_left_out_wrongly_is_noticed(
    wrong: object,
    missed: set[str],
    demo: Path,
    places: dict[str, int],
    told: dict[tuple[str, PointKind], list[Hit]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wrong(monkeypatch)  # type: ignore[operator]
    with open_demo(demo) as timeline:
        found = everything(timeline, places)
    assert missed <= {name for (name, kind), hits in told.items() if found[name, kind] != hits}


def test_where_the_kernel_makes_equal_pages_one_nothing_is_left_out(
    demo: Path, places: dict[str, int], passes: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    state = tmp_path / "run"
    state.write_text("1\n")
    monkeypatch.setattr(changes, "_KSM", str(state))
    with open_demo(demo) as timeline:
        assert timeline.last_hit([Point(PointKind.WRITE, places["early"], 4)])
        assert len(passes) > len(timeline.epochs) // 2


def test_where_the_kernel_cannot_scan_the_map_is_read(
    demo: Path, places: dict[str, int], passes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "_SCAN", 0xC0606611)
    with open_demo(demo) as timeline:
        assert timeline.last_hit([Point(PointKind.WRITE, places["early"], 4)])
        assert len(passes) <= 5


# ---------------------------------------------------------------- what is known of which ticks
def test_unknown_ticks_are_written_in() -> None:
    known = changes.Changes()
    known.add(10, 20, array("Q", [0x1000, 0x3000]))
    known.add(20, 30, array("Q", [0x2000, 0x4000]))
    known.add(40, 50, array("Q", [0x2000, 0x4000]))
    assert known.unwritten(10, 30, 0x2000, 0x1000) and known.unwritten(12, 18, 0x1000, 0x2000)
    assert not known.unwritten(10, 30, 0x1000, 8)  # written behind 20
    assert not known.unwritten(10, 30, 0x2FFC, 8)
    assert not known.unwritten(10, 40, 0x2000, 8) and not known.unwritten(5, 20, 0x2000, 8)
    assert not known.unwritten(45, 60, 0x2000, 8) and not known.unwritten(60, 60, 0x2000, 8)
    assert Moment(3) == Moment.parse("3")
