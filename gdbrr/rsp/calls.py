"""What gdbrr's own commands ask by qGdbrr packets.

Runs in: the server. May call: gdbrr.rsp.navigator.
Owns: the verbs and the keys of their answers. Moving is no verb: a command arms a target and resumes with `bc`.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gdbrr.errors import GdbrrError
from gdbrr.rsp import bug
from gdbrr.rsp.link import Closed, Link, Meter
from gdbrr.rsp.navigator import Navigator
from gdbrr.rsp.process import files, history
from gdbrr.rsp.reverse import Span, Target, parse_target, resolve
from gdbrr.timeline.model import Epoch, Interrupted, Moment

ANSWER_SECONDS = 4.0
"""GDB's send_packet gives up after 6."""


def answer(navigator: Navigator, link: Link, body: dict[str, Any]) -> dict[str, Any]:
    """The reply to one request: {"ok": ...}, or {"error": ..., "hint": ...}."""
    verb = body.get("verb")
    try:
        handler = _VERBS.get(str(verb))
        if handler is None:
            raise GdbrrError(f"this server does not know {verb!r}", hint="use the gdbinit.py that came with it")
        return {"ok": handler(navigator, link, body)}
    except Closed:
        raise
    except GdbrrError as error:
        failure = error
    except Exception as error:
        failure = bug.internal(error)
    return {"error": failure.message, "hint": failure.hint}


def _status(navigator: Navigator, link: Link, body: dict[str, Any]) -> dict[str, Any]:
    """Of a stop in a loop, "late" says that there was no time to find out which moment this is: a move takes its time,
    which is armed for "here", and "named".
    """
    live = navigator.recording
    status: dict[str, Any] = {
        "program": navigator.session.program,
        "live": live,
        "unrecorded": navigator.unrecorded,
        "recording": navigator.live is not None,
        "finished": navigator.finished,
        "exited": navigator.exited,
        "note": _note(navigator),
        "born": navigator.born,
        "missed": navigator.missed,
        "hit": None if navigator.found is None else history.stored(navigator.found),
        "tested": navigator.found is not None and bool(navigator.found.point.condition),
        "altered": navigator.altered is not None,
        "early": navigator.session.settle is not None,
        "thread": navigator.thread,
    }
    if navigator.timeline is None:
        ticks = navigator.session.live.ticks if navigator.session.live is not None else 0
        now = {
            "moment": str(ticks),
            "tick": ticks,
            "start": "0",
            "end": str(ticks),
            "ticks": ticks,
            "epoch": 0,
            "epochs": 1,
        }
        return {**status, **now, "approximate": False, "late": False}
    span = navigator.span()
    moment, late = span.end, False
    if not live and navigator.current is not None:
        try:
            moment = navigator.moment(Meter(link, speak=False, deadline=time.monotonic() + history.AT_ONCE))
        except Interrupted:
            leaf = navigator.current.leaf
            moment, late = Moment(leaf.tick if leaf is not None else span.end.tick), True
    return {
        **status,
        "moment": str(navigator.timeline.lasting(moment)),
        "tick": moment.tick,
        "start": str(span.start),
        "end": str(span.end),
        "ticks": _ticks(navigator, span),
        "started": navigator.timeline.started,
        "seconds": navigator.timeline.seconds(moment.tick),
        "epoch": epoch_of(span.epochs, moment),
        "epochs": len(span.epochs),
        "approximate": navigator.approximate,
        "late": late,
    }


def _ticks(navigator: Navigator, span: Span) -> int:
    """Of what is recorded there may be more than a replay keeps to."""
    live = navigator.session.live
    if live is None or not navigator.recording or navigator.unrecorded:
        return span.end.tick
    return live.ticks


def _settle(navigator: Navigator, link: Link, body: dict[str, Any]) -> dict[str, bool]:
    """Wait so many seconds for the replay to come to the end. It is no move: GDB reads its symbols meanwhile."""
    if navigator.session.settle is not None:
        seconds = min(float(body["seconds"]), ANSWER_SECONDS)
        try:
            navigator.session.settle(Meter(link, speak=False, deadline=time.monotonic() + seconds))
        except Interrupted:
            return {"settled": False}
        navigator.session.settle = None
    return {"settled": True}


