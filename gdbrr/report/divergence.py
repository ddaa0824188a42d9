"""The report on a replay that did not keep to its demo: what, where, why perhaps, and what to do next.

Runs in: commands outside GDB. May call: errors, demo, config, launch; what gdbrr.report.evidence found.
Owns: the wording of the report and the keys of its JSON.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gdbrr.abi import OPS
from gdbrr.config import tables
from gdbrr.launch import host
from gdbrr.launch.ends import errors
from gdbrr.report import causes
from gdbrr.report.evidence import ROWS, Evidence, where
from gdbrr.report.rows import HEADER, as_line
from gdbrr.report.words import printable

if TYPE_CHECKING:
    from gdbrr.demo.events import Event
    from gdbrr.demo.reader import Demo
    from gdbrr.launch.replay import Outcome
    from gdbrr.report.stacks import Frame

_CONTEXT = 10
_SHOWN = 12
_OUTPUTS = {1: "standard output", 2: "standard error"}


def verdict(outcome: Outcome) -> str:
    """synchronised, soft, desynchronised, refused, failed (a fault of gdbrr) or unwritten."""
    panic = outcome.panic
    if outcome.echo_error:
        return "unwritten"
    if panic and not panic.desynchronised:
        return "refused" if panic.refused else "failed"
    if not outcome.kept:
        return "desynchronised"
    return "soft" if outcome.soft else "synchronised"


def to_json(demo: Demo, outcome: Outcome, found: Evidence | None = None) -> str:
    """One object: synchronised or not, and everything that the text says."""
    panic, soft = outcome.panic, outcome.soft
    report: dict[str, Any] = {
        "demo": str(demo.path),
        "verdict": verdict(outcome),
        "synchronised": outcome.synchronised,
        "status": outcome.status,
        "recorded_end": {"kind": demo.end.kind, "value": demo.end.value},
        "complete": demo.complete,
        "ticks": outcome.ticks,
        "of": demo.ticks,
        "children": demo.manifest.get("children", 0),
        "notices": demo.manifest.get("notices", []),
        "seconds": round(outcome.seconds, 3),
        "soft": soft
        and {
            "count": soft.count, "tick": soft.tick, "thread": soft.thread, "output": _OUTPUTS.get(soft.fd),
            "recorded_bytes": soft.want_len, "bytes": soft.got_len,
        },
    }  # fmt: skip
    if outcome.echo_error:
        report["problem"] = f"the output cannot be written: {os.strerror(outcome.echo_error)}"
    elif not outcome.synchronised:
        found = found or Evidence()
        report["problem"] = problem(demo, outcome)
        report["objects_that_differ"] = [path for path, _, _ in host.other_objects(demo.manifest)]
        report["causes"] = [
            {"what": cause.what, "advice": cause.advice}
            for cause in causes.likely(demo, outcome, found.rows, found.opened, found.call)
        ]
        report["next"] = next_command(demo, outcome, found)
        at = where(outcome)
        if at:
            report["tick"], report["thread"] = at
        report["run"] = found.run
        report["call"] = found.call or None
        report["page"] = found.page or None
        report["stack"] = [frame.as_json() for frame in found.stack]
        report["agreed"] = found.agreed
        report["agreed_stack"] = [frame.as_json() for frame in found.agreed_stack]
        report["recorded_operations"] = [_row(event) for event in found.rows[-ROWS:]]
    if panic:
        report["demo_holds"] = operation(panic.want_op, panic.want_nr, panic.want_object)
        report["program_did"] = operation(panic.got_op, panic.got_nr, panic.got_object)
    return json.dumps(report)


def to_text(demo: Demo, outcome: Outcome, found: Evidence | None = None) -> str:
    return "\n".join(_lines(demo, outcome, found or Evidence()))


def problem(demo: Demo, outcome: Outcome) -> str:
    """What went wrong, as the end of a sentence."""
    panic, soft = outcome.panic, outcome.soft
    if panic:
        return errors.refusal(panic).message if panic.refused else panic.text
    if outcome.problem:
        return outcome.problem
    if not soft:
        return ""
    other = "other text" if soft.want_len == soft.got_len else f"{soft.got_len} bytes instead of {soft.want_len}"
    times = "once" if soft.count == 1 else f"{soft.count} times, first"
    return f"the program wrote other output than recorded, {times} at tick {soft.tick}: {other} to {_OUTPUTS[soft.fd]}"


def _lines(demo: Demo, outcome: Outcome, found: Evidence) -> Iterator[str]:
    panic, soft = outcome.panic, outcome.soft
    what = problem(demo, outcome)
    if panic and not panic.desynchronised:
        yield f"gdbrr replay: {demo.path} cannot be replayed from tick {panic.tick} of {demo.ticks} on: {what}."
    elif panic:
        yield (
            f"gdbrr replay: {demo.path} is desynchronised at tick {panic.tick} of {demo.ticks},"
            f" in thread {panic.thread}: {what}."
        )
    elif outcome.problem:
        yield f"gdbrr replay: {demo.path} is desynchronised: {what}."
    else:
        yield f"gdbrr replay: {demo.path} is softly desynchronised: {what}."
        yield "  The order of its operations was kept to the end."
    at = where(outcome)
    if at and found.run and found.run[0] < found.run[1] and len(demo.threads) > 1:
        yield f"  in the run        ticks {found.run[0]} to {found.run[1]}, all of thread {at[1]}"
    if panic and panic.want_op:
        yield f"  the demo holds    {operation(panic.want_op, panic.want_nr, panic.want_object)}"
        yield f"  the program did   {operation(panic.got_op, panic.got_nr, panic.got_object)}"
        if found.call:
            yield f"                    {found.call}"
    if found.page:
        yield f"  on that page      {printable(found.page)}"
    if soft and not outcome.kept:
        yield f"  before that       {soft.count} write(s) with other contents, first at tick {soft.tick}"
    yield from _stack("the program was here", found.stack)
    if found.rows:
        yield ""
        yield f"  the demo's last operations of thread {found.rows[-1].thread} up to there"
        yield HEADER
        yield from (as_line(row) for row in found.rows[-ROWS:])
    if found.agreed_stack:
        yield from _stack(f"its last call that is as recorded, at tick {found.agreed}", found.agreed_stack)
    yield from (f"  note              {note}" for note in found.notes)
    yield ""
    for path, recorded, here in host.other_objects(demo.manifest):
        yield f"  not as recorded   {printable(path)} (build-id {recorded[:12]}, here {here[:12] or 'none'})"
    for number, cause in enumerate(causes.likely(demo, outcome, found.rows, found.opened, found.call)):
        yield f"  {'' if number else 'likely causes':<17} {number + 1}. {printable(cause.what)}"
        if cause.advice:
            yield f"  {'':<17}    {cause.advice}"
    for number, command in enumerate(next_commands(demo, outcome, found)):
        yield f"  {'' if number else 'look closer':<17} {command}"


def _stack(title: str, frames: Sequence[Frame]) -> Iterator[str]:
    if not frames:
        return
    yield ""
    yield f"  {title}"
    shown = False
    for number, frame in enumerate(frames[:_SHOWN]):
        yield f"    #{number:<2} {printable(str(frame))}"
        if frame.source and not shown:
            shown = True
            yield f"        {frame.line}: {printable(frame.source)}"
    if len(frames) > _SHOWN:
        yield f"    ... and {len(frames) - _SHOWN} more"


def _row(event: Event) -> dict[str, Any]:
    return {
        "tick": event.tick,
        "operation": operation(event.kind, event.nr, event.object),
        "result": event.result,
        "bytes": len(event.data),
    }


def operation(op: int, nr: int, thing: int) -> str:
    """SYS_START of write (object 0x1), as `gdbrr events` calls it."""
    name = OPS.get(op, f"operation {op}")
    if name == "NONE":
        return "nothing"
    if nr and name.startswith("SYS_"):
        call = tables.syscall_by_nr().get(nr - 1)
        name += f" of {call.name if call else f'system call {nr - 1}'}"
    elif nr:
        name += f" of signal {nr}"
    return f"{name} (object {thing:#x})" if thing else name


def next_command(demo: Demo, outcome: Outcome, found: Evidence | None = None) -> str:
    return next_commands(demo, outcome, found or Evidence())[0]


def next_commands(demo: Demo, outcome: Outcome, found: Evidence) -> list[str]:
    """What to type to look closer."""
    if not outcome.started:
        return [f"ldd {shlex.quote(demo.manifest['program'])}"]
    at = where(outcome)
    tick = at[0] if at else outcome.ticks
    thread = f" --thread {at[1]}" if at else ""
    first, last = max(0, tick - _CONTEXT), min(tick, max(0, demo.ticks - 1))
    path = shlex.quote(str(demo.path))
    commands = [f"gdbrr events {path}{thread} --from {min(first, last)} --to {last}"]
    if at:
        commands.insert(0, f"gdbrr debug {path}     then: rr-goto {tick}")
    return commands
