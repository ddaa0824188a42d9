"""Why a replay may not have kept to its demo: what can be seen to differ, the most telling first.

Runs in: commands outside GDB. May call: demo, config, launch.
Owns: the list of likely causes, and their words.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gdbrr.abi import lib
from gdbrr.config import tables
from gdbrr.config.profiles import Profile
from gdbrr.launch import host, inputs
from gdbrr.launch.ends import errors

if TYPE_CHECKING:
    from gdbrr.demo.events import Event
    from gdbrr.demo.reader import Demo
    from gdbrr.launch.replay import Outcome

_CHOSEN = ("native", "ignore")


class Cause(NamedTuple):
    what: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.what}: {self.advice}" if self.advice else self.what


def changed_inputs(demo: Demo, opened: Sequence[str]) -> list[str]:
    """A sentence for each file that the program reads itself on replay and that is not as it was."""
    if "inputs" in demo.manifest:
        return inputs.sentences(demo.manifest)
    return [f"{path!r} changed since the recording" for path in _younger_files(demo, opened)]


def _younger_files(demo: Demo, opened: Sequence[str]) -> list[str]:
    """Where a recording was cut off in front of its list of inputs: what was changed since it began, of the files that
    the program had open (OPENED) and those that its arguments name.
    """
    started = demo.manifest.get("started")
    if started is None or "file" not in dict(chosen_classes(demo)):
        return []
    named = [os.path.join(demo.manifest["cwd"], word) for word in demo.manifest["argv"][1:] if word]
    found = []
    for path in dict.fromkeys([*opened, *named]):
        try:
            if os.path.isfile(path) and os.stat(path).st_mtime > started:
                found.append(path)
        except (OSError, ValueError):
            continue
    return found


def opened_files(pid: int) -> list[str]:
    """The regular files and directories that a process has open."""
    found = []
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            path = os.readlink(entry)
            if path.startswith("/") and int(entry.name) > 2 and (os.path.isfile(path) or os.path.isdir(path)):
                found.append(path)
    except OSError:
        pass
    return sorted(found)


def chosen_classes(demo: Demo) -> list[tuple[str, str]]:
    """(class, mode) of the classes that the profile does not record although it could."""
    profile = Profile.from_json(demo.manifest.get("profile"))
    _, actions = profile.actions()
    names = {lib.GR_ACT_NATIVE: "native", lib.GR_ACT_IGNORE: "ignore"}
    found = []
    for number, row in enumerate(tables.classes()):
        mode = names.get(actions[number], "")
        if mode and "record" in row.modes:
            found.append((row.name, mode))
    return found


def unrecorded(demo: Demo, events: Sequence[Event]) -> list[tuple[str, str, str]]:
    """(class, mode, call) of those of EVENTS that were not recorded, the newest first, each class once."""
    modes = dict(chosen_classes(demo))
    calls = tables.syscall_by_nr()
    found: dict[str, tuple[str, str, str]] = {}
    for event in reversed(events):
        call = calls.get(event.nr - 1) if event.kind == lib.GR_OP_SYS_END else None
        if call is None:
            continue
        kind = call.cls
        if "BY_FD" in call.flags and not event.data:
            # A recorded read that got something has data; the descriptor's class is a file's or a device's.
            kind = next((name for name in ("file", "device") if name in modes), kind)
        if kind in modes and kind not in found and not event.data:
            found[kind] = (kind, modes[kind], call.name)
    return list(found.values())


def likely(demo: Demo, outcome: Outcome, events: Sequence[Event], opened: Sequence[str], call: str = "") -> list[Cause]:
    """The causes that fit; EVENTS are the last operations of the thread before it went another way, CALL is what it did
    there.
    """
    return list(_likely(demo, outcome, events, opened, call))


def _changed(demo: Demo, opened: Sequence[str], call: str) -> Iterator[Cause]:
    """Files that are not as they were read: those that the program itself changed later, then all others."""
    writes = inputs.own(demo.manifest)
    words = re.findall(r'"([^"]+)"', call)
    named = {os.path.normpath(os.path.join(demo.manifest["cwd"], word)) for word in words}
    read = {path for path, _ in inputs.changed(demo.manifest)} | set(opened) | named
    for path, (thread, number) in writes.items():
        if path in read:
            tick = _tick_of(demo, thread, number)
            at = f" at tick {tick}" if tick is not None else ""
            yield Cause(
                f"the program itself changed {path!r}{at}, after it had read it natively",
                "record with --set file=record, or with a path rule of mode record for it (gdbrr profiles --help)",
            )
    for sentence in changed_inputs(demo, opened):
        if not any(sentence.startswith(repr(path)) for path in writes):
            yield Cause(sentence, "put back what was recorded, or record with --set file=record")


def _tick_of(demo: Demo, thread: int, number: int) -> int | None:
    """The tick of a thread's operation NUMBER; None where the demo ends in front of it."""
    tick = 0
    for which, count in demo.runs():
        if which == thread:
            if number < count:
                return tick + number
            number -= count
        tick += count
    return None


