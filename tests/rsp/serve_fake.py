"""A server of the fake timeline or the fake live process: python -m rsp.serve_fake KIND PROGRAM SOCKET [SLOW]."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from gdbrr.rsp.calls import ANSWER_SECONDS
from gdbrr.rsp.live import Session
from gdbrr.server import Server, pipe_at
from gdbrr.timeline.model import Epoch, Moment, Progress
from rsp.fake import RECORDED, FakeLive, FakeTimeline

NO_IDS = (0, 0xFFFFFFFF)


class FaultyTimeline(FakeTimeline):
    """With mistakes in it, as gdbrr's own may have."""

    @property
    def epochs(self) -> Sequence[Epoch]:
        raise ZeroDivisionError("epochs")

    def previous(self, moment: Moment, progress: Progress | None = None) -> Moment | None:
        raise ZeroDivisionError("previous")


class LateTimeline(FakeTimeline):
    """Which moment a place is takes it longer than GDB waits for an answer; a move waits for it."""

    def locate(
        self, tick: int, thread: int, regs: dict[str, int], progress: Progress | None = None, **_: object
    ) -> Moment:
        deadline = time.monotonic() + ANSWER_SECONDS + 1
        while progress is not None and time.monotonic() < deadline:
            progress("looking", 0.5)
            time.sleep(0.005)
        return super().locate(tick, thread, regs)


def main(kind: str, program: str, path: str, slow: str = "0") -> None:
    def opener() -> Session:
        if kind == "live":
            live = FakeLive(Path(program))
            return Session(live=live, save=live.save, program=program)
        timeline: FakeTimeline
        if kind == "faulty":
            timeline = FaultyTimeline(Path(program))
        elif kind == "late":
            timeline = LateTimeline(Path(program))
        else:
            timeline = FakeTimeline(Path(program), recorded=NO_IDS if kind == "no ids" else RECORDED)
        timeline.slow_search = float(slow)
        timeline.crash = kind == "crash"
        return Session(timeline=timeline, program=program, crashed=timeline.crash)

    if path == "-":
        Server(opener).serve_stdio()
    else:
        Server(opener).serve_socket(Path(path), lambda: print(f"ready {path}", flush=True), pipe_at(0))


if __name__ == "__main__":
    main(*sys.argv[1:])
