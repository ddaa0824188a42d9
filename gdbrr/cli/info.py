"""The verb `info`: what a demo holds. Needs neither the program nor the machine it was recorded on.

Runs in: a command of its own. May call: gdbrr.demo and gdbrr.report, imported when the verb runs.
Owns: the wording of the summary and the keys of its JSON.
"""

from __future__ import annotations

import argparse
import json
import shlex
import signal
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gdbrr.cli.words import number, printable, say, size
from gdbrr.errors import GdbrrError

if TYPE_CHECKING:
    from gdbrr.demo.facts import End
    from gdbrr.demo.reader import Demo
    from gdbrr.launch.waits import Wait

EPILOG = """\
examples:
  gdbrr info crash.demo           program, arguments, how it ended, threads, sizes
  gdbrr info --json crash.demo    the same and every mapped object, for scripts

A damaged demo is shown as far as it can be read; the exit status is then 1.
"""

_ROWS = 20
_FROM_MANIFEST = (
    "program argv cwd started order profile limits host engine objects inputs gdbrr abi minimised redacted".split()
)


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "info",
        help="what a demo holds: program, how it ended, threads, sizes",
        description="Show what a demo holds. The program itself is not needed.",
        epilog=EPILOG,
    )
    parser.add_argument("demo", metavar="DEMO", type=Path, help="a file made by gdbrr record")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")


def main(args: argparse.Namespace) -> int:
    from gdbrr.demo.reader import Demo

    with Demo.open(args.demo) as demo:
        if args.json:
            say(json.dumps(as_json(demo), indent=2))
        else:
            for line in as_text(demo):
                say(line)
        return 1 if demo.damage else 0


def as_json(demo: Demo) -> dict[str, Any]:
    from gdbrr.config.profiles import guess_of
    from gdbrr.demo.verified import is_marked

    damage = demo.damage
    return {
        "demo": str(demo.path),
        "format": "{}.{}".format(*demo.format),
        "bytes": demo.size,
        "event_bytes": demo.stream_bytes,
        "operations": demo.ticks,
        "complete": demo.complete,
        "damage": damage and {"offset": damage.offset, "reason": damage.reason, "lost_bytes": damage.lost_bytes},
        "end": {"kind": demo.end.kind, "value": demo.end.value},
        "threads": [
            {
                "index": t.index,
                "operations": t.operations,
                "bytes": t.bytes,
                "recorded_tid": t.recorded_tid,
                "parent": t.parent,
            }
            for t in demo.threads
        ],
        "epochs": [{"start": e.start, "end": e.end, "bytes": e.bytes, "time": e.time} for e in demo.epochs],
        "waits": [
            {"thread": w.thread, "what": w.text, "object": w.object, "threads": list(w.holders)} for w in _waits(demo)
        ],
        "children": demo.manifest.get("children", 0),
        "notices": demo.manifest.get("notices", []),
        "unknown": demo.manifest.get("unknown", []),
        "digests": _digests(demo),
        "order_guess": guess_of(demo.manifest) or None,
        "verified": is_marked(demo.path),
        "refers": [{**row._asdict(), "contents": there} for row, there in _referred(demo)],
        "carried": demo.manifest.get("carried", {}).get("files"),
        "environment": len(demo.manifest["env"]),
        **{key: demo.manifest.get(key) for key in _FROM_MANIFEST},
    }


def as_text(demo: Demo) -> Iterator[str]:
    """The summary, line by line. Everything that comes from the demo is made printable first."""
    from gdbrr.config.profiles import guess_of
    from gdbrr.demo.carried import files
    from gdbrr.demo.verified import is_marked

    m, threads, epochs = demo.manifest, demo.threads, demo.epochs
    yield (
        f"{printable(str(demo.path))}: {number(demo.ticks, 'operation')} of {number(len(threads), 'thread')}"
        f" in {number(len(epochs), 'epoch')}, {size(demo.size)}"
    )
    if demo.damage:
        yield (
            f"  DAMAGED at byte {demo.damage.offset:,}: {demo.damage.reason}; "
            f"{size(demo.damage.lost_bytes)} behind it cannot be read, nothing from tick {demo.ticks:,} on"
        )
    yield ""
    yield _row("program", m["program"])
    yield _row("arguments", shlex.join(m["argv"][1:]) or "none")
    yield _row("directory", m["cwd"])
    if "started" in m:
        yield _row("recorded", datetime.fromtimestamp(m["started"]).astimezone().strftime("%Y-%m-%d %H:%M:%S %z"))
    yield _row("ended", how_it_ended(demo.end))
    profile = m.get("profile", {}).get("name")
    yield _row("order", f"{order_of(m)}, profile {profile if isinstance(profile, str) else 'unnamed'}")
    why, replayed = guess_of(m), is_marked(demo.path)
    if why:
        yield _row("guessed", f"because {why}")
    if why or replayed:
        yield _row("verified", "yes, a replay did the same" if replayed else "no, not before it was replayed once")
    host = m.get("host", {})
    facts = [str(host[key]) for key in ("kernel", "machine", "libc", "cpu") if host.get(key)]
    if host.get("kernel"):
        facts[0] = f"Linux {facts[0]}"
    if facts:
        yield _row("host", ", ".join(facts))
    yield _row("made by", f"gdbrr {m['gdbrr']}, engine ABI {m['abi']}, demo format {demo.format[0]}.{demo.format[1]}")
    yield _row("events", f"{size(demo.stream_bytes)} before compression")
    digests = _digests(demo)
    if digests:
        yield _row("digests", f"{digests['taken']:,}, {digests['several']:,} of them while several threads lived")
    if m.get("children"):
        yield _row("children", f"{m['children']:,}, not in the demo: a replay does not show what they printed")
    for notice in m.get("notices", ()):
        yield _row("notice", notice)
    if m.get("unknown"):
        numbers = ", ".join(str(nr) for nr in m["unknown"])
        yield _row("unknown", f"{numbers}: system calls that were answered as by a kernel without them (ENOSYS)")
    if "minimised" in m:
        yield _row("minimised", f"to {m['minimised']['keep']}; {size(m['minimised']['zero'])} of payload are zero")
    if "redacted" in m:
        also = ", and the environment" if m["redacted"]["environment"] else ""
        yield _row("redacted", f"{size(m['redacted']['bytes'])} of what was read{also}")
        if m["redacted"].get("hashes"):
            yield _row("", f"what {number(m['redacted']['hashes'], 'call')} wrote or asked with is not compared")
    for row, there in _referred(demo):
        yield _row("refers to", f"{row.path}, {size(row.end - row.start)}: {there}")
    brought = files(m)
    if brought:
        total = size(sum(file.size for file in brought))
        yield _row(
            "carried", f"{number(len(brought), 'file')}, {total}: program, libraries and engine, run with --trust"
        )
    yield from _thread_table(demo)
    yield from _epoch_table(demo)
    yield from _wait_table(demo)
    yield from _object_table(m.get("objects", []))


