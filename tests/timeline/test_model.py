"""A state machine against an oracle: whatever is asked of a timeline, in whatever order, the answers are the oracle's.

`make model` runs 10,000 operations; the suite runs a few of each kind for each program.
"""

from __future__ import annotations

import contextlib
import os
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gdbrr.demo.reader import Demo
from gdbrr.timeline.leaf import DemoLeaf
from gdbrr.timeline.model import Hit, Interrupted, Moment, Point, PointKind
from gdbrr.timeline.state.passes import Memory, differing
from gdbrr.timeline.timeline import open_demo

from .conftest import BOTH_WAYS, Program, children, in_epochs, standing
from .stepping import Oracle

OPERATIONS = int(os.environ.get("GDBRR_MODEL_OPERATIONS", "80"))
SEED = int(os.environ.get("GDBRR_MODEL_SEED", "1"))
WORDS = {
    "moments": (("counter", 4), ("idle", 4), ("filled", 8), ("stamp", 8), ("calls", 4)),
    "model": (("rounds", 4), ("inside", 4), ("text", 8), ("caught", 4), ("jumped", 4)),
}
LEAVES = 4


class Machine:
    """One timeline, some leaves that are held, and what they must look like."""

    def __init__(self, demo: Path, oracle: Oracle, chance: random.Random) -> None:
        self._demo = demo
        self._oracle = oracle
        self._chance = chance
        self._held: list[DemoLeaf] = []
        self._changes = [oracle.changes(which) for which in range(len(oracle.words))]
        self._executed = sorted({moment.pc for moment in oracle.moments if moment.pc is not None})
        self._timeline = open_demo(demo)
        self.done: dict[str, int] = {}

    def step(self) -> None:
        verbs: list[tuple[Callable[[], None], int]] = [
            (self._seek, 20), (self._look, 10), (self._drop, 10), (self._back, 15), (self._locate, 5), (self._last, 25),
            (self._every, 5), (self._order, 5), (self._interrupt, 4), (self._reopen, 1),
        ]  # fmt: skip
        verb = self._chance.choices([verb for verb, _ in verbs], [weight for _, weight in verbs])[0]
        verb()
        self.done[verb.__name__] = self.done.get(verb.__name__, 0) + 1

    def close(self) -> None:
        self._timeline.close()
        self._held.clear()

    def _moment(self) -> Moment:
        if self._chance.random() < 0.5:
            return self._chance.choice(self._oracle.moments)
        tick = self._chance.randrange(len(self._oracle.segments))
        return self._chance.choice([Moment(tick), *self._oracle.segments[tick].moments[-3:]])

    # ---------------------------------------------------------------- leaves
    def _check(self, leaf: DemoLeaf) -> None:
        moment = leaf.moment
        assert leaf.thread == self._oracle.thread(moment), moment
        assert leaf.tick == moment.tick + (moment.pc is not None), moment
        if moment.pc is not None:
            assert standing(leaf)["rip"] == moment.pc, moment
        for which, (address, length) in enumerate(self._oracle.words):
            found = int.from_bytes(leaf.read(address, length), "little")
            assert found == self._oracle.value(moment, which), (str(moment), hex(address))

    def _seek(self) -> None:
        leaf = self._timeline.seek(self._moment())
        self._held.append(leaf)
        self._check(leaf)
        if len(self._held) > LEAVES:
            self._drop()

    def _look(self) -> None:
        if self._held:
            self._check(self._chance.choice(self._held))

    def _drop(self) -> None:
        if self._held:
            self._held.pop(self._chance.randrange(len(self._held))).drop()

    # ---------------------------------------------------------------- moments
    def _back(self) -> None:
        moment = self._moment()
        if moment.pc is None:
            return
        found = self._timeline.previous(moment)
        assert found == self._oracle.moments[self._oracle.place[moment] - 1], str(moment)

    def _locate(self) -> None:
        moment = self._moment()
        if moment.pc is None:
            return
        leaf = self._timeline.seek(moment)
        regs, views = standing(leaf), leaf.threads()
        found = self._timeline.locate(moment.tick, leaf.thread, regs, like=leaf.pid, views=views)
        assert not self._timeline.doubtful
        assert found == moment or (found.nth < moment.nth and self._is_same(found, leaf)), (str(moment), str(found))
        first = self._timeline.locate(moment.tick, leaf.thread, regs, views=views)
        assert (first.tick, first.pc) == (moment.tick, moment.pc) and first.nth <= found.nth
        leaf.drop()

    def _is_same(self, found: Moment, leaf: DemoLeaf) -> bool:
        """Whether a loop has come back to all it was: then there is nothing to tell its passes by."""
        other = self._timeline.seek(found)
        memories = [Memory(one.pid, one.born) for one in (leaf, other)]
        moving = differing(*memories)
        for memory in memories:
            memory.close()
        other.drop()
        return not moving

    def _order(self) -> None:
        tick = self._chance.choice(self._oracle.moments).tick
        moments = [Moment(tick), *self._oracle.segments[tick].moments]
        chosen = self._chance.sample(moments, min(len(moments), 6))
        assert self._timeline.ordered(chosen) == sorted(chosen, key=self._oracle.place.__getitem__)

    # ---------------------------------------------------------------- hits
    def _points(self) -> dict[Point, list[tuple[Moment, int, int]]]:
        """Some points, and all the hits they must have."""
        points: dict[Point, list[tuple[Moment, int, int]]] = {}
        for which in self._chance.sample(range(len(self._oracle.words)), self._chance.randint(0, 3)):
            points[Point(PointKind.CHANGE, *self._oracle.words[which])] = self._changes[which]
        for pc in self._chance.sample(self._executed, self._chance.randint(0 if points else 1, 3)):
            points[Point(PointKind.EXEC, pc)] = [(moment, 0, 0) for moment in self._oracle.executions(pc)]
        return points

    def _last(self) -> None:
        points, before = self._points(), self._moment()
        count = self._chance.choice([1, 1, 1, 2, 5])
        expected = sorted(
            (hit for hits in points.values() for hit in hits if self._is_before(hit[0], before)),
            key=lambda hit: self._oracle.place[hit[0]],
        )
        found = self._timeline.last_hit(list(points), before, count=count)
        told = f"{[(point.kind.name, hex(point.addr)) for point in points]} before {before}, count {count}"
        moments = [moment for moment, _, _ in expected]
        if len({*moments}) < len(moments):
            # Two points, or several bytes of one, are hit at one moment; which of them is told first is open.
            if count == 1:
                assert found and found.moment == moments[-1], told
            return
        if len(expected) < count:
            assert found is None, (told, found)
            return
        assert found, told
        self._agrees(found, expected[-count], told)

    def _every(self) -> None:
        points = dict([self._chance.choice(list(self._points().items()))])
        after, before = sorted((self._moment(), self._moment()), key=self._oracle.place.__getitem__)
        expected = [
            hit
            for hits in points.values()
            for hit in hits
            if self._is_before(hit[0], before) and not self._is_before(hit[0], after)
        ]
        found = self._timeline.all_hits(list(points), after=after, before=before)
        told = f"{[(point.kind.name, hex(point.addr)) for point in points]} from {after} to {before}"
        assert len(found) == len(expected), (told, [str(hit.moment) for hit in found], expected)
        for one, wanted in zip(found, expected, strict=True):
            self._agrees(one, wanted, told)

    def _is_before(self, one: Moment, other: Moment) -> bool:
        return self._oracle.place[one] < self._oracle.place[other]

    def _agrees(self, found: Hit, expected: tuple[Moment, int, int], told: str) -> None:
        moment, old, new = expected
        assert found.moment == moment, (told, str(found.moment), str(moment))
        assert found.thread == self._oracle.thread(moment), told
        if found.point.kind is PointKind.CHANGE:
            assert (found.old, found.new) == (old, new), told

    # ---------------------------------------------------------------- the rest
    def _interrupt(self) -> None:
        def stop(what: str, fraction: float) -> None:
            raise Interrupted("stopped")

        with contextlib.suppress(Interrupted):
            self._timeline.last_hit(list(self._points()), self._moment(), stop)

    def _reopen(self) -> None:
        self.close()
        assert not children()
        self._timeline = open_demo(self._demo)


@pytest.mark.limit(120 + OPERATIONS)
@pytest.mark.parametrize("points", BOTH_WAYS)
@pytest.mark.parametrize("name", WORDS)
def test_a_timeline_answers_as_a_run_step_by_step_does(
    name: str, points: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    program = Program(name)
    demo = in_epochs(program.path, tmp_path, points)
    words = [(program.symbols[symbol], length) for symbol, length in WORDS[name]]
    with Demo.open(demo) as opened:
        oracle = Oracle(opened, words)
    assert not children()
    assert len(oracle.moments) > 2000 and sum(len(oracle.changes(which)) for which in range(len(words))) > 50
    chance = random.Random(f"{SEED} {name} {points}")
    before, files, resident = os.listdir(tmp_path), os.listdir("/proc/self/fd"), _resident()
    machine = Machine(demo, oracle, chance)
    try:
        for _ in range(OPERATIONS // 2 // len(WORDS) + 1):
            machine.step()
    finally:
        machine.close()
    print(machine.done)
    assert not children()
    assert len(os.listdir("/proc/self/fd")) == len(files) and os.listdir(tmp_path) == before
    assert _resident() - resident < 64 << 20


def _resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as pages:
        return int(pages.read().split()[1]) * 4096
