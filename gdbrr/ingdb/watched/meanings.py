"""What the names in a watchpoint mean, so that it may be looked at anew where a move has ended.

Runs in: GDB's Python. May call: gdb.
Owns: what they meant where each watchpoint was set.

INVARIANT(old-is-here): GDB keeps what a watched place held where it stopped last, and takes a change to that for none.
It asks anew for one that is enabled, and reads its names anew then, too, in the selected frame: there another variable
may have one of them. So that is done in a frame where they mean what they meant; one that is nobody's has no variables.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gdbrr.ingdb import compat
from gdbrr.ingdb.compat import gdb
from gdbrr.ingdb.watched.locals import WATCHPOINTS, is_local
from gdbrr.ingdb.watched.lvalues import names

Place = tuple[Any, ...]


class Meanings:
    def __init__(self) -> None:
        self._known: dict[int, tuple[str, dict[str, Place | None] | None]] = {}
        self._told: set[int] = set()
        gdb.events.breakpoint_created.connect(self._of)
        gdb.events.breakpoint_modified.connect(self._of)
        gdb.events.breakpoint_deleted.connect(lambda point: self._known.pop(point.number, None))

    def may_go_off(self, point: Any) -> bool:
        """Whether it means the same where nobody has variables. That it does not is told, once."""
        if point.type not in WATCHPOINTS or point.expression.startswith("-location "):
            return True
        meant = self._of(point)
        if meant is None:
            return False
        if all(place == _outside(name) for name, place in meant.items()):
            return True
        if point.number not in self._told:
            self._told.add(point.number)
            compat.write(
                f"Watchpoint {point.number} may tell an old value from another moment: elsewhere its names mean"
                f" something else. Try: watch -location {point.expression}"
            )
        return False

    def put_on(self, point: Any) -> None:
        meant = self._of(point)
        if not meant:
            point.enabled = True
            return
        with compat.selection():
            for frame in _frames():
                frame.select()
                if all(place == _inside(name) for name, place in meant.items()):
                    break
            point.enabled = True

    def _of(self, point: Any) -> dict[str, Place | None] | None:
        """By name, what it means where it was said; None for what is a frame's or a register's."""
        if point.type not in WATCHPOINTS or point.number <= 0:
            return None
        words = f"{point.expression} if {point.condition}"
        if self._known.get(point.number, ("",))[0] != words:
            used = names(point.expression)
            bound = any(name.startswith("$") or is_local(name) or _inside(name) == _MEMBER for name in used)
            others = names(point.condition or "")
            # A condition on a frame's variables is read in the block that it was read in first.
            used += [] if any(map(is_local, others)) else [name for name in others if not name.startswith("$")]
            # In front of what needs no frame is '::'.
            meant = {name: _inside(name) for name in used if not name.startswith("::")}
            self._known[point.number] = words, None if bound else meant
        return self._known[point.number][1]


_MEMBER: Place = ("of this",)


def _inside(name: str) -> Place | None:
    """What it is in the selected frame."""
    try:
        symbol, is_member = gdb.lookup_symbol(name)
    except gdb.error:  # no frame
        return _outside(name)
    return _MEMBER if is_member else _place(symbol)


def _outside(name: str) -> Place | None:
    return _place(gdb.lookup_global_symbol(name) or gdb.lookup_static_symbol(name))


def _place(symbol: Any) -> Place | None:
    if symbol and not symbol.line and symbol.addr_class == gdb.SYMBOL_LOC_TYPEDEF:
        return ("of the language",)  # `long`, of which each file has a symbol, and where there is no file GDB
    return symbol and (symbol.symtab.filename if symbol.symtab else "", symbol.line, symbol.needs_frame)


def _frames() -> Iterator[Any]:
    try:
        frame = gdb.newest_frame()
    except gdb.error:
        return
    while frame is not None:
        yield frame
        frame = frame.older()
