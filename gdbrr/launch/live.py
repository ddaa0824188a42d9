"""A recording under a debugger: the program starts stopped, and can be looked back into while it is stopped.

Runs in: the server. May call: errors, demo, launch.
Owns: the program's process (it must be reaped here), its recording directory, snapshots of it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gdbrr.abi import lib
from gdbrr.config.profiles import Value
from gdbrr.errors import GdbrrError
from gdbrr.launch import engine as engines
from gdbrr.launch.ends.errors import Kept, refusal
from gdbrr.launch.record import Recording, Request

if TYPE_CHECKING:
    from gdbrr.abi import Ctl
    from gdbrr.config.profiles import Profile
    from gdbrr.demo.manifest import Manifest, SavedAt


class LiveRecording:
    """The program being recorded. Until `finish` or `close` its log lies in a private temporary directory."""

    def __init__(self, recording: Recording, scratch: tempfile.TemporaryDirectory[str]) -> None:
        self._recording = recording
        self._scratch = scratch
        self._snapshots = 0
        self.status: int | None = None
        """As a shell shows it, once the program has ended."""

    @property
    def pid(self) -> int:
        return self._recording.pid

    @property
    def program(self) -> str:
        """Absolute path."""
        return self._recording.program

    @property
    def directory(self) -> Path:
        return self._recording.directory

    def poll(self) -> int | None:
        """Note whether the program has ended; returns its status then."""
        if self.status is None:
            self._recording.note_objects()
            with contextlib.suppress(ChildProcessError):
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    code = os.waitstatus_to_exitcode(status)
                    self.status = code if code >= 0 else 128 - code  # it was waited for
                    with _room_wanted():
                        self._recording.end(status)
        return self.status

    @property
    def refusal(self) -> GdbrrError | None:
        """Why the engine ended the program, if it did."""
        panic = self._recording.panic
        return refusal(panic) if panic is not None and panic.refused else None

    @property
    def page(self) -> Ctl:
        return self._recording.page

    @property
    def follows(self) -> bool:
        """Whether a replay shall run behind the program."""
        knobs = self._recording.request.profile.knobs()
        return bool(knobs["follow"]) and not knobs["check"]

    def manifest(self) -> Manifest:
        """What a demo of everything so far says about itself."""
        from gdbrr.demo.pack import manifest_of

        return manifest_of(self.directory, self._recording.page)

    def check_started(self) -> None:
        """Raises an error if the engine did not come to work."""
        self.poll()
        self._recording.check_started()

    def snapshot(self) -> Path:
        """A demo of everything so far; the program must be stopped or gone. It lives as long as this object."""
        self.check_started()
        self._snapshots += 1
        demo = Path(self._scratch.name) / f"snapshot-{self._snapshots}.demo"
        with _room_wanted():
            self._recording.pack(demo)
        return demo

    def save(self, demo: Path, stop: SavedAt | None = None) -> None:
        """Keep everything so far, up to STOP, as a demo of the user's."""
        self.check_started()
        self._recording.pack(demo, stop)

    def stop_recording(self) -> None:
        """Log nothing from here on; the program, which a debugger holds stopped, goes on without the engine."""
        self._recording.page.c.clock |= lib.GR_CLOSED

    def close(self) -> None:
        """End the program if it still runs, and forget the recording."""
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.pid, 0)
            self.status = 128 + signal.SIGKILL
        self._recording.page.close()
        self._scratch.cleanup()

    def finish(self, demo: Path | None = None) -> None:
        """End it, keeping what was recorded as DEMO where one is named."""
        try:
            if demo:
                self.save(demo)
        finally:
            self.close()


@contextlib.contextmanager
def _room_wanted() -> Iterator[None]:
    """The directory goes with us, so nobody can recover anything from it later."""
    try:
        yield
    except Kept as kept:
        raise GdbrrError(kept.why, "make room, or keep it where there is some: rr-save FILE") from None


def start(
    argv: Sequence[str],
    profile: Profile,
    cwd: str | None = None,
    env: dict[str, str] | None = None,
    *,
    stdio: tuple[int, int, int] | None = None,
    session: bool = False,
) -> LiveRecording:
    """Start ARGV recorded; it is stopped by SIGSTOP at its very first instruction, for a debugger to attach.

    STDIO are its descriptors 0 to 2 (default: those of this process). With SESSION it gets a session of its own, whose
    terminal is descriptor 0.
    """
    if not argv:
        raise GdbrrError("no program is named", "name one")
    # INVARIANT(ticks-stay): what was recorded before a stop has the same ticks in every timeline made later, and the
    # clock says how many there are: so every operation takes a stamp of it.
    # What follows it reads a log that holds everything.
    ours = {"engine.order_log": Value("clock", "rr-start"), "engine.references": Value(0, "rr-start")}
    profile = profile._replace(values={**profile.values, **ours})
    request = Request(argv, dict(os.environ) if env is None else env, cwd or os.getcwd(), profile, engines.find())
    scratch = tempfile.TemporaryDirectory(prefix="gdbrr-live-")
    try:
        recording = Recording(request, Path(scratch.name) / "live.recording")
        try:
            recording.page.slot(0).flags = lib.GR_SLOT_DEBUGGED
            pid = recording.start(stop=True, die_with_parent=True, stdio=stdio, session=session)
            _, status = os.waitpid(pid, os.WUNTRACED)
            if not os.WIFSTOPPED(status):
                raise GdbrrError(
                    f"{recording.program} ended before its first instruction", "start it without gdbrr to see why"
                )
        except BaseException:
            recording.remove()
            raise
    except BaseException:
        scratch.cleanup()
        raise
    return LiveRecording(recording, scratch)
