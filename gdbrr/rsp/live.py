"""What the proxy needs of a process that is being recorded; no processes in here.

Runs in: the server. May call: gdbrr.rsp.request, gdbrr.rsp.stop, gdbrr.timeline.model.
Owns: the Live protocol, which gdbrr.sessions implements and tests fake; what a session is made of; how it is resumed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from gdbrr.rsp.process.marks import Marks
from gdbrr.rsp.request import Action
from gdbrr.rsp.stop import SIGNAL_CONT, SIGNAL_HUP, SIGNAL_STOP
from gdbrr.timeline.model import Progress, ThreadView, Timeline

HANDOVER = (SIGNAL_STOP, SIGNAL_CONT, SIGNAL_HUP)
"""What it may have pending from being handed over stopped; the kernel itself adds SIGHUP and SIGCONT where the end of
the launcher's helper orphans the process group."""


class Live(Protocol):
    """A process being recorded. It is stopped at its first instruction and traced by nobody when it is handed over."""

    @property
    def pid(self) -> int: ...
    @property
    def trap_pc(self) -> int:
        """A SIGTRAP with this pc means: the recording is over as soon as the process goes on. 0 where unknown."""
        ...

    @property
    def call_pc(self) -> int:
        """A SIGTRAP with this pc means: a thread is at a system call that is caught. 0 where unknown."""
        ...

    @property
    def actions(self) -> int:
        """Where the engine keeps what the program asked for each signal; 0 where unknown."""
        ...

    def catch(self, numbers: frozenset[int] | None, attended: bool = True) -> None:
        """Stop at these system calls from now on: at none of them (None), or all (an empty set); and where ATTENDED
        by a debugger, at a sent signal of the kind that the engine goes by."""
        ...

    @property
    def approximate(self) -> bool:
        """The timeline at this stop ends a little in front of it."""
        ...

    @property
    def doubt(self) -> str:
        """Why its past is not known exactly, as a sentence; nothing where it is."""
        ...

    @property
    def inside(self) -> bool:
        """It has begun the instruction at which its timeline ends: a repeated one, in the middle of its rounds."""
        ...

    @property
    def output_fd(self) -> int:
        """Where the program's output can be read, for GDB's terminal; -1 where it has one of its own."""
        ...

    @property
    def keyboard_fd(self) -> int:
        """Where can be read what is typed for it; -1 where nobody types."""
        ...

    @property
    def unread(self) -> int:
        """Bytes that were typed for it and that it has not read."""
        ...

    @property
    def ticks(self) -> int:
        """Operations so far."""
        ...

    def thread_views(self) -> Sequence[ThreadView]: ...
    def timeline_at_stop(self, tid: int, regs: dict[str, int], progress: Progress | None = None) -> Timeline:
        """The past of a process stopped by a debugger: its log so far, ending where thread TID stands now. Of REGS
        those that are not known are left out."""
        ...

    def timeline_finished(self, progress: Progress | None = None) -> Timeline:
        """The same when the process has ended."""
        ...

    def stop_recording(self) -> None:
        """Let the stopped process go on unrecorded."""
        ...

    def save(self, path: str, stop: SavedAt | None = None) -> None:
        """Keep what was recorded; STOP is where the timeline ends, if that is in the middle of a segment."""
        ...

    def close(self) -> None:
        """End the process, if it has not, and remove what was not saved."""
        ...


def resume_words(actions: Sequence[Action], acting: Callable[[Action], int]) -> list[str]:
    """What GDB asks, as gdbserver has to be told it; ACTING is the kernel id of the thread an action is for."""
    words = []
    for action in actions:
        word = "s" if action.step else "c"
        if action.signal:
            word = f"{word.upper()}{action.signal:02x}"
        named = action.thread is not None and action.thread.exact
        # Of two actions for all threads the last wins: a signal is for the thread that got it.
        words.append(f"{word}:{acting(action):x}" if named or action.signal or action.step else word)
        if action.signal and not named and not action.step:
            words.append("c")
    return words


def resume_verb(verb: str, thread: int | None, signals: Sequence[tuple[int, int]]) -> bytes:
    """vCont's actions. A signal needs its thread named: of two actions for all, the last would win."""
    words = [f"{verb.upper()}{number:02x}:{tid:x}" for tid, number in signals if thread in (None, tid)]
    if thread is None:
        words.append(verb)
    elif not words:
        words.append(f"{verb}:{thread:x}")
    return ";".join(words).encode()


SavedAt = Mapping[str, Any]
Save = Callable[[str, SavedAt | None], None]
Note = Callable[[], str]
Settle = Callable[[Progress | None], None]


@dataclass
class Session:
    """What is debugged: a demo's timeline, or a live recording that will have one."""

    timeline: Timeline | None = None
    live: Live | None = None
    save: Save | None = None
    note: Note | None = None
    """What a user must know at every look at the time: why the recording ended where that was not the program's own
    doing; of a demo, that it could not be kept to its end, or which of its inputs changed."""
    marks: Marks = field(default_factory=Marks)
    facts: Callable[[], list[list[str]]] = list
    """What `info gdbrr` shows of the demo or the recording."""
    program: str = ""
    crashed: bool = False
    """The recording ended in a fatal signal that the program brought on itself."""
    settle: Settle | None = None
    """Of a demo whose replay has not come to its end yet: wait for that. Until then the session is at its start."""
    unsaid: bool = False
    """Who connects shows by itself where that is, and GDB is to say nothing about it."""
