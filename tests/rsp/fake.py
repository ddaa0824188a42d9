"""A Timeline and a Live that are real processes, on the small engine of tests/rsp/engine.c.

Every seek runs the program again from its start; what happened when is known from one single-stepped run.
"""

from __future__ import annotations

import ctypes
import fcntl
import math
import mmap
import os
import signal
import subprocess
import time
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path

from gdbrr.errors import GdbrrError
from gdbrr.rsp.reverse import pieces
from gdbrr.timeline.model import Epoch, Hit, Moment, Point, PointKind, Progress, ThreadView, Turn

HERE = Path(__file__).resolve().parent
NAMES = tuple("rax rbx rcx rdx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15".split())
NAMES += ("rip", "eflags", "fs_base", "gs_base")
STARTING, RUNNING, STANDING, TRAPPED, ENDED = range(5)
ORDER = (0, 1, 0, 0, 1, 0, 1, 1, 0, 1)
RECORDED = (7001, 7002)
U64 = ctypes.c_uint64
SECONDS = 20.0
FIRST_FD = 100


class View(ctypes.Structure):
    _fields_ = [(name, U64) for name in ("tid", "in_engine", "trapped", "tick", "ops", "ret_pc", "on_rip")]
    _fields_ += [("regs", U64 * 20)]


class Entry(ctypes.Structure):
    _fields_ = [("tick", U64), ("thread", U64), ("value", U64), ("regs", U64 * 20)]


class Page(ctypes.Structure):
    _fields_ = [(name, U64) for name in ("state", "seq", "stop_tick", "tick", "ticks", "debugged", "trap_pc")]
    _fields_ += [(name, U64) for name in ("want_tick", "want_pc", "want_nth", "tracing", "watch_addr", "watch_len")]
    _fields_ += [("entries", U64), ("live", U64), ("crash", U64), ("order", U64 * 64), ("view", View * 2)]
    _fields_ += [("entry", Entry * 40000)]


def build(directory: Path) -> Path:
    """The program and its engine; returns the program."""
    common = ["gcc", "-std=gnu11", "-g", "-Wall", "-Wextra", "-Werror"]
    engine = directory / "libgdbrr.so"
    subprocess.run([*common, "-O1", "-shared", "-fPIC", "-o", engine, HERE / "engine.c"], check=True)
    program = directory / "program"
    link = [f"-L{directory}", "-lgdbrr", f"-Wl,-rpath,{directory}", "-Wl,-z,now", "-pthread"]
    plain = ["-O0", "-no-pie", "-fcf-protection=none"]
    subprocess.run([*common, *plain, "-o", program, HERE / "program.c", *link], check=True)
    return program


class Process:
    """One run of the program."""

    def __init__(self, program: Path, recorded: Sequence[int] = RECORDED, **wishes: int) -> None:
        self._recorded = recorded
        # INVARIANT(same-stack): the environment of every run is equally long, or a stack begins elsewhere than that of
        # the run it is compared with; so all descriptors have equally many digits.
        with open(os.memfd_create("fake"), "rb") as opened:
            self._fd = fcntl.fcntl(opened, fcntl.F_DUPFD_CLOEXEC, FIRST_FD)
        os.ftruncate(self._fd, ctypes.sizeof(Page))
        self._map = mmap.mmap(self._fd, ctypes.sizeof(Page))
        self.page = Page.from_buffer(self._map)
        self.page.ticks = len(ORDER)
        self.page.stop_tick = len(ORDER)
        self.page.order[: len(ORDER)] = ORDER
        for name, value in wishes.items():
            setattr(self.page, name, value)
        self._popen = subprocess.Popen(
            ["setarch", "-R", program],
            env={**os.environ, "GDBRR_FAKE": f"/proc/{os.getpid()}/fd/{self._fd}"},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.pid = self._popen.pid

    def wait_for(self, *states: int) -> None:
        deadline = time.monotonic() + SECONDS
        while self.page.state not in states:
            if self._popen.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"state {self.page.state}, exit {self._popen.returncode}")
            time.sleep(0.0005)

    def go(self) -> None:
        self.page.seq += 1
        word = ctypes.addressof(self.page) + Page.seq.offset
        ctypes.CDLL(None).syscall(202, ctypes.c_void_p(word), 1, 100, None, None, 0)

    def views(self) -> list[ThreadView]:
        return [
            ThreadView(
                index=index,
                tid=view.tid,
                recorded_tid=view.tid if self.page.live else self._recorded[index],
                in_engine=bool(view.in_engine) and not self.page.live,
                regs=dict(zip(NAMES, view.regs, strict=True)),
                ret_pc=view.ret_pc,
                trapped=bool(view.trapped),
                ops=view.ops,
                tick=view.tick if view.ops else None,
            )
            for index, view in enumerate(self.page.view)
            if view.tid
        ]

    def kill(self) -> None:
        self._popen.kill()
        self._popen.wait(SECONDS)  # a tracer that does not let go is an error, and no reason to hang
        del self.page
        self._map.close()
        os.close(self._fd)


