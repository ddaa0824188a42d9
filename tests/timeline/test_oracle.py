"""Seeking and stepping back against an oracle: one process that is single-stepped from the start to the end, once."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from gdbrr.abi import lib
from gdbrr.ctl import threads
from gdbrr.demo.reader import Demo
from gdbrr.timeline.model import Moment
from gdbrr.timeline.timeline import open_demo

from .conftest import Program, children, standing, word
from .stepping import held

pytestmark = pytest.mark.needs("perf_breakpoints")

STARTS = 110
STEPS = 24
SEED = 1


class Oracle:
    """What every segment executed, and the counter in front of every operation."""

    def __init__(self, demo: Demo, counter: int) -> None:
        self.threads = [event.thread for event in demo.events()]
        self.segments: list[list[Moment]] = []
        self.counters: list[int] = []
        self.calls: list[int] = []
        with held(demo) as (replay, worker):
            worker.slot.flag(lib.GR_SLOT_TRACE)
            for tick in range(demo.ticks):
                with open(f"/proc/{worker.pid}/mem", "rb", buffering=0) as memory:
                    self.counters.append(int.from_bytes(os.pread(memory.fileno(), 4, counter), "little"))
                worker.run(tick + 1)
                pcs, whole = replay.control.trace(worker.slot)
                assert whole
                self.segments.append(self._moments(tick, pcs))
                views = {view.index: view for view in threads.read(worker.pid, len(demo.threads))}
                owner = views.get(self.threads[tick])
                self.calls.append(owner.regs["rip"] if owner else 0)
        self.all = [Moment(tick) for tick in range(demo.ticks)]
        self.all += [moment for segment in self.segments for moment in segment]

    @staticmethod
    def _moments(tick: int, pcs: list[int]) -> list[Moment]:
        seen: dict[int, int] = {}
        found = []
        last = None
        for pc in pcs:
            if pc != last:  # the program's only instruction that is its own successor is `rep stosb`
                seen[pc] = seen.get(pc, 0) + 1
                found.append(Moment(tick, pc, seen[pc]))
            last = pc
        return found

    def previous(self, moment: Moment) -> Moment | None:
        if moment.pc is not None:
            segment = self.segments[moment.tick]
            place = segment.index(moment)
            return segment[place - 1] if place else Moment(moment.tick)
        mine = [tick for tick in range(moment.tick) if self.threads[tick] == self.threads[moment.tick]]
        executed = [tick for tick in mine if self.segments[tick]]
        if not executed:
            return None
        # The operation is shown at its call: what the call itself executed does not count.
        pcs = [each.pc for each in self.segments[executed[-1]]]
        call = self.calls[executed[-1]]
        place = len(pcs) - 1 - pcs[::-1].index(call) if call in pcs else len(pcs)
        return self.segments[executed[-1]][place - 1] if place else Moment(executed[-1])


def test_seeking_and_stepping_back_agree_with_a_run_forward(moments_demo: Path, moments_program: Program) -> None:
    counter = moments_program.symbols["counter"]
    chance = random.Random(SEED)
    with Demo.open(moments_demo) as demo:
        oracle = Oracle(demo, counter)
    assert not children()
    assert len(oracle.all) > 3000
    before = len(os.listdir("/proc/self/fd"))
    operations = 0
    with open_demo(moments_demo) as timeline:

        def check(moment: Moment) -> None:
            leaf = timeline.seek(moment)
            assert (leaf.thread, leaf.tick - (moment.pc is not None)) == (oracle.threads[moment.tick], moment.tick)
            shown = standing(leaf)
            if moment.pc is not None:
                assert shown["rip"] == moment.pc
                found = timeline.locate(moment.tick, leaf.thread, shown, views=leaf.threads())
                assert (found.tick, found.pc) == (moment.tick, moment.pc)
                assert found.nth <= moment.nth
            low = oracle.counters[moment.tick]
            high = oracle.counters[min(moment.tick + 1, len(oracle.counters) - 1)]
            assert low <= word(leaf, counter) <= (high if moment.pc is not None else low)
            leaf.drop()

        for _ in range(STARTS):
            # As often at an operation as in the middle of a segment, most of which are short.
            tick = chance.randrange(len(oracle.segments))
            moment: Moment | None = chance.choice(
                [Moment(tick), *oracle.segments[tick][:1], *oracle.segments[tick][-1:]]
            )
            if chance.random() < 0.5:
                moment = chance.choice(oracle.all)
            assert moment is not None
            check(moment)
            for _ in range(STEPS):
                found, expected = timeline.previous(moment), oracle.previous(moment)
                assert found == expected, moment
                operations += 1
                if found is None:
                    break
                moment = found
            check(moment)
            operations += 2
    assert operations > STARTS * STEPS / 2
    assert not children()
    assert len(os.listdir("/proc/self/fd")) == before