def _likely(demo: Demo, outcome: Outcome, events: Sequence[Event], opened: Sequence[str], call: str) -> Iterator[Cause]:
    panic = outcome.panic
    if not outcome.started:
        yield Cause("a library that the program needs is not found here")
        return
    if panic and panic.code == lib.GR_PANIC_BUG:
        yield Cause("a fault of gdbrr", "report it, with the demo if you can")
        return
    if panic and panic.refused:
        yield Cause("the program used something that gdbrr does not support", errors.refusal(panic).hint)
    for name, key in (("redact", "redacted"), ("minimize", "minimised")):
        if key in demo.manifest:
            yield Cause(f"gdbrr {name} took contents out of this demo", "replay the one that it was made from")
    others = [path for path, _, _ in host.other_objects(demo.manifest)]
    if set(others) - {demo.manifest.get("engine", {}).get("path")}:
        yield Cause("the program or a library was rebuilt or updated since the recording", "put back what was recorded")
    elif others:
        yield Cause("gdbrr itself is another build than the one that recorded", "record again with this one")
    yield from _changed(demo, opened, call)
    for notice in demo.manifest.get("notices", ()):
        yield Cause(notice, "record the program where it works alone")
    for name, mode, asked in unrecorded(demo, events):
        named = re.search(r'"[^"]+"', call) if call.startswith(f"{asked}(") else None
        what = f"{asked} of {named[0]}" if named else asked
        yield Cause(
            f"class {name} is {mode}, so {what} may answer differently in every run", f"record with --set {name}=record"
        )
    recorded = demo.manifest.get("host", {})
    here = host.facts()
    changed = [name for name in ("cpu", "libc", "kernel") if recorded.get(name) not in (None, here[name])]
    if changed:
        what = f"another machine: {', '.join(changed)} differ from the recording's"
        yield Cause(what, "replay where it was recorded")
    if panic and panic.refused:
        return
    if len(demo.threads) > 1:
        yield race(demo.manifest["order"])
    if "tsc" in dict(chosen_classes(demo)):
        yield Cause("the time stamp counter, if somebody reads it by rdtsc", "record with --set tsc=record")
    yield Cause(
        "something nondeterministic that is not recorded, such as cpuid, rdrand or memory shared with another process",
        "docs/limits.md lists what is not seen",
    )


def race(order: str) -> Cause:
    """Memory that threads share without an operation, and what can be done about it behind a recording in ORDER."""
    if order == "parallel":
        return Cause(
            "a data race, or a lock made of atomics: threads use the same memory in an order that no operation keeps",
            "record with --order serial",
        )
    return Cause(
        "a data race, if gdbrr record said at its end that a thread went on beside another",
        "report it: threads run one at a time in this order",
    )
