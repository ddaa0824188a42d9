"""Makes a demo out of another one, with its operations changed: the negative controls' tool.

Runs in: tests. May call: gdbrr.demo, the imitation of the engine's log.
Owns: nothing. The result is a demo that gdbrr itself would write for this user, but for what the change did.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from fuzz.recordings import Log, Op, finish_recording
from gdbrr.abi import lib
from gdbrr.demo.events import Event
from gdbrr.demo.pack import pack
from gdbrr.demo.reader import Demo
from gdbrr.launch import own

Change = Callable[[list[Op]], list[Op]]


def _is_event(event: Event) -> bool:
    """Of a run only the first operation: it is one event, which stands for all."""
    return event.kind != lib.GR_OP_RUN or event.result == 1


def alter(demo: Path, out: Path, change: Change) -> Path:
    """The demo at DEMO with its operations, in total order, passed through CHANGE."""
    with Demo.open(demo) as source:
        manifest = dict(source.manifest)
        ops = [Op(e.thread, *e[2:8], e.data, e.time) for e in source.events() if _is_event(e)]
    recording = out.with_suffix(".demo.recording")
    recording.mkdir()
    log = Log(recording / "log")
    for op in change(ops):
        log.append(op)
    log.save()
    end = manifest["end"]
    finish_recording(recording, log, ({"exit": 1, "signal": 2}.get(end["kind"], 0), end["value"]))
    (recording / "manifest.json").write_text(json.dumps(manifest))
    pack(recording, out, key=own.key())
    return out
