"""Where the session is in time, and how it gets elsewhere: forward by a leaf's own run, back by search and landing.

Runs in: the server. May call: gdbrr.rsp.debuggee, gdbrr.rsp.reverse, a Timeline, a Live.
Owns: the current leaf and moment, the live process, the armed target. Thread ids in results are GDB's.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence

from gdbrr.errors import GdbrrError
from gdbrr.rsp import bug
from gdbrr.rsp.debuggee import Debuggee, Wait
from gdbrr.rsp.live import Session, resume_words
from gdbrr.rsp.process import history, turns
from gdbrr.rsp.process.altered import Altered
from gdbrr.rsp.process.backward import Backward
from gdbrr.rsp.process.forward import COMPARED
from gdbrr.rsp.process.landing import Say
from gdbrr.rsp.process.lines import Lines
from gdbrr.rsp.request import Action
from gdbrr.rsp.reverse import Held, Span, Target, is_behind, resolve
from gdbrr.rsp.stop import SIGNAL_INT, SIGNAL_NONE, SIGNAL_TRAP, Stop
from gdbrr.rsp.upstream import Pool, Told
from gdbrr.timeline.model import Hit, Interrupted, Moment, Point, Progress, Timeline

_BEGIN = (("replaylog", "begin"),)
_LOADED = (("library", ""),)


class Navigator(Backward):
    def __init__(self, session: Session, pool: Pool, told: Told, wait: Wait, say: Say) -> None:
        super().__init__(session, pool, told, wait, say)
        self.armed: Target | None = None
        self.lines = Lines()
        self.unrecorded = False
        """The recording was ended, the live process was not."""
        self._beyond = False
        """It has gone on since."""
        self.born = False
        """The last search ended where the frame begins that it was about."""
        self.missed = False
        """The last search found nothing, and stayed."""
        self.found: Hit | None = None
        """Where the last search for a command ended."""
        self.finished = False
        """The live process has ended; its recording can be opened."""
        self.exited = False
        """It was not GDB that ended it."""
        self._live_stop = Stop()
        self._home: dict[int, tuple[int, Stop]] = {}
        """Of each thread of the live process whose pc was written: that before, and how it had stopped there."""
        self.listed = history.Listing()

    def open(self) -> None:
        """Stand where a session begins: a demo at its end, if the replay has come there; a live process at its first
        instruction."""
        if self.session.live is not None:
            upstream = self.pool.take()
            self.live = self.current = Debuggee(upstream, self._told, self._wait, live=self.session.live)
            self.thread = self.current.virtual(self.live.attach_stop.tid)
            self._live_stop = Stop(SIGNAL_NONE, self.thread)
            self.virtual_pid = self.session.live.pid
        elif self.session.settle is not None:
            self.land(self._timeline().start)
        else:
            self._land_at_end()

    # ------------------------------------------------------------ now

    def span(self) -> Span:
        timeline = self._timeline()
        return Span(timeline.start, timeline.end, timeline.epochs, timeline)

    def stop_now(self) -> Stop:
        """Where it stands, for a GDB that asks. GDB (13.1) announces this one where it announced the last stop of its
        session before, as those of commands; for the loading of libraries it has no words, and neither for this. Where
        a GDB may not be told of that (gdbrr/ingdb/moving.py: repeats), it says once more that the program stopped."""
        stop = self.again()
        return dataclasses.replace(stop, reasons=_LOADED) if self.session.unsaid and not stop.signal else stop

    # ------------------------------------------------------------ forward

    def forward(self, actions: Sequence[Action], progress: Progress | None = None) -> Stop:
        debuggee = self.require()
        self.armed = None
        if debuggee.leaf is None:
            return self._forward_live(debuggee, actions)
        if self.altered is not None:
            stop = self._forward_altered(debuggee, self.altered, actions)
            if stop is not None:
                return stop
        step, signals = self._wishes(actions)
        if (told := self.next_told(True)) is not None:
            return told
        signals = self._but_recorded(signals)
        over = step is not None and self.points.stepping_over(self.require().registers(step).get("rip", 0))
        self.lock.look(actions, over)
        self.turn = None
        before = self.watched(step is not None)
        stop = self.told(self.run(step, signals, progress), before, True)
        if self.live is not None and stop.has("replaylog"):
            self.say_end()
        if self.turn is not None and stop.signal == SIGNAL_NONE:
            self.say(turns.sentence(self.require(), self.virtual_pid, self.lock.thread, self.turn))
        return stop if stop.ended or self.lock.thread in (0, stop.tid) else self._in_thread(self.lock.thread, stop)

    def _forward_altered(self, debuggee: Debuggee, altered: Altered, actions: Sequence[Action]) -> Stop | None:
        """A stop of the function that GDB calls; None, with all changes undone, where it was asked to go on in time."""
        held, returns = self.points.of(debuggee), self.points.returns_in(debuggee)
        calling = altered.calling(held, returns)
        step, signals = self._wishes(actions)
        if not calling or step not in (None, calling):
            self.undone(True)
            return None
        signal = next((number for tid, number in signals if tid == calling), 0)
        stop = altered.run(calling, step is not None, signal, held, returns)
        if stop.ended:
            self.undo()
            return self.here(SIGNAL_NONE)
        altered.told |= {held for held in self.points.places for at in stop.watched if held[1] <= at < sum(held[1:])}
        return self._arrive(debuggee, stop)

    def _forward_live(self, debuggee: Debuggee, actions: Sequence[Action]) -> Stop:
        if not self.unrecorded and self.timeline is not None:
            # What was built at the last stop does not hold what happens now.
            self.timeline.close()
            self.timeline = None
        self.points.check_live()
        assert debuggee.live is not None
        self._beyond = self.unrecorded
        if self.unrecorded and self.points.calls is not None:
            raise GdbrrError(
                "system calls are not caught behind the end of a recording", hint="delete the catchpoint and go on"
            )
        debuggee.live.catch(self.points.calls)
        words = resume_words(actions, self._acting)
        held = self.points.of(debuggee)
        stop = debuggee.run_live(*self._wishes(actions), words, held, self.points.conditions)
        if stop.ended:
            self.finished = self.exited = True
            self.points.forget()
            self.current = self.live = None
            self.pool.give(debuggee.upstream)
            return stop
        self._live_stop = self._arrive(debuggee, stop)
        return self._live_stop

    def _wishes(self, actions: Sequence[Action]) -> tuple[int | None, list[tuple[int, int]]]:
        """The thread to step, and the signals to deliver, by kernel ids."""
        step = next((self._acting(action) for action in actions if action.step), None)
        return step, [(self._acting(action), action.signal) for action in actions if action.signal]

    # ------------------------------------------------------------ back

    def reverse_continue(self, progress: Progress | None = None, thread: int = 0) -> Stop:
        """To the target a command armed, or to the last breakpoint or watchpoint hit before now, of THREAD if one is
        named: GDB knows of no stop in a thread that it has not resumed."""
        target, self.armed = self.armed, None
        self.born = self.missed = False
        self.undone(False, progress)
        if target is None:
            beyond, inside = self._left_live(progress)
            if beyond and thread in (0, self.thread):
                if reasons := self._stops_here():
                    return self.here(SIGNAL_TRAP, reasons)
                if inside and (changed := self.told(self.here(SIGNAL_TRAP), inside, False)).reasons:
                    return changed
            told = self.next_told(False) if thread in (0, self.thread) else None
            before = self.watched(False)
            return told or self.told(self._back(self.index(thread) if thread else None, progress), before, False)
        return self._armed_move(target, progress)

    def _back(self, index: int | None, progress: Progress | None) -> Stop:
        points = [dataclasses.replace(point, thread=index) for point in self.points.for_search()]
        hit, event = self._search(points, 1, progress), self._event_before(progress, index)
        if event is not None and (hit is None or is_behind(event, hit.moment)):
            return self._back_to(event, progress)
        if hit is None:
            return self._begin(progress, index or 0)
        self.land(hit.moment, progress, hit.thread)
        return self.here(SIGNAL_TRAP, self.points.reasons(hit))

    def _armed_move(self, target: Target, progress: Progress | None) -> Stop:
        recording = self.recording
        try:
            stop = self._reverse_to(target, progress)
        except GdbrrError:
            if recording:
                self._return_live()
            raise
        return self.here(SIGNAL_TRAP, (("awatch", f"{target.silence:x}"),)) if target.silence else stop

    def _reverse_to(self, target: Target, progress: Progress | None) -> Stop:
        if target.live or (target.here and self.recording):
            return self._return_live()
        if target.here:
            if target.named:
                self.moment(progress)
            return self.again()
        self._leave_live(progress)
        if target.before is not None:
            self.listed.find(self._timeline(), target, progress)
            return self.again()
        if not target.points:
            stop = self._go(resolve(target, self.span(), self._now_for(target, progress)), progress)
            return self.run(self.require().real(self.thread), (), progress) if target.behind else stop
        hit = self.found = self._search(self.points.asked(target), target.count, progress, target.birth)
        if hit is None and target.stay:
            self.missed = True
            return self.again()
        if hit is None:
            return self._begin(progress)
        self.land(hit.moment, progress, hit.thread)
        # A breakpoint or watchpoint of the user's at the same place may have a condition: GDB would go on by itself.
        return self.here(SIGNAL_NONE)

    def reverse_step(self, alone: int, progress: Progress | None = None) -> Stop:
        """One instruction or operation back in the thread that is resumed ALONE, as first that is which stopped at a
        breakpoint where another is selected; or (0) in the selected one, or in that of the last stop."""
        target, self.armed = self.armed, None
        thread = alone or self.selected
        self._still_selected = self.selected if thread != self.selected else 0
        self.undone(False, progress)
        if target is not None and target.here and not target.named:
            return self.here(SIGNAL_TRAP)
        if target is not None:  # with a watchpoint that it steps for, GDB moves by steps
            return self._armed_move(target, progress)
        _, inside = self._left_live(progress)
        if inside is not None and thread in (0, self.thread):
            return self.told(self.here(SIGNAL_TRAP), inside, False)
        if thread in (0, self.thread) and (told := self.next_told(False)) is not None:
            return told
        now = self._stands(thread or self.thread, progress)
        before = self._far_back(now, progress) if thread in (0, self.thread) else None
        before = before or self._timeline().previous(now, progress)
        if before is None:  # where the thread begins: it is still the moment of the one that stopped
            return self.seen_in(thread or self.thread, self.here(SIGNAL_TRAP, _BEGIN))
        mine = thread in (0, self.thread)
        stop = self.before_call(now, before) if mine else None
        if stop is not None:
            return stop
        if not mine and self.points.held:  # that one stands farther on
            now = self.moment(progress)
        return self.back_to(before, now, alone, progress)

    def _far_back(self, now: Moment, progress: Progress | None) -> Moment | None:
        """More than one instruction back, where GDB steps over a line that takes long."""
        debuggee = self.require()
        if now.pc is None or debuggee.leaf is None or self.lines.none:
            return None
        stack = debuggee.registers(debuggee.real(self.thread))["rsp"]
        return self.lines.before(self._timeline(), now, stack, self.points.for_search(), progress)

    def _now_for(self, target: Target, progress: Progress | None) -> Moment:
        """Finding the moment costs a replay of the segment; only a relative target needs it."""
        relative = target.epochs_back is not None or target.later is not None
        return self.moment(progress) if relative else self._timeline().start

    def _search(
        self, points: Sequence[Point], count: int, progress: Progress | None, birth: tuple[int, int] | None = None
    ) -> Hit | None:
        if not points:
            return None
        hit, self.born = history.last(self._timeline(), points, self.moment(progress), progress, birth, count)
        return hit

    def _begin(self, progress: Progress | None, thread: int = 0) -> Stop:
        """The start, or that of the thread of this index."""
        start = self._timeline().birth(thread)
        if self._moment != start:
            self.land(start, progress)
        return self.here(SIGNAL_TRAP, _BEGIN)

    def _go(self, moment: Moment, progress: Progress | None) -> Stop:
        if moment == self._timeline().end:
            self._land_at_end(progress)
        else:
            self.land(moment, progress)
        return self.again()

    # ------------------------------------------------------------ the live process

    def _left_live(self, progress: Progress | None) -> tuple[bool, dict[Held, bytes] | None]:
        """The same; whether the process stands behind the last moment of its past, and what was watched there, where it
        is in the middle of the instruction of that moment: to go there is a step back."""
        live = self.live if self.recording else None
        self._leave_live(progress)
        if live is None or live.live is None:
            return False, None
        if not (live.live.inside or live.is_behind) or self._beyond:
            return self._beyond, None
        return True, {held: live.upstream.memory(*held[1:]) for held in self.points.places if held[2] <= COMPARED}

    def _leave_live(self, progress: Progress | None) -> None:
        """From the process that is being recorded into its past. It stays stopped where it is."""
        if not self.recording:
            return
        assert self.live is not None and self.live.live is not None
        self.land(self._past_of_live(progress).end, progress)
        self.approximate = self.live.live.approximate

    def recorded_moment(self, progress: Progress | None = None) -> Moment:
        """Where the live process stands."""
        return self._past_of_live(progress).end

    def _past_of_live(self, progress: Progress | None) -> Timeline:
        assert self.live is not None and self.live.live is not None
        if self.timeline is None and self.unrecorded:
            self.timeline = self.live.live.timeline_finished(progress)
        elif self.timeline is None:
            # Breakpoints are bytes in its memory, and no part of what it did.
            self.live.upstream.sync_points(set())
            tid = self.live.real(self.thread)
            regs = self.live.registers(tid)  # of one in the engine, what is known of them at its call
            self.timeline = self.live.live.timeline_at_stop(tid, regs, progress)
            if self.live.live.doubt:
                bug.tell(GdbrrError(self.live.live.doubt))  # no move may have asked
        return self.timeline

    def _return_live(self) -> Stop:
        if self.live is None:
            raise GdbrrError("nothing is being recorded", hint="try: rr-start")
        if not self.recording:
            self._discard()
            self.current = self.live
            self.thread = self._live_stop.tid
            self._moment = None
            self.approximate = False
        # A signal that stopped it is not delivered yet: GDB has to know it to pass it on.
        signal = self._live_stop.signal
        return self.here(SIGNAL_NONE if signal in (SIGNAL_INT, SIGNAL_TRAP) else signal)

    def open_finished(self, progress: Progress | None = None) -> None:
        """After the live process has ended: stand at the end of its recording."""
        if not self.finished or self.session.live is None:
            raise GdbrrError("no recording has ended", hint="let the program run to its end first")
        if self.timeline is None:
            self.timeline = self.session.live.timeline_finished(progress)
        self.land(self.timeline.end, progress)

    def change_live(self, tid: int | None = None) -> None:
        """Raises an error unless the live process, and in it the registers of thread TID, may be written to."""
        if not self.unrecorded:
            raise GdbrrError(
                "writing to the process that is being recorded would make the recording false", hint="try: rr-live -e"
            )
        view = self.require().view(tid) if tid is not None else None
        if view is not None and view.in_engine:
            raise GdbrrError("this thread is in the middle of an operation", hint="step to its end first")

    def moved_live(self, tid: int, before: int) -> None:
        """Thread TID of the live process was moved from BEFORE. Where GDB calls a function, the stop at its end is none
        of the program's: it stands again as it stood when GDB puts it back."""
        now = self.require().registers(tid)["rip"]
        if tid in self._home and self._home[tid][0] == now:
            self._live_stop = self._home.pop(tid)[1]
        elif now != before:
            self._home.setdefault(tid, (before, self._live_stop))

    def end_recording(self, progress: Progress) -> None:
        """From here on the live process goes on unrecorded; what is recorded stays. Later nobody can tell where in the
        last segments the process stood, so its past is made now, if there is time."""
        if self.live is None or self.live.live is None:
            raise GdbrrError("nothing is being recorded", hint="try: rr-start")
        if not self.recording:
            raise GdbrrError("this is the past", hint="rr-live goes back to the recorded process first")
        try:
            self._past_of_live(progress)
        except GdbrrError as error:
            what = (
                "where the process stands takes long to find out" if isinstance(error, Interrupted) else error.message
            )
            bug.tell(GdbrrError(f"{what}; the way back begins at its last operation"))
        self.live.live.stop_recording()
        self.unrecorded = True

    # ------------------------------------------------------------ ends

    def recover(self) -> None:
        """After a failure: stand still. A leaf whose gdbserver went down or was left running is replaced."""
        if self.current is None:
            return
        upstream = self.current.upstream
        if not self.recording:
            if self.altered is not None and (upstream.running or not upstream.alive):
                self.undo()  # to where it was changed; it may have come there by itself from where it was landed
            elif upstream.running or not upstream.alive:
                self.land(self._landed or self._timeline().start)
        elif upstream.running and upstream.alive:
            self._live_stop = self._arrive(self.current, self.current.halt())

    def restart(self, progress: Progress | None = None) -> Stop:
        if self.timeline is None:
            raise GdbrrError("the program that is being recorded cannot be restarted", hint="try: rr-start")
        self.land(self.timeline.start, progress)
        return self.here(SIGNAL_TRAP)

    def kill(self) -> None:
        """What GDB calls its inferior: the leaf, and the live process if that is the one."""
        self.points.forget()
        self.exited = False
        if self.recording:
            assert self.live is not None
            self.live.upstream.kill()
            self.pool.give(self.live.upstream)
            self.current = self.live = None
            self.finished = True
        else:
            self._discard()

    def detach(self) -> None:
        """The live process goes on alone, still recording."""
        if self.recording:
            assert self.live is not None
            self.live.upstream.sync_points(set())
            if self.live.live is not None:
                self.live.live.catch(None, False)
            self.live.upstream.detach()
            self.current = self.live = None

    def close(self) -> None:
        self._discard()
        if self.live is not None:
            with contextlib.suppress(GdbrrError):
                self.live.upstream.kill()
        if self.timeline is not None:
            self.timeline.close()
        if self.session.live is not None:
            self.session.live.close()
