"""What a server can serve: a demo, or a program that is being recorded and gets a timeline wherever it stands.

Runs in: the server. May call: launch, timeline and rsp.
Owns: how a live recording gets a timeline.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gdbrr.config.profiles import Profile
from gdbrr.errors import GdbrrError
from gdbrr.rsp.live import Session
from gdbrr.rsp.process.marks import Marks
from gdbrr.timeline.model import Interrupted, Progress, ThreadView, Timeline
from gdbrr.timeline.state.stops import NEAR, NotFound

if TYPE_CHECKING:
    from gdbrr.demo.manifest import SavedAt
    from gdbrr.launch.live import LiveRecording
    from gdbrr.timeline.live.follow import Following
    from gdbrr.timeline.timeline import DemoTimeline, Stop
    from gdbrr.timeline.worker import Desynchronised

_FAULTS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
"""What a program brings on itself by an instruction, and again in a replay."""


def demo_session(path: Path, trust: bool = False, patience: float | None = None, check: bool | None = None) -> Session:
    """A demo, standing at its end; at its start where its replay takes longer than PATIENCE seconds to come there."""
    from gdbrr.launch import inputs
    from gdbrr.timeline.timeline import open_demo

    timeline = open_demo(path, trust=trust, check=check)
    manifest = timeline.demo.manifest
    end = manifest.get("end", {})
    notes = inputs.sentences(manifest)

    def settle(progress: Progress | None) -> None:
        cut = timeline.settle(progress)
        if check:
            timeline.seek(timeline.end, progress).drop()  # what differs there is said before GDB connects
        notes[:0] = filter(None, [_note(timeline, cut)])
        session.crashed = not cut and end.get("kind") == "signal" and end.get("value") in _FAULTS

    def save(target: str, stop: SavedAt | None = None) -> None:
        try:
            shutil.copy(path, target)  # with its mode: a demo holds what the program read
        except OSError as error:
            raise GdbrrError(f"{target} cannot be written: {error.strerror}", hint="name another file") from None

    session = Session(
        timeline=timeline,
        save=save,
        note=lambda: "; ".join(notes),
        marks=Marks(path),
        facts=lambda: _facts(path, manifest),
        program=str(manifest.get("program", "")),
        settle=settle,
    )
    try:
        if patience != 0:
            settle(_for_seconds(patience))
            session.settle = None
    except Interrupted:
        pass
    except BaseException:
        timeline.close()
        raise
    return session


def _for_seconds(limit: float | None) -> Progress | None:
    """A progress that has heard enough after LIMIT seconds."""
    if limit is None:
        return None
    end = time.monotonic() + limit

    def look(what: str, fraction: float) -> None:
        if time.monotonic() > end:
            raise Interrupted("it takes longer")

    return look


def _facts(path: Path, manifest: Mapping[str, Any]) -> list[list[str]]:
    started, end = manifest.get("started"), manifest.get("end", {})
    order = str(manifest.get("order", "?"))
    with contextlib.suppress(GdbrrError):
        seed = Profile.from_json(manifest.get("profile")).seed
        order += f", seed {seed}" if seed else ""
    rows = [["demo", str(path)]]
    if started is not None:
        rows.append(["recorded", time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(started))])
    rows.append(["arguments", " ".join(map(repr, manifest.get("argv", [])[1:])) or "none"])
    return [*rows, ["order", order], ["end", f"{end.get('kind', 'unknown')} {end.get('value', '')}".strip()]]


def _note(timeline: DemoTimeline, cut: Desynchronised | None) -> str:
    """What differs from the recording, for every line that tells where one is."""
    if cut:
        others = _others(timeline)
        return f"desynchronised behind tick {cut.tick} of {timeline.demo.ticks}" + (f" ({others})" if others else "")
    soft = f"output differs from tick {timeline.soft.tick} on" if timeline.soft else ""
    lost = (
        "ends at its last operation, because the stop at which it was saved was not found" if timeline.lost_end else ""
    )
    return "; ".join(filter(None, [soft, lost]))


def _doubt(names: Sequence[str]) -> str:
    which = ", ".join(names)
    return (
        f"the replay has other values in {which} here: the program has read what no recording holds since its last"
        " operation, as rdrand or the time stamp counter"
    )


def _others(timeline: DemoTimeline) -> str:
    """Which of the files that were mapped are others by now."""
    from gdbrr.launch import host

    paths = [repr(path) for path, _, _ in host.other_objects(timeline.demo.manifest)]
    return f"{', '.join(paths)}: not as recorded" if paths else ""


def live_session(
    argv: Sequence[str], profile: Profile, keyboard: Path | None = None, given: int | None = None
) -> Session:
    """A program to record, stopped at its first instruction; what it writes to its terminal shows up on GDB's. What it
    reads there is typed on KEYBOARD, a terminal; or it reads from GIVEN, a descriptor, which is closed.

    It gets no session of its own: the launcher would be that session's leader, and its end a hang-up for the program.
    """
    from gdbrr.launch import live

    terminal, program_side = os.openpty()
    try:
        quiet = termios.tcgetattr(program_side)
        # What the program prints reaches GDB as it is; the carriage returns are added by GDB's own terminal.
        quiet[1] &= ~termios.OPOST
        quiet[3] &= ~termios.ECHO
        termios.tcsetattr(program_side, termios.TCSANOW, quiet)
        reads = program_side if given is None else given
        recording = live.start(argv, profile, stdio=(reads, program_side, program_side))
        name = os.ttyname(program_side)
    except BaseException:
        os.close(terminal)
        raise
    finally:
        os.close(program_side)
        if given is not None:
            os.close(given)
    process = RecordedProcess(recording, terminal, name, keyboard)
    return Session(live=process, save=process.save, note=process.note, program=recording.program)


class RecordedProcess:
    """Implements gdbrr.rsp.live.Live."""

    def __init__(self, recording: LiveRecording, terminal: int, name: str, keyboard: Path | None) -> None:
        from gdbrr.abi import map_ctl

        self._recording = recording
        self._terminal = terminal
        self._name = name
        self._keyboard = -1 if keyboard is None else os.open(keyboard, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
        self._page = map_ctl(recording.directory / "ctl")
        self.approximate = self.inside = False
        self.doubt = ""
        self._differs = ""
        self._following: Following | None = None
        if recording.follows:
            from gdbrr.timeline.live.follow import Following

            demo = recording.directory.with_name("following.demo")
            self._following = Following(recording.directory, self._page, recording.manifest, demo, self.pid)

    @property
    def pid(self) -> int:
        return self._recording.pid

    @property
    def trap_pc(self) -> int:
        return int(self._page.c.trap_pc)

    @property
    def call_pc(self) -> int:
        return int(self._page.c.call_pc)

    @property
    def actions(self) -> int:
        return int(self._page.c.actions)

    def catch(self, numbers: frozenset[int] | None, attended: bool = True) -> None:
        from gdbrr.abi import lib

        caught = self._page.c.caught
        for at in range(len(caught)):
            caught[at] = 0xFF if numbers is not None and not numbers else 0
        for number in numbers or ():
            if number < 8 * len(caught):
                caught[number // 8] |= 1 << number % 8
        if attended:
            caught[lib.GR_CAUGHT_SENT // 8] |= 1 << lib.GR_CAUGHT_SENT % 8

    @property
    def output_fd(self) -> int:
        return self._terminal

    @property
    def keyboard_fd(self) -> int:
        return self._keyboard

    @property
    def unread(self) -> int:
        # Not kept open: the terminal's end is seen by that nobody else has it.
        side = os.open(self._name, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
        try:
            return int.from_bytes(fcntl.ioctl(side, termios.FIONREAD, bytes(4)), sys.byteorder)
        finally:
            os.close(side)

    @property
    def ticks(self) -> int:
        from gdbrr.abi import lib

        return int(self._page.c.clock & ~lib.GR_CLOSED)

    def thread_views(self) -> Sequence[ThreadView]:
        from gdbrr.timeline.leaf import views

        return views(self.pid, self._page.c.threads if self._page.c.started else 0, leaving=True)

    def timeline_at_stop(self, tid: int, regs: dict[str, int], progress: Progress | None = None) -> Timeline:
        views = {view.tid: view for view in self.thread_views()}
        if not views:
            raise GdbrrError("nothing is recorded yet", hint="let the program run to a breakpoint first")
        # In the middle of an operation there is no moment. Of one that has no event yet, as of a lock that is not free,
        # the timeline ends at its call; else at the last event that is recorded, as where a thread has not said yet who
        # it is.
        view = views.get(tid)
        begun = view is not None and view.in_engine
        if begun:
            regs = {name: regs[name] for name in ("rip", *NEAR[0]) if name in regs}
        stop = None if view is None or "rip" not in regs else (view.index, regs)
        self.approximate = self.inside = False
        self.doubt = ""
        try:
            timeline = self._timeline(stop, progress, self.pid)
        except Interrupted:
            raise
        except GdbrrError as error:
            lost = isinstance(error, NotFound)
            self.approximate = not (begun and lost)
            self.doubt = error.message if self.approximate else ""
            if lost and self.approximate:
                self.doubt = (
                    "this place was not found in the replay; the past ends at the last operation in front of it"
                )
            return self._settled(self._timeline(None, progress), progress)
        if (stopped := timeline.stopped) is not None:
            self.approximate, self.inside = stopped.doubtful, stopped.inside
            if stopped.differs:
                self.doubt = _doubt(stopped.differs)
        return timeline

    def timeline_finished(self, progress: Progress | None = None) -> Timeline:
        return self._settled(self._timeline(None, progress), progress)

    def _settled(self, timeline: DemoTimeline, progress: Progress | None) -> DemoTimeline:
        """Where its replay is desynchronised, time ends there; what is in front can be gone to."""
        try:
            self._differs = _note(timeline, timeline.settle(progress))
            if self.approximate:
                self._differs = self._differs or _others(timeline)
        except BaseException:
            timeline.close()
            raise
        timeline.demo.at_close.callback(self._closed)
        return timeline

    def _closed(self) -> None:
        self._differs = ""

    def _timeline(self, stop: Stop | None, progress: Progress | None, like: int | None = None) -> DemoTimeline:
        """Of everything so far. Where nothing could follow the recording, it is replayed from its beginning."""
        from gdbrr.demo.grow import Unfollowable
        from gdbrr.timeline.timeline import open_demo
        from gdbrr.timeline.worker import Desynchronised

        self._recording.check_started()
        if self._following is not None and not self._following.failed:
            with contextlib.suppress(Unfollowable, Desynchronised):
                return self._following.timeline(stop, progress, like)
        # Recorded by this process a moment ago: there is nobody else to trust.
        return open_demo(self._recording.snapshot(), trust=True, stop=stop, progress=progress, like=like)

    def stop_recording(self) -> None:
        self._recording.stop_recording()

    def save(self, path: str, stop: SavedAt | None = None) -> None:
        self._recording.save(Path(path), stop)

    def note(self) -> str:
        refusal = self._recording.refusal
        return "; ".join(filter(None, [str(refusal or ""), self._differs]))

    def close(self) -> None:
        if self._following is not None:
            self._following.close()
        self._page.close()
        self._recording.close()
        for fd in filter(lambda fd: fd >= 0, (self._terminal, self._keyboard)):
            os.close(fd)