def moment_soon(navigator: Navigator, link: Link) -> Moment:
    """For what cannot be asked again behind a move."""
    find, then = navigator.moment, "rr-when"
    if navigator.recording:
        find, then = navigator.recorded_moment, "rr-goto end"
    try:
        return find(Meter(link, speak=False, deadline=time.monotonic() + ANSWER_SECONDS))
    except Interrupted:
        late = GdbrrError("which moment this is takes long to find out", hint=f"try: {then}, and then this again")
        bug.tell(late)  # of a write to memory GDB says only that it failed
        raise late from None


def _note(navigator: Navigator) -> str:
    note = navigator.session.note() if navigator.session.note is not None else ""
    if navigator.unrecorded and navigator.recording:
        note = "; ".join(filter(None, ["the recording has ended, this process goes on without it", note]))
    changed = "changed by hand until the next move" if navigator.altered is not None else ""
    return "; ".join(filter(None, [changed, note]))


def epoch_of(epochs: Any, moment: Moment) -> int | None:
    """The index of the epoch a moment lies in."""
    passed = [epoch.index for epoch in epochs if epoch.start <= moment.tick]
    return max(passed) if passed else None


def _epochs(navigator: Navigator, link: Link, body: dict[str, Any]) -> list[dict[str, Any]]:
    if navigator.recording and navigator.timeline is None:
        moment_soon(navigator, link)  # makes the past of this stop
    span, timeline = navigator.span(), navigator.timeline
    assert timeline is not None
    kept = {*timeline.checkpoints}
    return [
        {**_epoch(epoch), "threads": timeline.threads_in(epoch), "checkpoint": epoch.start in kept}
        for epoch in span.epochs
    ]


def _epoch(epoch: Epoch) -> dict[str, Any]:
    return {
        "index": epoch.index,
        "start": epoch.start,
        "end": epoch.end,
        "bytes": epoch.bytes,
        "time": epoch.time,
    }


def _arm(navigator: Navigator, link: Link, body: dict[str, Any]) -> dict[str, Any]:
    """What cannot be reached is refused here, where a command can say so, and not by the `bc` behind it."""
    if "mark" in body:
        target = Target(moment=navigator.session.marks.find(str(body["mark"])))
    else:
        target = parse_target(body)
    target = dataclasses.replace(
        target,
        silence=int(body.get("silence", 0)),
        terminal=str(body.get("terminal", "")),
        manner=str(body.get("manner", "line")),
        since=float(body.get("since", 0.0)),
        stay=bool(body.get("stay")),
        behind=bool(body.get("behind")),
        named=bool(body.get("named")),
        conditional=bool(body.get("conditional")),
    )
    if target.live and navigator.live is None:
        raise GdbrrError("nothing is being recorded", hint="try: rr-start")
    if navigator.timeline is not None and not (target.points or target.live or target.here):
        resolve(target, navigator.span(), navigator.moment_known() or navigator.span().end)
    elif navigator.timeline is None and not navigator.recording:
        raise GdbrrError("there is nothing to go back in", hint="try: rr-replay FILE")
    navigator.armed, navigator.failure = target, None
    return {"armed": True}


def _history(navigator: Navigator, link: Link, body: dict[str, Any]) -> dict[str, Any]:
    """Some changes of the first point before a moment, newest first: those that a move has found, or that are found at
    once. "late" says that there was no time for even one: then the same target is armed, because a move may take its
    time, and asked for again. "each" is to be said by who asks for those before.
    """
    target = parse_target(body)
    if navigator.timeline is None or target.before is None:
        raise GdbrrError("there is no past yet", hint="go back first, by rr-back")
    return navigator.listed.answer(navigator.timeline, target, Meter(link, speak=False))


def _thread_index(navigator: Navigator, link: Link, body: dict[str, Any]) -> int:
    """What names a thread in searches, also where it is not there: GDB knows its threads by an id, `tid`."""
    index = navigator.index(int(body["tid"]))
    if index is None:
        raise GdbrrError("the recording does not know this thread", hint="name another one")
    return index


