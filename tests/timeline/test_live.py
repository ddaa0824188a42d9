"""A program that is being recorded under a debugger: its past while it stands still, and its demo afterwards."""

from __future__ import annotations

import ctypes
import errno
import os
import select
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gdbrr.config import profiles
from gdbrr.ctl.threads import REGISTERS
from gdbrr.demo.reader import Demo
from gdbrr.errors import GdbrrError
from gdbrr.launch import live, replay
from gdbrr.timeline.leaf import views
from gdbrr.timeline.model import Moment, Point, PointKind
from gdbrr.timeline.timeline import open_demo

from .conftest import BOTH_WAYS, Program, children

PTRACE_PEEKTEXT, PTRACE_POKETEXT, PTRACE_CONT = 1, 4, 7
PTRACE_GETREGS, PTRACE_SETREGS, PTRACE_DETACH, PTRACE_SEIZE = 12, 13, 17, 0x4206
# struct user_regs_struct
USER = (
    "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs_base gs_base "
    "ds es fs gs"
).split()


class Debugger:
    """The smallest one: a breakpoint, and the registers there."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.ptrace.restype = ctypes.c_long
        self._ask(PTRACE_SEIZE, 0, 0)

    def _ask(self, request: int, address: int, data: object) -> int:
        ctypes.set_errno(0)
        argument = data if not isinstance(data, int) else ctypes.c_ulong(data)
        result = self._libc.ptrace(ctypes.c_long(request), ctypes.c_long(self.pid), ctypes.c_ulong(address), argument)
        assert ctypes.get_errno() == 0, os.strerror(ctypes.get_errno())
        return int(result) & (1 << 64) - 1

    def run_to(self, address: int, before: int = 0) -> dict[str, int]:
        """Run a program stopped by SIGSTOP to a breakpoint; returns the registers in front of the instruction there."""
        os.waitpid(self.pid, os.WUNTRACED)  # the group stop, once more for the tracer
        text = self._ask(PTRACE_PEEKTEXT, address, 0)
        self._ask(PTRACE_POKETEXT, address, text & ~0xFF | 0xCC)
        os.kill(self.pid, signal.SIGCONT)
        self._ask(PTRACE_CONT, 0, 0)
        while True:
            _, status = os.waitpid(self.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status), status
            sig = os.WSTOPSIG(status)
            if sig == signal.SIGTRAP and status >> 16 == 0:
                break
            self._ask(PTRACE_CONT, 0, 0 if status >> 16 or sig == signal.SIGTRAP else sig)
        self._ask(PTRACE_POKETEXT, address, text)
        raw = (ctypes.c_ulong * len(USER))()
        self._ask(PTRACE_GETREGS, 0, raw)
        raw[USER.index("rip")] = address
        self._ask(PTRACE_SETREGS, 0, raw)
        regs = dict(zip(USER, raw, strict=True))
        return {name: regs[name] for name in REGISTERS}

    def detach(self) -> None:
        self._ask(PTRACE_DETACH, 0, 0)


@pytest.fixture(params=BOTH_WAYS)
def recording(request: pytest.FixtureRequest, moments_program: Program, tmp_path: Path) -> Iterator[live.LiveRecording]:
    with open(tmp_path / "out", "wb") as out:
        stdio = (0, out.fileno(), 2)
        profile = profiles.resolve("default", None, [f"points={request.param}"])
        started = live.start([str(moments_program.path)], profile, str(tmp_path), stdio=stdio)
    yield started
    started.close()
    assert not children()


def test_past_of_a_stopped_program(recording: live.LiveRecording, moments_program: Program, tmp_path: Path) -> None:
    symbols = moments_program.symbols
    counter = Point(PointKind.CHANGE, symbols["counter"], 4)
    debugger = Debugger(recording.pid)
    regs = debugger.run_to(symbols["touch"])
    with open_demo(recording.snapshot(), stop=(0, regs)) as timeline:
        # WHERE it stands: at the first of 500 calls, behind the last operation of the demo so far.
        assert timeline.end == Moment(timeline.end.tick, symbols["touch"], 1)
        leaf = timeline.seek(timeline.end)
        assert leaf.thread == 0
        shown = next(view.regs for view in leaf.threads() if view.index == 0)
        for name in ("rip", "rsp", "rbp", "rdi", "rbx", "r12"):
            assert shown[name] == regs[name], name
        hit = timeline.last_hit([counter], timeline.end)
        assert hit
        assert (hit.old, hit.new) == (299, 300)
        previous = timeline.previous(timeline.end)
        assert previous
        assert previous.tick == timeline.end.tick
        assert timeline.locate(timeline.end.tick, 0, regs) == timeline.end
    debugger.detach()
    assert _ended(recording) == 0
    recording.save(tmp_path / "whole.demo")
    with Demo.open(tmp_path / "whole.demo") as demo:
        assert (demo.end.kind, demo.end.value) == ("exit", 0)
        assert demo.ticks > timeline.end.tick
        assert replay.run(demo, echo=False).synchronised


def _ended(recording: live.LiveRecording) -> int:
    watched = os.pidfd_open(recording.pid)
    poll = select.poll()
    poll.register(watched, select.POLLIN)
    assert poll.poll(30_000)
    os.close(watched)
    status = recording.poll()
    assert status is not None
    return status


def test_past_of_a_program_stopped_in_an_operation(tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    with open(tmp_path / "out", "wb") as out:
        started = live.start(
            ["/bin/sh", "-c", "read line"], profiles.resolve("default", None, []), stdio=(ours, out.fileno(), 2)
        )
    try:
        os.kill(started.pid, signal.SIGCONT)
        while not Path(f"/proc/{started.pid}/syscall").read_text().startswith("0 0x0 "):
            assert started.poll() is None
        os.kill(started.pid, signal.SIGSTOP)
        os.waitpid(started.pid, os.WUNTRACED)
        with open_demo(started.snapshot()) as timeline:
            leaf = timeline.seek(timeline.end)
            assert leaf.ended
            assert [view.in_engine for view in leaf.threads()] == [True]
    finally:
        started.close()
        os.close(ours)
        os.close(theirs)
    assert not children()


def test_nothing_is_there_before_the_first_operation(recording: live.LiveRecording) -> None:
    assert Path(f"/proc/{recording.pid}/stat").read_text().split()[2] == "T"
    assert views(recording.pid, 1) == []
    with pytest.raises(GdbrrError, match="nothing was recorded"):
        recording.snapshot()


def test_closing_ends_the_program_and_removes_its_log(recording: live.LiveRecording) -> None:
    directory = recording.directory
    assert (directory / "log").exists()
    recording.close()
    assert not Path(f"/proc/{recording.pid}").exists()
    assert not directory.parent.exists()


def test_program_with_a_terminal_of_its_own(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    started = live.start(
        ["/bin/sh", "-c", "test -t 0 && echo terminal >/dev/tty; read line"],
        profiles.resolve("default", None, []),
        stdio=(theirs, theirs, theirs),
        session=True,
    )
    os.close(theirs)
    try:
        assert os.getsid(started.pid) != os.getsid(0)
        os.kill(started.pid, signal.SIGCONT)
        assert os.read(ours, 100) == b"terminal\r\n"
    finally:
        started.close()
        os.close(ours)


def test_without_room_for_how_it_ended_it_can_be_kept_elsewhere(
    recording: live.LiveRecording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recording's directory is a temporary one: there will be nothing that `gdbrr recover` could take."""

    def full(*_: object) -> None:
        raise GdbrrError(os.strerror(errno.ENOSPC))

    monkeypatch.setattr("gdbrr.launch.record.Recording._write_manifest", full)
    os.kill(recording.pid, signal.SIGCONT)
    with pytest.raises(GdbrrError, match=r"No space left on device\. Make room, or keep it .* rr-save FILE$"):
        while recording.poll() is None:
            time.sleep(0.01)
    assert recording.poll() is not None, "it was waited for, and its id is somebody else's from now on"
    monkeypatch.undo()
    recording.save(tmp_path / "x.demo")
    with Demo.open(tmp_path / "x.demo") as demo:
        assert demo.ticks > 100
