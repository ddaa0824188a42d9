"""Conditions of breakpoints, while GDB steps.

Runs in: GDB's Python. May call: gdb.
Owns: which side looks at conditions in a step.

On its way a step sets breakpoints of GDB's own: behind a call, behind a prologue, at a function's start. Where one of
the user's with a condition is at the same place already, GDB (13.1) does not tell the server, which goes on where that
does not hold: `next` passes its end. So for a step that may meet such a place GDB looks at conditions itself.
"""

from __future__ import annotations

from typing import Any

from gdbrr.ingdb import compat
from gdbrr.ingdb.compat import gdb

_KINDS = (gdb.BP_BREAKPOINT, gdb.BP_HARDWARE_BREAKPOINT)
_SETTING = "breakpoint condition-evaluation"
_MOST_FRAMES = 100
"""Of more, as in a deep recursion, the functions are known by then."""


class Conditions:
    def __init__(self) -> None:
        self._usual = ""
        """What is set, while another value is."""
        gdb.events.stop.connect(lambda event: self._behind())
        gdb.events.exited.connect(lambda event: self._behind())

    def before(self, step: str) -> None:
        """In front of STEP, a command of GDB's."""
        if self._usual or step.endswith(("stepi", "finish")):  # these set none on their way
            return
        tested = [each for each in compat.points().values() if each.enabled and each.type in _KINDS and each.condition]
        if tested and _may_meet(step, tested):
            self._usual = str(gdb.parameter(_SETTING))
            compat.change_setting(_SETTING, "host")

    def _behind(self) -> None:
        if self._usual:
            usual, self._usual = self._usual, ""
            compat.change_setting(_SETTING, usual)


def _may_meet(step: str, tested: list[Any]) -> bool:
    """Whether a breakpoint of GDB's own for STEP may be where one of TESTED is. In a function that is called on the way
    there is none, so what has to be passed there often costs no more than without a step."""
    reverse = step.startswith("reverse-") or str(gdb.parameter("exec-direction")) == "reverse"
    if step == "step" and not reverse:
        return True  # behind the prologue of any function
    places: set[int] = set()
    for each in tested:
        if not hasattr(each, "locations"):  # GDB 12
            return True
        places |= {int(location.address) for location in each.locations if location.address is not None}
    if reverse and any(_function(place) == place for place in places):
        return True
    met = {_function(place) for place in places}
    frame, count = gdb.newest_frame(), 0
    while frame is not None and count < _MOST_FRAMES:
        if _function(frame.pc()) in met:
            return True
        frame, count = frame.older(), count + 1
    return False


def _function(pc: int) -> int:
    """The entry of the function of PC; without symbols, PC."""
    block, function = gdb.block_for_pc(pc), None
    while block is not None and not block.is_static and not block.is_global:
        function = block.function or function  # the outermost one: others are inlined
        block = block.superblock
    return pc if function is None else int(function.value().address)
