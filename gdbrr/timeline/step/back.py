"""The instruction before another one, found without stepping through its segment.

Runs in: the server and scripts. May call: errors, abi, ctl.
Owns: the workers that it looks with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gdbrr.abi import lib
from gdbrr.ctl import threads
from gdbrr.ctl.control import Armed, PointHit
from gdbrr.timeline.checkpoints import Checkpoints
from gdbrr.timeline.model import Moment, Progress
from gdbrr.timeline.order import Order
from gdbrr.timeline.step import code
from gdbrr.timeline.worker import Checkpoint, Worker

_PAGE = 4096
_LOADER = re.compile(r"(\w+)-(\w+) r-x. .*/ld-linux[^/]*\Z", re.DOTALL)
_FRAMES = 1024
"""Bytes that the allocator's frames have on the stack."""
_BETWEEN = 4
"""Instructions between a call and the engine: those of a linkage table."""
_AT_ONCE = lib.GR_WATCHES - 2
"""Debug registers for candidates: one is for the moment, and one for a replay that has to find a place in a loop."""


class StepBack:
    """INVARIANT(proved-or-none): an answer is an instruction that was executed in front of the moment, behind which its
    own bytes, registers and memory say that the thread went there, and behind which it was there only once."""

    def __init__(self, checkpoints: Checkpoints, order: Order, born: int) -> None:
        self._checkpoints = checkpoints
        self._order = order
        self._born = born

    def before(self, moment: Moment, progress: Progress | None) -> Moment | None:
        """The moment of the instruction before; None where that cannot be told."""
        assert moment.pc is not None
        worker = self._checkpoints.worker_at(moment.tick, progress)
        try:
            source = worker.freeze()
        finally:
            worker.drop()
        try:
            worker = source.wake(self._order.final_thread)
            try:
                if not self._run(worker, moment, [], progress):
                    return None
                regs = self._registers(worker, moment)
                found = code.sources(moment.pc, _reader(worker), regs)
                candidates = sorted(found.union(_of_loader(worker) if regs["r11"] == moment.pc else ()))
            finally:
                worker.drop()
            return self._proved(source, moment, self._last(source, moment, candidates, progress), progress)
        finally:
            source.drop()

    def before_operation(self, tick: int, progress: Progress | None) -> Moment | None:
        """The same for the operation that the segment of TICK leads to, as it is shown: at its call."""
        worker = self._checkpoints.worker_at(tick, progress)
        try:
            worker.run_segment(tick, self._order.ticks, progress=progress)
            regs = self._registers(worker, Moment(tick))
            call, engine = regs["rip"], code.engine_of(worker.pid)
            entries = _entries(engine, regs["rsp"], _reader(worker)) if call in engine else {}
        finally:
            worker.drop()
        if call in engine:
            return self._last_entry(tick, entries, progress)
        worker = self._checkpoints.worker_at(tick, progress)
        try:
            worker.run_segment(tick, self._order.ticks, [Armed(call, 1, lib.GR_POINT_EXEC, tick)], progress=progress)
            hits = worker.slot.hits()
        finally:
            worker.drop()
        return self.before(Moment(tick, call, hits[-1].nth), progress) if hits else None

    def _last_entry(self, tick: int, entries: dict[int, int], progress: Progress | None) -> Moment | None:
        """Which of the ENTRIES the thread has not come back from: at an exchange between heaps it stands in the middle
        of the allocator's code, where there are no moments."""
        for entry, back in entries.items():
            worker = self._checkpoints.worker_at(tick, progress)
            try:
                armed = [Armed(pc, 1, lib.GR_POINT_EXEC, tick) for pc in (entry, back)]
                worker.run_segment(tick, self._order.ticks, armed, progress=progress)
                hits = worker.slot.hits()
            finally:
                worker.drop()
            if hits and hits[-1].point == 0:
                return Moment(tick, entry, hits[-1].nth)
        return None

    def _run(self, worker: Worker, to: Moment, others: Sequence[int], progress: Progress | None) -> bool:
        """Whether it came to the moment, counting executions of OTHERS on its way."""
        armed = [Armed(pc, 1, lib.GR_POINT_EXEC, to.tick) for pc in others]
        armed.append(Armed(to.pc or 0, 1, lib.GR_POINT_EXEC, to.tick, to.nth))
        state = worker.run_segment(to.tick, self._order.ticks, armed, progress=progress)
        return bool(state == lib.GR_S_TRAPPED)

    def _registers(self, worker: Worker, moment: Moment) -> dict[str, int]:
        owner = self._order.thread_of(moment.tick)
        return next(thread.regs for thread in threads.read(worker.pid, self._born) if thread.index == owner)

    def _last(
        self, source: Checkpoint, moment: Moment, candidates: Sequence[int], progress: Progress | None
    ) -> PointHit | None:
        """Which candidate was executed last before the moment, if that was behind the moment before it at this pc."""
        candidates = [pc for pc in candidates if pc != moment.pc]
        while candidates:
            groups = [candidates[at : at + _AT_ONCE] for at in range(0, len(candidates), _AT_ONCE)]
            found = [hit for group in groups if (hit := self._last_of(source, moment, group, progress))]
            if len(found) < 2:
                return found[0] if found else None
            candidates = [hit.pc for hit in found]
            if len(candidates) > _AT_ONCE:
                continue
            return self._last_of(source, moment, candidates, progress)
        return None

    def _last_of(
        self, source: Checkpoint, moment: Moment, pcs: Sequence[int], progress: Progress | None
    ) -> PointHit | None:
        worker = source.wake(self._order.final_thread)
        try:
            if not self._run(worker, moment, pcs, progress):
                return None
            hits = worker.slot.hits()
        finally:
            worker.drop()
        for hit in reversed(hits):
            if hit.point < len(pcs):
                return hit
            if hit.nth != moment.nth:
                return None  # none of them since the thread was there before
        return None

    def _proved(
        self, source: Checkpoint, moment: Moment, hit: PointHit | None, progress: Progress | None
    ) -> Moment | None:
        if hit is None:
            return None
        before = Moment(moment.tick, hit.pc, hit.nth)
        worker = source.wake(self._order.final_thread)
        try:
            if not self._run(worker, before, [], progress):
                return None
            led = code.follows(hit.pc, _reader(worker), self._registers(worker, before))
        finally:
            worker.drop()
        return before if led == moment.pc else None


