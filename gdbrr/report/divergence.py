"""The report on a replay that did not keep to its demo: what, where, why perhaps, and what to do next.

Runs in: commands outside GDB. May call: errors, demo, config, launch; addr2line where it is installed.
Owns: the wording of the report and the keys of its JSON.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gdbrr.abi import OPS, lib
from gdbrr.config import tables
from gdbrr.launch import host, record

if TYPE_CHECKING:
    from gdbrr.demo.reader import Demo
    from gdbrr.launch.replay import Outcome

_CONTEXT = 10
_PATIENCE = 20.0


def to_json(demo: Demo, outcome: Outcome) -> str:
    """One object: synchronised or not, and everything that the text says."""
    panic = outcome.panic
    report: dict[str, Any] = {
        "demo": str(demo.path),
        "synchronised": outcome.synchronised,
        "status": outcome.status,
        "ticks": outcome.ticks,
        "of": demo.ticks,
    }
    if not outcome.synchronised:
        report["problem"] = panic.text if panic else outcome.problem
        report["objects_that_differ"] = [path for path, _, _ in differing_objects(demo)]
        report["cause"] = likely_cause(demo, outcome)
        report["next"] = next_command(demo, outcome)
    if panic:
        report["thread"] = panic.thread
        report["tick"] = panic.tick
        report["demo_holds"] = operation(panic.want_op, panic.want_nr, panic.want_object)
        report["program_did"] = operation(panic.got_op, panic.got_nr, panic.got_object)
        report["where"] = place(demo, panic.pc)
    return json.dumps(report)


def to_text(demo: Demo, outcome: Outcome) -> str:
    return "\n".join(_lines(demo, outcome))


def _lines(demo: Demo, outcome: Outcome) -> Iterator[str]:
    panic = outcome.panic
    if panic is None:
        yield f"gdbrr replay: {demo.path} is desynchronised: {outcome.problem}."
    elif panic.desynchronised:
        yield (
            f"gdbrr replay: {demo.path} is desynchronised at tick {panic.tick} of {demo.ticks},"
            f" in thread {panic.thread}: {panic.text}."
        )
    else:
        why = record.refusal(panic).message if panic.refused else panic.text
        yield f"gdbrr replay: {demo.path} cannot be replayed from tick {panic.tick} of {demo.ticks} on: {why}."
    if panic and panic.want_op:
        yield f"  the demo holds    {operation(panic.want_op, panic.want_nr, panic.want_object)}"
        yield f"  the program did   {operation(panic.got_op, panic.got_nr, panic.got_object)}"
    if panic and panic.pc:
        yield f"  at                {place(demo, panic.pc)}"
    for path, recorded, here in differing_objects(demo):
        yield f"  not as recorded   {path} (build-id {recorded[:12]}, here {here[:12] or 'none'})"
    yield f"  likely cause      {likely_cause(demo, outcome)}"
    yield f"  next              {next_command(demo, outcome)}"


def operation(op: int, nr: int, thing: int) -> str:
    """SYS_START of write (object 0x1), as `gdbrr events` calls it."""
    name = OPS.get(op, f"operation {op}")
    if name == "NONE":
        return "nothing"
    if nr and name.startswith("SYS_"):
        calls = {call.nr: call.name for call in tables.syscalls()}
        name += f" of {calls.get(nr - 1, f'system call {nr - 1}')}"
    elif nr:
        name += f" of signal {nr}"
    return f"{name} (object {thing:#x})" if thing else name


def differing_objects(demo: Demo) -> list[tuple[str, str, str]]:
    """(path, recorded build-id, build-id here) of every mapped file that is another one here."""
    rows = [*demo.manifest.get("objects", ())]
    rows += [demo.manifest["engine"]] if "engine" in demo.manifest else []
    found = []
    for row in rows:
        recorded = row.get("build_id", "")
        here = host.build_id(row["path"]) if recorded and os.path.isabs(row["path"]) else recorded
        if here != recorded:
            found.append((row["path"], recorded, here))
    return found


def likely_cause(demo: Demo, outcome: Outcome) -> str:
    panic = outcome.panic
    if not outcome.started:
        return "a library that the program needs is not found here"
    if differing_objects(demo):
        return "the program or a library was rebuilt or updated since the recording"
    kernel = demo.manifest.get("host", {})
    here = host.facts()
    changed = [name for name in ("cpu", "libc", "kernel") if kernel.get(name) not in (None, here[name])]
    if changed:
        return f"another machine: {', '.join(changed)} differ from the recording's"
    if panic and panic.code == lib.GR_PANIC_REFUSED:
        hint = record.refusal(panic).hint
        return f"the program used something that gdbrr does not support. {hint[:1].upper()}{hint[1:]}"
    if panic and panic.code == lib.GR_PANIC_BUG:
        return "a fault of gdbrr"
    return "a data race, or something nondeterministic that the profile does not record"


def next_command(demo: Demo, outcome: Outcome) -> str:
    panic = outcome.panic
    if not outcome.started:
        return f"ldd {shlex.quote(demo.manifest['program'])}"
    tick = panic.tick if panic else outcome.ticks
    thread = f" --thread {panic.thread}" if panic and panic.desynchronised else ""
    first, last = max(0, tick - _CONTEXT), min(tick, max(0, demo.ticks - 1))
    return f"gdbrr events {shlex.quote(str(demo.path))}{thread} --from {min(first, last)} --to {last}"


def place(demo: Demo, pc: int) -> str:
    """FUNCTION at FILE:LINE for an address in the program, else object and offset, else the bare address."""
    rows = [row for row in demo.manifest.get("objects", ()) if row.get("base", pc + 1) <= pc]
    if not rows:
        return f"{pc:#x}"
    row = max(rows, key=lambda candidate: candidate["base"])
    # A file that is loaded where it was linked (no PIE) knows absolute addresses.
    address = pc - row["base"] if host.is_relocatable(row["path"]) else pc
    found = _source_line(row["path"], address)
    return found or f"{os.path.basename(row['path'])}+{pc - row['base']:#x}"


def _source_line(path: str, address: int) -> str:
    tool = shutil.which("addr2line")
    if not tool or not os.path.isfile(path):
        return ""
    try:
        words = [tool, "-fCpe", path, f"{address:#x}"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=_PATIENCE, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    answer = done.stdout.strip()
    if not answer or answer.startswith("??"):
        return ""
    return answer.removesuffix(" at ??:0").removesuffix(" at ??:?")
