"""Lines that GDB steps back over: of a long way inside of one it needs to see the end only.

Runs in: the server. May call: a Timeline.
Owns: which lines these are. GDB asks for each instruction of a line, and goes on as long as it sees that line in the
same frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gdbrr.timeline.model import Moment, Point, Progress, Timeline

_PAUSE = 32
"""Steps of a way that was not shortened, before that is tried again."""


class Line(NamedTuple):
    code: range
    function: range


class Lines:
    def __init__(self) -> None:
        self._lines: list[Line] = []
        self._into = False
        self._pause = 0

    def are(self, lines: Sequence[tuple[int, ...]], into: bool) -> None:
        """Of a step that begins, (start, end) of the line and of its function, for each frame; INTO functions that the
        line calls, too. None: it is by instructions."""
        self._lines = [Line(range(line[0], line[1]), range(line[2], line[3])) for line in lines if len(line) == 4]
        self._into, self._pause = into, 0

    @property
    def none(self) -> bool:
        return not self._lines

    def before(
        self, timeline: Timeline, now: Moment, stack: int, points: Sequence[Point], progress: Progress | None
    ) -> Moment | None:
        """The first moment of the line and frame that the thread is in, if that is far; None: a step is a step.

        INVARIANT(nothing-passed): it is behind the last hit of POINTS.
        """
        line = next((line for line in self._lines if now.pc in line.code), None)
        if line is None:
            return None
        if self._pause:
            self._pause -= 1
            return None
        self._pause = _PAUSE
        found = timeline.behind_others(now, line.code, None if self._into else line.function, points, progress)
        if found is None or found[0] == now or found[0].pc not in line.code or found[1] != stack:
            return None
        return found[0]