def _entries(engine: range, stack: int, read: code.Read) -> dict[int, int]:
    """Of the calls that may have led into the ENGINE, by what is on the STACK: the last instruction outside, and where
    the call returns to. Those of the innermost frames first."""
    found: dict[int, int] = {}
    for at in range(stack, stack + _FRAMES, 8):
        back = int.from_bytes(read(at, 8), "little")
        for pc in code.calls_in_front(back, read) if back not in engine else ():
            last, target = pc, code.follows(pc, read, {})
            for _ in range(_BETWEEN):
                if target is None or target in engine:
                    break
                last, target = target, code.follows(target, read, {})
            if target is not None and target in engine:
                found.setdefault(last, back)
    return found


def _reader(worker: Worker) -> code.Read:
    def read(addr: int, length: int) -> bytes:
        """Page by page, because it may begin in front of what is mapped; zeros for what is not there."""
        if not 0 <= addr < code.USER - length:
            return bytes(length)
        ends = [*range(addr - addr % _PAGE + _PAGE, addr + length, _PAGE), addr + length]
        starts = [addr, *ends[:-1]]
        return b"".join(worker.read(start, end - start) for start, end in zip(starts, ends, strict=True))

    return read


def _of_loader(worker: Worker) -> Iterator[int]:
    """Where the loader goes on to a function that was called for the first time: jmp *%r11."""
    with open(f"/proc/{worker.pid}/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            if found := _LOADER.match(line):
                start, end = int(found[1], 16), int(found[2], 16)
                for jump in re.finditer(rb"\x41\xff\xe3", worker.read(start, end - start)):
                    yield from (start + jump.start(), start + jump.start() - 1)
