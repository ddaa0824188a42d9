"""The changes of some memory, newest first, without a debugger: each is searched, and looked at in a leaf.

Runs in: the server. May call: a Timeline, /proc of its leaves.
Owns: the leaf it looks at.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from gdbrr.rsp.ids import ids_of
from gdbrr.rsp.reverse import split
from gdbrr.timeline.model import Hit, Leaf, Moment, Point, PointKind, Progress, Timeline


def last(
    timeline: Timeline,
    points: Sequence[Point],
    before: Moment,
    progress: Progress | None,
    birth: tuple[int, int] | None = None,
) -> tuple[Hit | None, bool]:
    """The last hit before a moment, and whether it is the birth of a frame: its first pc with its stack pointer."""
    wanted = split(points)
    if birth is not None:
        wanted.append(Point(PointKind.EXEC, birth[0]))
    while True:
        hit = timeline.last_hit(wanted, before, progress)
        if hit is None or birth is None or hit.point != wanted[-1]:
            return hit, False
        leaf = timeline.seek(hit.moment, progress)
        try:
            if any(view.trapped and view.regs["rsp"] == birth[1] for view in leaf.threads()):
                return hit, True
        finally:
            leaf.drop()
        before = hit.moment


def changes(
    timeline: Timeline,
    points: Sequence[Point],
    before: Moment,
    progress: Progress,
    birth: tuple[int, int] | None = None,
) -> dict[str, Any]:
    """The last change of the first point, with what it held before. A hit of another point is one of what the first
    one's address depends on ("moved"): before it, it is elsewhere."""
    hit, born = last(timeline, points, before, progress, birth)
    if hit is None or born:
        return {"begin": hit is None, "born": born}
    return look(timeline, hit, points[0], progress)


def look(timeline: Timeline, hit: Hit, cell: Point, progress: Progress) -> dict[str, Any]:
    leaf = timeline.seek(hit.moment, progress)
    inside = cell.addr <= hit.point.addr < cell.addr + cell.length
    try:
        view = next((view for view in leaf.threads() if view.index == hit.thread), None)
        pc = hit.moment.pc if hit.moment.pc is not None else view.regs.get("rip", 0) if view is not None else 0
        return {
            "moment": str(hit.moment),
            "tick": hit.moment.tick,
            "pc": pc,
            "thread": ids_of(leaf.threads()).get(view.tid, 0) if view is not None else 0,
            "old": memory(leaf, cell.addr, cell.length).hex(),
            "moved": not inside,
        }
    finally:
        leaf.drop()


def memory(leaf: Leaf, addr: int, length: int) -> bytes:
    """Empty where nothing is mapped."""
    with open(f"/proc/{leaf.pid}/mem", "rb", buffering=0) as file:
        try:
            return os.pread(file.fileno(), length, addr)
        except OSError:
            return b""
