"""`set scheduler-locking` in a replay: a thread that is resumed alone goes on until it is the turn of another one.

Runs in: the server. May call: gdbrr.rsp.debuggee, a Timeline.
Owns: whether GDB's last resume was of one thread alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdbrr.rsp.debuggee import Debuggee
from gdbrr.rsp.request import Action
from gdbrr.timeline.model import Timeline, Turn


class Lock:
    def __init__(self) -> None:
        self._alone = False
        self.thread = 0
        """The thread that is resumed alone, in GDB's ids; 0 where all are."""

    def look(self, actions: Sequence[Action], over: bool) -> None:
        """ACTIONS are GDB's. OVER a breakpoint it steps in one thread alone, too: then it is as it was before."""
        thread = actions[0].thread if len(actions) == 1 else None
        alone = thread is not None and thread.exact
        if not over or not alone:
            self._alone = alone
        self.thread = thread.tid if thread is not None and self._alone else 0


def another(debuggee: Debuggee, timeline: Timeline, tid: int) -> Turn | None:
    """Where thread TID goes no further: at the next operation of somebody else, or at its own last one; None where that
    is the end. If it is somebody else who computes now, at what that one computes behind."""
    view = debuggee.views().get(tid)
    if view is None or debuggee.leaf is None or debuggee.at_end:
        return None
    tick = debuggee.leaf.tick
    busy = None if debuggee.standing else debuggee.views().get(debuggee.busy())
    if busy is not None and busy.tid != tid:
        return Turn(tick, busy.index)
    return timeline.next_turn(tick, view.index)


def is_now(debuggee: Debuggee, turn: Turn, tid: int) -> bool:
    """Whether thread TID is there."""
    if debuggee.leaf is None or debuggee.leaf.tick != turn.tick:
        return False
    return debuggee.standing or debuggee.busy() != tid


def sentence(debuggee: Debuggee, virtual_pid: int, thread: int, turn: Turn) -> str:
    """Why THREAD, in GDB's ids, goes no further."""
    owner = next((tid for tid, view in debuggee.views().items() if view.index == turn.thread), None)
    alone, hint = f"Thread {virtual_pid}.{thread}", "Try: set scheduler-locking off\n"
    if owner is not None and debuggee.virtual(owner) == thread:
        return f"gdbrr: {alone} stops in front of its last operation (tick {turn.tick}). {hint}"
    whose = "another thread" if owner is None else f"Thread {virtual_pid}.{debuggee.virtual(owner)}"
    return f"gdbrr: {alone} waits: it is the turn of {whose} (tick {turn.tick}). {hint}"
