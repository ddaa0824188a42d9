"""The changes of some memory, newest first, without a debugger: of one place all in an epoch at once, else each is
searched, and looked at in a leaf.

Runs in: the server. May call: a Timeline, /proc of its leaves.
Owns: the leaf it looks at, and the changes that were found and not yet asked for.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Sequence
from typing import Any

from gdbrr.rsp.ids import ids_of
from gdbrr.rsp.reverse import Target, split
from gdbrr.timeline.model import FEW, Hit, Interrupted, Leaf, Moment, Point, PointKind, Progress, Timeline

AT_ONCE = 0.25
"""Seconds. GDB obeys Ctrl-C only behind an answer: what takes longer is looked for by a move, which tells how far it
is."""
_SOON = 0.5
"""Seconds of searching, after which what there is is shown."""
_TOGETHER = 2.0
"""Seconds, after which all changes of an epoch are too many."""


class Late(Interrupted):
    """There was no time for more."""


def _for_seconds(seconds: float, progress: Progress | None) -> Progress:
    deadline = time.monotonic() + seconds

    def look(what: str, fraction: float) -> None:
        if progress is not None:
            progress(what, fraction)
        if time.monotonic() > deadline:
            raise Late("it takes longer")

    return look


class Listing:
    """The changes of an expression, as many at a time as there is time for."""

    def __init__(self) -> None:
        self._changes: Changes | None = None
        """Those of one place that were listed last."""
        self._found: tuple[Target, dict[str, Any]] | None = None
        """What a move has found, and for whom."""

    def answer(self, timeline: Timeline, target: Target, progress: Progress) -> dict[str, Any]:
        found, self._found = self._found, None
        if found is not None and found[0] == target:
            return found[1]
        try:
            return self._rows(timeline, target, _for_seconds(AT_ONCE, progress))
        except Late:
            return {"rows": [], "late": True, "each": target.each}

    def find(self, timeline: Timeline, target: Target, progress: Progress | None) -> None:
        """The same by a move."""
        try:
            found = self._rows(timeline, target, _for_seconds(_SOON if target.each else _TOGETHER, progress))
        except Late:
            found = self._rows(timeline, dataclasses.replace(target, each=True, count=1), progress)
        self._found = target, found

    def _rows(self, timeline: Timeline, target: Target, progress: Progress | None) -> dict[str, Any]:
        assert target.before is not None
        before, began, cell = timeline.present(target.before), time.monotonic(), target.points[0]
        plain = target.birth is None and len(target.points) == len(split(target.points)) == 1 and cell.length <= 8
        if plain and not target.each:
            if self._changes is None or not self._changes.know(timeline, cell, before):
                self._changes = Changes(timeline, cell, before)
            return {"rows": self._changes.rows(before, target.count, progress), "late": False, "each": False}
        rows: list[dict[str, Any]] = []
        while len(rows) < target.count and time.monotonic() < began + _SOON:
            try:
                rows.append(changes(timeline, target.points, before, progress, target.birth))
            except Late:
                if not rows:
                    raise
                break
            if "moment" not in rows[-1] or rows[-1]["moved"]:
                break
            before = timeline.present(Moment.parse(rows[-1]["moment"]))
        return {"rows": rows, "late": False, "each": target.each}


def last(
    timeline: Timeline,
    points: Sequence[Point],
    before: Moment,
    progress: Progress | None,
    birth: tuple[int, int] | None = None,
    count: int = 1,
) -> tuple[Hit | None, bool]:
    """The COUNT-th last hit before a moment, and whether it is in its place the birth of a frame: its first pc with its
    stack pointer, behind which there are not so many."""
    wanted = split(points)
    if birth is None and len(wanted) == 1:
        return timeline.last_hit(wanted, before, progress, count=count), False
    # One instruction may hit several points, and is one all the same.
    if birth is not None:
        wanted.append(Point(PointKind.EXEC, birth[0]))
    while True:
        hit = timeline.last_hit(wanted, before, progress)
        if hit is None:
            return None, False
        if birth is None or hit.point != wanted[-1]:
            count -= 1
            if not count:
                return hit, False
        elif _begins(timeline, hit, birth[1], progress):
            return hit, True
        before = hit.moment


def _begins(timeline: Timeline, hit: Hit, sp: int, progress: Progress | None) -> bool:
    leaf = timeline.seek(hit.moment, progress)
    try:
        return any(view.trapped and view.regs["rsp"] == sp for view in leaf.threads())
    finally:
        leaf.drop()


def changes(
    timeline: Timeline,
    points: Sequence[Point],
    before: Moment,
    progress: Progress | None,
    birth: tuple[int, int] | None = None,
) -> dict[str, Any]:
    """The last change of the first point, with what it held before. A hit of another point is one of what the first
    one's address depends on ("moved"): before it, it is elsewhere."""
    hit, born = last(timeline, points, before, progress, birth)
    if hit is None or born:
        return {"begin": hit is None, "born": born}
    return look(timeline, hit, points[0], progress)


