"""Copies of a replay left where one has been, and a little in front of it: what steps back are short ways from.

Runs in: the server and scripts; whoever calls holds the lock of the checkpoints. May call: the timeline's workers.
Owns: these copies.
"""

from __future__ import annotations

from collections.abc import Iterator

from gdbrr.timeline.worker import Checkpoint

_MOST = 12
"""The one that was used longest ago goes first."""
_MOST_INSIDE = 320
_SPARE = 8
"""Beyond that, while none may go."""


class Near:
    """By tick, the one that was used last behind all others."""

    def __init__(self) -> None:
        self._kept: dict[int, Checkpoint] = {}
        self._inside: list[Checkpoint] = []
        """Those in the middle of segments, see inside.py."""

    def __iter__(self) -> Iterator[Checkpoint]:
        return iter(self._kept.values())

    def wants(self, tick: int) -> bool:
        return len(self._kept) < _MOST + _SPARE and tick not in self._kept

    def keep(self, made: Checkpoint) -> None:
        for before in self:  # by now it is known what they have alone
            before.held = before.held or before.private()
        self._kept[made.tick] = made

    def best(self, behind: int, tick: int) -> Checkpoint | None:
        """The last one that stands at TICK or in front of it, if it is farther than BEHIND."""
        found = max((each for each in self._kept if behind < each <= tick), default=None)
        if found is None:
            return None
        self._kept[found] = self._kept.pop(found)
        return self._kept[found]

    def between(self, behind: int, last: int) -> list[Checkpoint]:
        return [self._kept[tick] for tick in sorted(self._kept) if behind < tick <= last]

    def keep_inside(self, made: Checkpoint) -> None:
        self._inside = [each for each in self._inside if each.alive]
        for before in self._inside[-1:]:  # by now it is known what it has alone
            before.held = before.private()
        self._inside.append(made)
        if len(self._inside) > _MOST_INSIDE:
            self._fewer()

    def _fewer(self) -> None:
        """Every second one of those inside of segments goes."""
        for each in self._inside[::2]:
            each.drop()
        self._inside = self._inside[1::2]

    def thin(self, memory: int) -> None:
        """Until they are few, and hold no more than so many bytes."""
        while self._inside and sum(each.held for each in self._inside) > memory:
            self._fewer()
        while len(self._kept) > _MOST or (self._kept and sum(each.held for each in self) > memory):
            self._kept.pop(next(iter(self._kept))).drop()

    def end(self, needed: Checkpoint | None = None) -> bool:
        """All but one go; tells whether there were any."""
        ended = [tick for tick, each in self._kept.items() if each is not needed]
        for tick in ended:
            self._kept.pop(tick).drop()
        inside, self._inside = self._inside, []
        for each in inside:
            each.drop()
        return bool(ended or inside)


def least_needed(ticks: list[int], most: int, needed: int | None) -> int | None:
    """Which one, but the first, the newest and the one at NEEDED, leaves the smallest gap for its age."""
    newest = ticks[-1]
    near = max(1, newest // most)

    def gap(at: int) -> float:
        return (ticks[at + 1] - ticks[at - 1]) / (newest - ticks[at] + near)

    return min((at for at in range(1, len(ticks) - 1) if ticks[at] != needed), key=gap, default=None)