def _marks(navigator: Navigator, link: Link, body: dict[str, Any]) -> dict[str, str]:
    marks = navigator.session.marks
    if "add" in body:
        if navigator.recording and navigator.unrecorded:
            raise GdbrrError("the recording has ended, and this is behind its end", hint="try: rr-goto end")
        here = moment_soon(navigator, link)
        marks.add(str(body["add"]), navigator.timeline.lasting(here) if navigator.timeline is not None else here)
    if "remove" in body:
        marks.remove(str(body["remove"]))
    return {name: str(moment) for name, moment in sorted(marks.all().items(), key=_by_time)}


def _by_time(row: tuple[str, Moment]) -> tuple[int, str]:
    return row[1].tick, row[0]


def _describe(navigator: Navigator, link: Link, body: dict[str, Any]) -> list[list[str]]:
    """What `info gdbrr` shows beyond where one is: (what, text)."""
    session, timeline = navigator.session, navigator.timeline
    rows = [["program", session.program]]
    rows += [["recorded process", str(session.live.pid)]] if session.live is not None else []
    if timeline is not None:
        last = timeline.seconds(timeline.end.tick)
        rows.append(["time", f"{timeline.end.tick} ticks" + (f", {last:.3f} s" if last is not None else "")])
        rows.append(["epochs", str(len(timeline.epochs))])
    if navigator.current is not None:
        rows.append(["leaf" if navigator.current.leaf is not None else "process", str(navigator.current.pid)])
        rows.append(["threads", str(len(navigator.current.tids()))])
    rows.append(["bookmarks", ", ".join(sorted(session.marks.all())) or "none"])
    rows.append(["server", str(os.getpid())])
    return [*session.facts(), *rows]


def _end_recording(navigator: Navigator, link: Link, body: dict[str, Any]) -> dict[str, Any]:
    navigator.end_recording(Meter(link, speak=False, deadline=time.monotonic() + ANSWER_SECONDS))
    return {}


def _selected(navigator: Navigator, link: Link, body: dict[str, Any]) -> None:
    """The thread that the next step back is about, where GDB does not say it in its packet."""
    navigator.selected = int(body["tid"])
    navigator.lines.are([tuple(map(int, line)) for line in body.get("lines", ())], bool(body.get("into")))


def _libraries(navigator: Navigator, link: Link, body: dict[str, Any]) -> dict[str, Any]:
    """Whether the loader has loaded something else than what GDB has read."""
    return {"changed": files.libraries(navigator.require().upstream, b"") != navigator.read_libraries}


def _outcome(navigator: Navigator, link: Link, body: dict[str, Any]) -> None:
    """Whether the last move to an armed target came there: a stop has no room for why it did not."""
    if navigator.failure is not None:
        raise navigator.failure


def _save(navigator: Navigator, link: Link, body: dict[str, Any]) -> dict[str, Any]:
    path = body.get("path")
    if not isinstance(path, str) or not path:
        raise GdbrrError("no file is named", hint="try: rr-save FILE")
    if navigator.session.save is None:
        raise GdbrrError("this demo is a file already", hint="copy that")
    if navigator.recording and navigator.timeline is None:
        moment_soon(navigator, link)  # makes the past of this stop, whose end is the demo's
    timeline = navigator.timeline
    navigator.session.save(path, timeline.ending if timeline is not None else None)
    navigator.session.marks.copy_beside(Path(path))
    return {"path": path}


def _open(navigator: Navigator, link: Link, body: dict[str, Any]) -> dict[str, Any]:
    """After a live process has ended. GDB has no inferior then: any `attach NUMBER` takes hold of the leaf."""
    navigator.open_finished(Meter(link, speak=False))
    return _status(navigator, link, body)


def _engine_frames(navigator: Navigator, link: Link, body: dict[str, Any]) -> None:
    navigator.engine_frames = bool(body["on"])


_VERBS: dict[str, Callable[[Navigator, Link, dict[str, Any]], Any]] = {
    "status": _status,
    "settle": _settle,
    "epochs": _epochs,
    "engine_frames": _engine_frames,
    "arm": _arm,
    "describe": _describe,
    "end_recording": _end_recording,
    "history": _history,
    "marks": _marks,
    "thread_index": _thread_index,
    "selected": _selected,
    "libraries": _libraries,
    "outcome": _outcome,
    "save": _save,
    "open": _open,
}
