"""What gdbrr's own commands ask by qGdbrr packets.

Runs in: the server. May call: gdbrr.rsp.navigator.
Owns: the verbs and the keys of their answers. Moving is no verb: a command arms a target and resumes with `bc`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from gdbrr.errors import GdbrrError
from gdbrr.rsp import bug
from gdbrr.rsp.link import Closed, Link, Meter
from gdbrr.rsp.navigator import Navigator
from gdbrr.rsp.reverse import Target, parse_target, resolve
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
    live = navigator.recording
    status: dict[str, Any] = {
        "program": navigator.session.program,
        "live": live,
        "recording": navigator.live is not None,
        "finished": navigator.finished,
        "note": _note(navigator),
        "thread": navigator.thread,
    }
    if navigator.timeline is None:
        ticks = navigator.session.live.ticks if navigator.session.live is not None else 0
        now = {"moment": str(ticks), "start": "0", "end": str(ticks), "ticks": ticks, "epoch": 0, "epochs": 1}
        return {**status, **now, "approximate": False}
    span = navigator.span()
    moment, approximate = span.end, navigator.approximate
    if not live and navigator.current is not None:
        try:
            moment = navigator.moment(Meter(link, speak=False, deadline=time.monotonic() + ANSWER_SECONDS))
        except Interrupted:
            leaf = navigator.current.leaf
            moment, approximate = Moment(leaf.tick if leaf is not None else span.end.tick), True
    return {
        **status,
        "moment": str(moment),
        "start": str(span.start),
        "end": str(span.end),
        "ticks": span.end.tick,
        "epoch": epoch_of(span.epochs, moment),
        "epochs": len(span.epochs),
        "approximate": approximate,
    }


def _note(navigator: Navigator) -> str:
    note = navigator.session.note() if navigator.session.note is not None else ""
    changed = "changed by hand until the next move" if navigator.altered is not None else ""
    return "; ".join(filter(None, [changed, note]))


def epoch_of(epochs: Any, moment: Moment) -> int | None:
    """The index of the epoch a moment lies in."""
    passed = [epoch.index for epoch in epochs if epoch.start <= moment.tick]
    return max(passed) if passed else None


def _epochs(navigator: Navigator, link: Link, body: dict[str, Any]) -> list[dict[str, Any]]:
    return [_epoch(epoch) for epoch in navigator.span().epochs]


def _epoch(epoch: Epoch) -> dict[str, Any]:
    return {
        "index": epoch.index,
        "start": epoch.start,
        "end": epoch.end,
        "bytes": epoch.bytes,
        "time": epoch.time,
        "checkpoint": True,
    }


def _arm(navigator: Navigator, link: Link, body: dict[str, Any]) -> dict[str, Any]:
    """What cannot be reached is refused here, where a command can say so, and not by the `bc` behind it."""
    target = parse_target(body)
    if target.live:
        return _live(navigator, link, body)
    if navigator.timeline is not None and not target.points:
        resolve(target, navigator.span(), navigator.moment_known() or navigator.span().end)
    elif navigator.timeline is None and not navigator.recording:
        raise GdbrrError("there is nothing to go back in", hint="try: rr-replay FILE")
    navigator.armed = target
    return {"armed": True}


def _live(navigator: Navigator, link: Link, body: dict[str, Any]) -> dict[str, Any]:
    if navigator.live is None:
        raise GdbrrError("nothing is being recorded", hint="try: rr-start")
    navigator.armed = Target(live=True)
    return {"armed": True}


def _save(navigator: Navigator, link: Link, body: dict[str, Any]) -> dict[str, Any]:
    path = body.get("path")
    if not isinstance(path, str) or not path:
        raise GdbrrError("no file is named", hint="try: rr-save FILE")
    if navigator.session.save is None:
        raise GdbrrError("this demo is a file already", hint="copy that")
    navigator.session.save(path)
    return {"path": path}


def _open(navigator: Navigator, link: Link, body: dict[str, Any]) -> dict[str, Any]:
    """After a live process has ended. GDB has no inferior then: any `attach NUMBER` takes hold of the leaf."""
    navigator.open_finished(Meter(link, speak=False))
    return _status(navigator, link, body)


_VERBS: dict[str, Callable[[Navigator, Link, dict[str, Any]], Any]] = {
    "status": _status,
    "epochs": _epochs,
    "arm": _arm,
    "live": _live,
    "save": _save,
    "open": _open,
}