class FakeLeaf:
    last_thread, cut = ORDER[-1], False

    def __init__(self, timeline: FakeTimeline, process: Process, moment: Moment) -> None:
        self._timeline, self._process, self._moment = timeline, process, moment
        self.releases = 0

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def moment(self) -> Moment:
        return self._moment

    @property
    def thread(self) -> int:
        return ORDER[min(self._moment.tick, len(ORDER) - 1)]

    @property
    def trap_pc(self) -> int:
        return int(self._process.page.trap_pc)

    @property
    def tick(self) -> int:
        return int(self._process.page.tick)

    @property
    def ended(self) -> bool:
        return bool(self._process.page.state == ENDED)

    def check(self) -> None:
        pass

    def threads(self) -> Sequence[ThreadView]:
        return self._process.views()

    def nest_at(self, tid: int) -> int:
        return 0

    call_pc = 0

    def release(self, stop_tick: int | None = None, watched: object = ()) -> None:
        assert self._process.page.state in (STANDING, TRAPPED, ENDED), "released while it runs"
        self.releases += 1
        self._process.page.debugged = 1
        self.stop_at(stop_tick)
        self._process.go()

    def stop_at(self, stop_tick: int | None, watched: object = ()) -> None:
        self._process.page.stop_tick = len(ORDER) if stop_tick is None else stop_tick

    def drop(self) -> None:
        self._process.kill()
        self._timeline.leaves.remove(self)


class FakeTimeline:
    def __init__(self, program: Path, end: Moment | None = None, recorded: Sequence[int] = RECORDED) -> None:
        self._program = program
        self._recorded = recorded
        self._end = end
        self.leaves: list[FakeLeaf] = []
        self._traces: dict[tuple[int, int], list[tuple[int, int, int, tuple[int, ...]]]] = {}
        self.crash = False
        """Behind the last operation the program crashes."""
        self.slow_search = 0.0

    @property
    def start(self) -> Moment:
        return Moment(0)

    @property
    def end(self) -> Moment:
        return self._end or Moment(len(ORDER))

    @property
    def epochs(self) -> Sequence[Epoch]:
        return [Epoch(i, start, start + 4, 100, i * 0.5) for i, start in enumerate(range(0, len(ORDER), 4))]

    def seek(self, moment: Moment, progress: Progress | None = None) -> FakeLeaf:
        process = Process(
            self._program,
            self._recorded,
            stop_tick=len(ORDER) if moment.pc else moment.tick,
            want_tick=moment.tick,
            want_pc=moment.pc or 0,
            want_nth=moment.nth,
            crash=int(self.crash),
        )
        process.wait_for(STANDING, TRAPPED, ENDED)
        leaf = FakeLeaf(self, process, moment)
        self.leaves.append(leaf)
        if moment.pc and process.page.state != TRAPPED:
            leaf.drop()
            raise GdbrrError(f"the moment {moment} does not exist")
        return leaf

    def trace(self, addr: int = 0, length: int = 0) -> list[tuple[int, int, int, tuple[int, ...]]]:
        """(tick, thread, value, registers) of every instruction of the program, in order."""
        if (addr, length) not in self._traces:
            process = Process(self._program, tracing=1, watch_addr=addr, watch_len=length)
            process.wait_for(ENDED)
            page = process.page
            rows = [(e.tick, e.thread, e.value, tuple(e.regs)) for e in page.entry[: page.entries]]
            del page
            process.kill()
            self._traces[addr, length] = rows
        return self._traces[addr, length]

    def moments(self) -> list[Moment]:
        seen: dict[tuple[int, int], int] = {}
        out = []
        for tick, _, _, regs in self.trace():
            key = tick, regs[16]
            seen[key] = seen.get(key, 0) + 1
            out.append(Moment(tick, regs[16], seen[key]))
        return out

    def position(self, moment: Moment) -> int:
        """Index of the first instruction that is not before MOMENT."""
        if moment.pc is not None:
            return self.moments().index(moment)
        return bisect_left([row[0] for row in self.trace()], moment.tick)

    def last_hit(
        self, points: Sequence[Point], before: Moment, progress: Progress | None = None, *, count: int = 1
    ) -> Hit | None:
        hit = self._last_hit(points, before, progress)
        return hit if hit is None or count == 1 else self.last_hit(points, hit.moment, progress, count=count - 1)

    def _last_hit(self, points: Sequence[Point], before: Moment, progress: Progress | None = None) -> Hit | None:
        deadline = time.monotonic() + self.slow_search
        while progress is not None and time.monotonic() < deadline:
            progress("searching", 0.5)
            time.sleep(0.005)
        limit = self.position(before)
        best: tuple[int, Point] | None = None
        for point in points:
            rows = self.trace(point.addr if point.kind is not PointKind.EXEC else 0, min(point.length, 8))
            for index in range(limit - 1, -1, -1):
                if point.kind is PointKind.EXEC:
                    hit = rows[index][3][16] == point.addr
                else:
                    hit = index + 1 < len(rows) and rows[index][2] != rows[index + 1][2]
                if hit:
                    if best is None or index > best[0]:
                        best = index, point
                    break
        if best is None:
            return None
        moment = self.moments()[best[0]]
        return Hit(moment, best[1], self.trace()[best[0]][1])

    def first_hit(self, points: Sequence[Point], after: Moment, progress: Progress | None = None) -> Hit | None:
        cells = [Point(p.kind, addr, length) for p in points for addr, length in pieces(p.addr, p.length)]
        before, found = self.end, None
        while (hit := self.last_hit(cells, before)) and self.position(hit.moment) >= self.position(after):
            before = hit.moment
            found = Hit(Moment(hit.moment.tick), hit.point, hit.thread, addr=hit.point.addr)
        return found

    def previous(self, moment: Moment, progress: Progress | None = None) -> Moment | None:
        rows = self.trace()
        position = self.position(moment)
        if moment.pc is None:
            if moment.tick >= len(ORDER):
                return self.moments()[-1]
            thread = ORDER[moment.tick]
            mine = [index for index in range(position) if rows[index][1] == thread]
            return self.moments()[mine[-1]] if mine else None
        if position and rows[position - 1][0] == moment.tick:
            return self.moments()[position - 1]
        return Moment(moment.tick)

    def locate(self, tick: int, thread: int, regs: dict[str, int], *_: object, **__: object) -> Moment:
        wanted = tuple(regs[name] for name in NAMES[:17])
        for row, moment in zip(self.trace(), self.moments(), strict=True):
            if row[:2] == (tick, thread) and row[3][:17] == wanted:
                return moment
        raise GdbrrError(f"no moment of thread {thread} in tick {tick} has these registers", hint=f"{regs}")

    def next_turn(self, tick: int, thread: int) -> Turn | None:
        mine = [at for at in range(tick, len(ORDER)) if ORDER[at] == thread]
        other = next((at for at in range(tick, len(ORDER)) if ORDER[at] != thread), None)
        if other is None:
            return None
        return Turn(mine[-1], thread) if mine and mine[-1] < other else Turn(other, ORDER[other])

    def threads_in(self, epoch: Epoch) -> int:
        return len(set(ORDER[epoch.start : epoch.end]))

    checkpoints, started, doubtful = (0,), 1_000_000.0, False
    next_signal = last_signal = staticmethod(lambda *_: None)
    segment_of = staticmethod(lambda thread, tick: tick)

    def waiting(self, thread: int, tick: int) -> Moment:
        return Moment(next((at for at in range(tick, len(ORDER)) if ORDER[at] == thread), len(ORDER)))

    ending = None

    def lasting(self, moment: Moment) -> Moment:
        return moment

    def present(self, moment: Moment) -> Moment:
        return moment

    def birth(self, thread: int) -> Moment:
        return Moment(ORDER.index(thread) if thread else 0)

    def seconds(self, tick: int) -> float:
        return tick * 0.5

    def tick_at(self, seconds: float) -> int:
        return min(math.ceil(seconds / 0.5), len(ORDER))

    def close(self) -> None:
        for leaf in list(self.leaves):
            leaf.drop()