class Changes:
    """The changes of one place of up to 8 bytes, newest first, an epoch or several at a time."""

    def __init__(self, timeline: Timeline, point: Point, before: Moment) -> None:
        self._timeline = timeline
        self._point = point
        self._began = before
        self._hits: list[Hit] = []
        """Oldest first, from `_after` on."""
        self._after = before
        self._epochs = 1
        self._ids: dict[int, int] = {}
        """Of threads that were seen, by index."""

    def know(self, timeline: Timeline, point: Point, before: Moment) -> bool:
        """Whether these are the ones to ask."""
        known = before == self._began or any(hit.moment == before for hit in self._hits)
        return timeline is self._timeline and point == self._point and known

    def rows(self, before: Moment, count: int, progress: Progress | None) -> list[dict[str, Any]]:
        """No more than COUNT of those before BEFORE, which is a change that was given or where one began; a row without
        a moment says that there are no more. What takes too long is cut short, by Interrupted if there is none."""
        known, began = self._before(before), time.monotonic()
        while len(known) < count and self._after != self._timeline.start:
            if known and time.monotonic() > began + _SOON:
                break
            try:
                self._search(progress)
            except Interrupted as error:
                self._epochs = 1
                if not known or not isinstance(error, Late):
                    raise
                break
            known = self._before(before)
        rows = [self._row(hit, progress) for hit in reversed(known[-count:])]
        if len(known) < count and self._after == self._timeline.start:
            rows.append({"begin": True, "born": False})
        return rows

    def _before(self, before: Moment) -> list[Hit]:
        at = next((at for at, hit in enumerate(self._hits) if hit.moment == before), len(self._hits))
        return self._hits[:at]

    def _search(self, progress: Progress | None) -> None:
        limit = self._after.tick + (self._after.pc is not None)
        starts = [epoch.start for epoch in self._timeline.epochs if epoch.start < limit]
        after = Moment(starts[-self._epochs]) if len(starts) > self._epochs else self._timeline.start
        began = time.monotonic()
        found = self._timeline.all_hits([self._point], after=after, before=self._after, progress=progress)
        self._hits = [hit for hit in found if hit.old != hit.new] + self._hits
        self._after = after
        took = time.monotonic() - began
        if took < _SOON / 4:
            self._epochs *= 2
        elif took > _SOON:
            self._epochs = max(1, self._epochs // 2)

    def _row(self, hit: Hit, progress: Progress | None) -> dict[str, Any]:
        if hit.moment.pc is None or hit.thread not in self._ids:
            leaf = self._timeline.seek(hit.moment, progress)
            try:
                ids = ids_of(leaf.threads())
                self._ids |= {view.index: ids[view.tid] for view in leaf.threads()}
            finally:
                leaf.drop()
            if hit.moment.pc is None:
                return look(self._timeline, hit, self._point, progress)
        return {
            "moment": str(self._timeline.lasting(hit.moment)),
            "tick": hit.moment.tick,
            "pc": hit.moment.pc,
            "thread": self._ids.get(hit.thread, 0),
            "old": hit.old.to_bytes(8, "little")[: self._point.length].hex(),
            "moved": False,
        }


def look(timeline: Timeline, hit: Hit, cell: Point, progress: Progress | None) -> dict[str, Any]:
    leaf = timeline.seek(hit.moment, progress)
    inside = cell.addr <= hit.point.addr < cell.addr + cell.length
    try:
        view = next((view for view in leaf.threads() if view.index == hit.thread), None)
        pc = hit.moment.pc if hit.moment.pc is not None else view.regs.get("rip", 0) if view is not None else 0
        return {
            "moment": str(timeline.lasting(hit.moment)),
            "tick": hit.moment.tick,
            "pc": pc,
            "thread": ids_of(leaf.threads()).get(view.tid, 0) if view is not None else 0,
            **({"old": memory(leaf, cell.addr, cell.length).hex()} if cell.length <= FEW else {"hit": stored(hit)}),
            "moved": not inside,
        }
    finally:
        leaf.drop()


def stored(hit: Hit) -> dict[str, int]:
    """The word that was changed."""
    return {"addr": hit.addr, "was": hit.old, "became": hit.new}


def memory(leaf: Leaf, addr: int, length: int) -> bytes:
    """Empty where nothing is mapped."""
    with open(f"/proc/{leaf.pid}/mem", "rb", buffering=0) as file:
        try:
            return os.pread(file.fileno(), length, addr)
        except OSError:
            return b""
