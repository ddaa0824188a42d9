"""A leaf: a worker brought to a moment, handed out for a debugger.

Runs in: the server and scripts. May call: ctl.
Owns: nothing; the worker's life is its own until `drop`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from gdbrr.abi import lib
from gdbrr.ctl import threads
from gdbrr.ctl.control import FOREVER, Armed
from gdbrr.ctl.digest import Digest
from gdbrr.demo.reader import Demo
from gdbrr.errors import GdbrrError
from gdbrr.timeline.model import Moment, ThreadView
from gdbrr.timeline.worker import Worker


class DemoLeaf:
    """Implements model.Leaf."""

    def __init__(
        self,
        worker: Worker,
        moment: Moment,
        threads: tuple[int, int],
        born: int,
        forget: Callable[[DemoLeaf], None],
        last: int | None = None,
    ) -> None:
        """THREADS: whose moment it is, and in which one time ends. LAST is the tick in front of which that is, where
        it is not the demo's own end."""
        self._worker = worker
        self._moment = moment
        self._thread, self._last_thread = threads
        self._born = born
        self._forget = forget
        self._last = last

    @property
    def pid(self) -> int:
        return self._worker.pid

    @property
    def demo(self) -> Demo:
        return self._worker.demo

    @property
    def moment(self) -> Moment:
        return self._moment

    @property
    def thread(self) -> int:
        return self._thread

    @property
    def last_thread(self) -> int:
        return self._last_thread

    @property
    def trap_pc(self) -> int:
        return self._worker.control.trap_pc

    @property
    def call_pc(self) -> int:
        return self._worker.control.call_pc

    @property
    def born(self) -> int:
        """Threads of the whole run."""
        return self._born

    def read(self, address: int, size: int) -> bytes:
        """Its memory there."""
        try:
            with open(f"/proc/{self.pid}/mem", "rb", buffering=0) as memory:
                found = os.pread(memory.fileno(), size, address)
        except OSError:
            found = b""
        if len(found) < size:
            raise GdbrrError(f"there is no memory at {address + len(found):#x} at {self.moment}", "look elsewhere")
        return found

    @property
    def tick(self) -> int:
        return self._worker.slot.tick

    @property
    def ended(self) -> bool:
        return bool(self.cut or self._worker.slot.state == lib.GR_S_ENDED)

    @property
    def cut(self) -> bool:
        slot = self._worker.slot
        return self._last is not None and slot.state == lib.GR_S_STANDING and slot.tick >= self._last

    def check(self) -> None:
        self._worker.check()

    def threads(self) -> Sequence[ThreadView]:
        return views(self.pid, self._born)

    def digest(self) -> Digest:
        """Registers and writable memory of the standing process, to be compared with another leaf's."""
        return self._worker.digest()

    def nest_at(self, tid: int) -> int:
        return threads.field_at(self.pid, self._born, tid, "nest")

    def release(self, stop_tick: int | None = None, watched: Sequence[tuple[int, int]] = ()) -> None:
        slot = self._worker.slot
        slot.flag(lib.GR_SLOT_DEBUGGED)
        slot.arm(_places(watched))
        slot.command(lib.GR_CMD_RUN, stop_tick=self._reachable(stop_tick))

    def stop_at(self, stop_tick: int | None, watched: Sequence[tuple[int, int]] = ()) -> None:
        self._worker.slot.arm(_places(watched))
        self._worker.slot.stop_at(self._reachable(stop_tick))

    def _reachable(self, tick: int | None) -> int:
        last = FOREVER if self._last is None else self._last
        return last if tick is None else min(tick, last)

    def drop(self) -> None:
        self._worker.drop()
        self._forget(self)


def _places(watched: Sequence[tuple[int, int]]) -> list[Armed]:
    return [Armed(addr, length, lib.GR_POINT_CHANGE) for addr, length in watched][: lib.GR_WATCHES]


def views(pid: int, born: int, leaving: bool = False) -> list[ThreadView]:
    """The threads of a process with an engine, as a debugger shall see them; with those that are LEAVING."""
    return [
        ThreadView(
            index=thread.index,
            tid=thread.tid,
            recorded_tid=thread.recorded_tid,
            in_engine=thread.in_engine,
            regs=thread.regs,
            ret_pc=thread.ret_pc,
            trapped=bool(thread.state == lib.GR_T_TRAPPED),
            ops=thread.ops,
            tick=thread.tick,
            was=thread.was,
        )
        for thread in [*(threads.leaving(pid, born) if leaving else ()), *threads.read(pid, born)]
    ]
