"""Leaves brought to moments and put under a gdbserver, one at a time; and what becomes of one that was changed.

Runs in: the server. May call: gdbrr.rsp.debuggee, a Timeline.
Owns: the current process, and where it was landed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from gdbrr.errors import GdbrrError
from gdbrr.rsp.debuggee import Debuggee, Wait
from gdbrr.rsp.live import Session
from gdbrr.rsp.process import files
from gdbrr.rsp.process.altered import Altered
from gdbrr.rsp.request import Action
from gdbrr.rsp.stop import SIGNAL_INT, SIGNAL_TRAP
from gdbrr.rsp.upstream import Pool, Told
from gdbrr.timeline.model import Leaf, Moment, Progress, Sent, Timeline

Say = Callable[[str | bytes], None]


class Landing:
    def __init__(self, session: Session, pool: Pool, told: Told, wait: Wait, say: Say) -> None:
        self.session = session
        self.pool = pool
        self.timeline = session.timeline
        self._current: Debuggee | None = None
        self._due: Moment | None = None
        """Where it stands in truth, while the current process stands one instruction behind."""
        self.live: Debuggee | None = None
        self.altered: Altered | None = None
        """The current leaf holds something that the recording does not."""
        self.thread = 0
        """The thread of the last stop, in GDB's ids."""
        self.selected = 0
        """The thread that the user has selected instead, until the next stop; 0 if nobody said so."""
        self._still_selected = 0
        """The same, behind the next stop: on GDB's way to a step of that thread."""
        self.virtual_pid = 0
        self.approximate = False
        self._told = told
        self._wait = wait
        self.say = say
        """Puts text on GDB's terminal; only while GDB waits for a stop."""
        self._moment: Moment | None = None
        self._landed: Moment | None = None
        self._crash = 0
        """The signal of the crash it stands at, in GDB's numbers."""
        self.sent: Sent | None = None
        """The signal that it stands in front of and that GDB was told of."""
        self._way_back = Moment(0), 0, False
        self.failure: GdbrrError | None = None
        """Why the last move to an armed target did not come there."""
        self.read_libraries = b""
        """What GDB knows to be loaded, if it has asked for all of it at once."""

    @property
    def recording(self) -> bool:
        return self.live is not None and self._current is self.live

    @property
    def current(self) -> Debuggee | None:
        """INVARIANT(nobody-sees-the-other-place): who asks for the process gets one where it stands."""
        if self._due is not None:
            moment, thread = self._due, self.thread
            self.land(moment)
            self.thread = thread
        return self._current

    @current.setter
    def current(self, debuggee: Debuggee | None) -> None:
        self._current, self._due = debuggee, None

    def libraries(self, annex: bytes) -> bytes:
        """What the loader has loaded, for GDB; ANNEX asks for a part."""
        data = files.libraries(self.require().upstream, annex)
        self.read_libraries = b"" if annex else data
        return data

    def stops(self) -> None:
        """GDB is told of a stop, and selects its thread."""
        self.selected, self._still_selected = self._still_selected, 0

    def tell_signals(self) -> None:
        """GDB has changed its mind about which signals it wants to see; who is attached to later is told then."""
        if self._due is None:
            self.require().upstream.tell_signals(self._told)

    def _timeline(self) -> Timeline:
        if self.timeline is None:
            raise GdbrrError("there is no past yet", hint="go back first, by rr-back; rr-live comes back here")
        return self.timeline

    def require(self) -> Debuggee:
        current = self.current
        if current is None:
            raise GdbrrError("no process is there any more", hint="try: run")
        return current

    def index(self, thread: int) -> int | None:
        debuggee = self.require()
        view = debuggee.views().get(debuggee.real(thread))
        return None if view is None else view.index

    def _acting(self, action: Action) -> int:
        """The kernel id of the thread an action is for."""
        virtual = action.thread.tid if action.thread is not None and action.thread.exact else self.thread
        return self.require().real(virtual)

    def land(self, moment: Moment, progress: Progress | None = None, thread_index: int | None = None) -> None:
        """Put a new leaf at MOMENT under a gdbserver. The old one stays until the new one is known to be right."""
        leaf = self._timeline().seek(moment, progress)
        upstream = None
        try:
            upstream = self.pool.take()
            debuggee = Debuggee(upstream, self._told, self._wait, leaf=leaf)
            debuggee.materialise()
            thread = self._verify(debuggee, leaf, thread_index)
        except BaseException:
            if upstream is not None:
                with contextlib.suppress(GdbrrError):
                    upstream.kill()
                self.pool.give(upstream)
            leaf.drop()
            raise
        self._discard()
        self.current = debuggee
        self.thread = thread
        self._moment = self._landed = leaf.moment
        self._crash = 0
        if self.sent is not None and leaf.moment != Moment(self.sent.tick):
            self.sent = None
        self.approximate = leaf.moment != self._timeline().present(moment)
        if not self.virtual_pid:
            first = min(debuggee.views().values(), key=lambda view: view.index, default=None)
            self.virtual_pid = debuggee.virtual(first.tid if first else debuggee.turn())

    def _land_at_end(self, progress: Progress | None = None) -> None:
        """At the end of time; of a program that crashed, at the crash, which lies behind its last operation."""
        timeline = self._timeline()
        if self.session.settle is not None:
            self.session.settle(progress)
            self.session.settle = None
        end = timeline.end
        self.land(end, progress)
        if not self.session.crashed or end.pc is not None:
            return
        debuggee = self.require()
        stop = debuggee.run_leaf(None, [], set())
        if stop.ended or stop.reasons or stop.signal in (SIGNAL_INT, SIGNAL_TRAP):
            self.land(end, progress)
            return
        self.thread = debuggee.virtual(stop.tid)
        self._moment = None
        self._crash = stop.signal

    def fail(self, failure: GdbrrError, commanded: bool) -> None:
        """A move failed. A command, which has COMMANDED it, says that as its own error."""
        if commanded:
            self.failure = failure
        else:
            self.say(f"gdbrr: {failure}\n")

    def replace(self) -> bool:
        """After a request that failed: another leaf where one stood that was killed, or whose gdbserver was."""
        current = self._current if self._due is None else None  # else the next request asks for another by itself
        if current is None or not current.lost or self.altered or self._moment is None or self.recording:
            return False
        thread = self.thread
        with contextlib.suppress(GdbrrError):
            self.land(self._moment)
            self.thread = thread
            return True
        return False

    # ------------------------------------------------------------ a leaf that was changed

    def alter(self, moment: Callable[[], Moment]) -> Altered:
        """Before the first change. Where it stands must be known then, to come back to it: MOMENT finds out."""
        if self.altered is None:
            debuggee = self.require()
            assert debuggee.leaf is not None
            self._way_back = moment(), self.thread, bool(self._crash)
            self.altered = Altered(debuggee, self._told, self.say)
        return self.altered

    def undo(self, progress: Progress | None = None) -> None:
        """A fresh leaf where the changed one stood; harmless without a change."""
        if self.altered is None:
            return
        self.say("gdbrr: what was changed here is undone; time goes on as it was recorded\n")
        moment, thread, crashed = self._way_back
        if crashed:
            self._land_at_end(progress)
        else:
            self.land(moment, progress)
            self.thread = thread

    def _verify(self, debuggee: Debuggee, leaf: Leaf, thread_index: int | None) -> int:
        """The thread of the landing, if it stands where the moment says."""
        wanted = leaf.thread if thread_index is None else thread_index
        tid = next((tid for tid, view in debuggee.views().items() if view.index == wanted), debuggee.turn())
        pc = leaf.moment.pc
        if pc is not None and not leaf.ended:
            tid = debuggee.turn()
            found = debuggee.registers(tid).get("rip")
            if found != pc:
                raise GdbrrError(
                    f"the replay stands at {found or 0:#x} instead of at {leaf.moment}",
                    hint="try a moment before or behind it",
                )
        return debuggee.virtual(tid)

    def _discard(self) -> None:
        """End the current leaf; the live process is no leaf."""
        old, self.current = self._current, None
        self.altered = None
        if old is not None and old is not self.live:
            with contextlib.suppress(GdbrrError):  # a gdbserver that is gone has nothing to kill
                old.upstream.kill()
            # One that did not answer ends here: a leaf that is still traced could not be reaped.
            self.pool.give(old.upstream)
            if old.leaf is not None:
                old.leaf.drop()