class FakeLive:
    """The program, recorded by nobody: it is deterministic."""

    output_fd = keyboard_fd = -1
    unread = 0
    call_pc = actions = 0
    stopped = False
    approximate = False

    def __init__(self, program: Path) -> None:
        self._program = program
        self._process = Process(program, live=1)
        self._process.wait_for(RUNNING)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)
        self.timelines: list[FakeTimeline] = []

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def trap_pc(self) -> int:
        return int(self._process.page.trap_pc)

    @property
    def ticks(self) -> int:
        return int(self._process.page.tick)

    def thread_views(self) -> Sequence[ThreadView]:
        return self._process.views()

    def timeline_at_stop(self, tid: int, regs: dict[str, int], progress: Progress | None = None) -> FakeTimeline:
        view = next(view for view in self._process.views() if view.tid == tid)
        whole = FakeTimeline(self._program)
        assert view.tick is not None
        tids = [view.tid for view in self._process.views()]
        timeline = FakeTimeline(self._program, whole.locate(view.tick, view.index, regs), tids)
        self.timelines.append(timeline)
        return timeline

    def timeline_finished(self, progress: Progress | None = None) -> FakeTimeline:
        timeline = FakeTimeline(self._program)
        self.timelines.append(timeline)
        return timeline

    def catch(self, numbers: frozenset[int] | None, attended: bool = True) -> None:
        pass

    def stop_recording(self) -> None:
        self.stopped = True

    doubt = ""
    inside = False

    def save(self, path: str, stop: object = None) -> None:
        Path(path).write_text("saved")

    def close(self) -> None:
        self._process.kill()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIG_DFL)
    except ProcessLookupError:
        return False
    return True