def _referred(demo: Demo) -> Iterator[tuple[Any, str]]:
    """Each large file that was read, and where its contents are."""
    from gdbrr.demo import referred

    for which, row in enumerate(demo.files):
        there = referred.held(demo, which)
        how = "" if there else referred.changed(row)
        yield row, "in the demo" if there else f"changed since: {how}" if how else "not in the demo"


def _digests(demo: Demo) -> dict[str, int] | None:
    """How many states the demo holds, and how many of them of several threads: where somebody did not stand, none was
    taken. None: recorded without --digest."""
    from gdbrr.abi import lib
    from gdbrr.cli.minimize import has_digests
    from gdbrr.ctl.digest import Digest

    if not has_digests(demo):
        return None
    events = demo.events(runs=True)
    threads = [len(Digest.parse(event.data).regs) for event in events if event.kind == lib.GR_OP_DIGEST]
    return {"taken": len(threads), "several": sum(count > 1 for count in threads)}


def order_of(manifest: dict[str, Any]) -> str:
    """The order, and the seed that gives it again."""
    from gdbrr.config.profiles import SEEDED, Profile

    order = str(manifest["order"])
    if order not in SEEDED:
        return order
    try:
        return f"{order}, seed {Profile.from_json(manifest.get('profile')).seed}"
    except GdbrrError:
        return order


def _thread_table(demo: Demo) -> Iterator[str]:
    if not demo.threads:
        return
    yield ""
    known = any(thread.recorded_tid is not None for thread in demo.threads)
    yield f"  {'thread':>6}  {'operations':>12}  {'events':>9}" + ("  recorded id  made by" if known else "")
    for thread in demo.threads[:_ROWS]:
        tid = "-" if thread.recorded_tid is None else thread.recorded_tid
        parent = "-" if thread.parent is None or thread.parent < 0 else f"thread {thread.parent}"
        line = f"  {thread.index:>6}  {thread.operations:>12,}  {size(thread.bytes):>9}"
        yield line + (f"  {tid:>11}  {parent}" if known else "")
    yield from _and_more(len(demo.threads))


def _epoch_table(demo: Demo) -> Iterator[str]:
    if len(demo.epochs) < 2:
        return
    yield ""
    yield f"  {'epoch':>6}  {'from tick':>12}  {'events':>9}  began at"
    for epoch in demo.epochs[:_ROWS]:
        began = "-" if epoch.time is None else f"{epoch.time:.3f} s"
        yield f"  {epoch.index:>6}  {epoch.start:>12,}  {size(epoch.bytes):>9}  {began:>8}"
    yield from _and_more(len(demo.epochs))


def _waits(demo: Demo) -> list[Wait]:
    """What threads were doing when a signal ended them: a deadlock that somebody lost patience with."""
    from gdbrr.launch import waits

    return waits.at_the_end(demo) if demo.end.kind == "signal" else []


def _wait_table(demo: Demo) -> Iterator[str]:
    rows = _waits(demo)
    if not rows:
        return
    yield ""
    yield f"  {'thread':>6}  at the end"
    for row in rows[:_ROWS]:
        yield f"  {row.thread:>6}  {row.line()}"
    yield from _and_more(len(rows))


def _object_table(objects: list[dict[str, Any]]) -> Iterator[str]:
    if not objects:
        return
    yield ""
    yield "  build-id  mapped object"
    for row in objects[:_ROWS]:
        yield f"  {row.get('build_id', '')[:8] or 'none':<8}  {printable(row['path'])}"
    yield from _and_more(len(objects))


def _and_more(rows: int) -> Iterator[str]:
    if rows > _ROWS:
        yield f"  ... and {rows - _ROWS:,} more; all with --json"


def _row(key: str, value: str) -> str:
    return f"  {key:<10} {printable(value)}"


def how_it_ended(end: End) -> str:
    """The end of a recording in words."""
    if end.kind == "exit":
        return f"exit status {end.value}"
    if end.kind == "signal":
        try:
            return f"killed by {signal.Signals(end.value).name}"
        except ValueError:
            return f"killed by signal {end.value}"
    return "unknown: the recording stopped before the program did"
