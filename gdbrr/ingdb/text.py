"""What the commands print, made from what the server and GDB say.

Runs in: GDB's Python, and without GDB in tests. May call: the standard library; never gdb.
Owns: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def when(status: Mapping[str, Any], thread: int, name: str, code: str, selected: int = 0) -> str:
    """`tick 120 of 512 (23%), epoch 3 of 9, thread 2 "worker", account.c:41`: the thread is the one whose moment it is,
    and where another is SELECTED that is said."""
    moment, ticks = str(status["moment"]), int(status["ticks"])
    if status.get("live"):
        counted = f"{ticks} tick{'s' * (ticks != 1)}"
        parts = [f"recorded: {counted}" if status.get("unrecorded") else f"recording: {counted} so far"]
    else:
        share = f" ({100 * tick_of(status) // ticks}%)" if ticks else ""
        parts = [f"tick {moment} of {ticks}{share}"]
        if status.get("seconds") is not None:
            parts.append(f"{status['seconds']:.3f} s")
        if status["epoch"] is not None:
            parts.append(f"epoch {status['epoch']} of {status['epochs']}")
    if thread:
        parts.append(_named(thread, name))
    if code:
        parts.append(code)
    if selected not in (0, thread):
        parts.append(f"while thread {selected} is selected")
    if status.get("approximate"):
        parts.append("approximate")
    if status.get("note"):
        parts.append(str(status["note"]))
    return ", ".join(parts)


def tick_of(status: Mapping[str, Any]) -> int:
    """How many operations are in front of now. Behind the last one a moment has the name of its thread's last."""
    return int(status.get("tick", str(status["moment"]).partition(":")[0]))


def size(count: int) -> str:
    value = float(count)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


_BAR = 50


def epochs(rows: Sequence[Mapping[str, Any]], current: int | None) -> str:
    """One line for each epoch; an arrow at the one that contains now, a star where a checkpoint stands."""
    table = [("", "epoch", "from tick", "operations", "threads", "events", "began", "checkpoint")]
    for row in rows:
        began = row.get("time")
        table.append(
            (
                "=>" if row["index"] == current else "",
                f"e{row['index']}",
                str(row["start"]),
                str(row["end"] - row["start"]),
                str(row.get("threads", "")),
                size(int(row["bytes"])),
                "" if began is None else f"{began:.3f} s",
                "*" if row.get("checkpoint") else "",
            )
        )
    columns = [column for column in range(len(table[0])) if column < 2 or any(line[column] for line in table[1:])]
    widths = {column: max(len(line[column]) for line in table) for column in columns}
    lines = []
    for line in table:
        cells = [
            line[column].rjust(widths[column]) if 2 <= column <= 6 else line[column].ljust(widths[column])
            for column in columns
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def bar(status: Mapping[str, Any]) -> str:
    """`[=======>      ] 120 of 512`: where one stands between the start and the end."""
    tick, ticks = tick_of(status), int(status["ticks"])
    place = _BAR * tick // ticks if ticks else 0
    return f"[{'=' * place}>{' ' * (_BAR - place)}] {tick} of {ticks}"


def marks(rows: Mapping[str, str]) -> str:
    """One line for each bookmark, in order of time."""
    if not rows:
        return "There are no bookmarks. Try: rr-mark NAME"
    width = max(map(len, rows))
    return "\n".join(f"{name:<{width}}  tick {moment}" for name, moment in rows.items())


def facts(rows: Sequence[Sequence[str]]) -> str:
    width = max((len(row[0]) for row in rows), default=0)
    return "\n".join(f"{what + ':':<{width + 1}}  {_one_line(value)}" for what, value in rows)


def change(expr: str, old: str, new: str, thread: int, name: str, code: str) -> str:
    """`balance: 20 -> -30 at account.c:41 by thread 2 "worker"`."""
    return f"{expr}: {old} -> {new}{' at ' + code if code else ''} by {_named(thread, name)}"


def _named(thread: int, name: str) -> str:
    return f'thread {thread} "{_one_line(name)}"' if name else f"thread {thread}"


def _one_line(name: str) -> str:
    """A thread chooses its name, and a demo its program's: nothing of that reaches a terminal unescaped."""
    return name if name.isprintable() else ascii(name)[1:-1]
