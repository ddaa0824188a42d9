"""Parts of time and the passes over them: which of them run beside each other, so that no core is idle.

Runs in: the server and scripts. May call: ctl.
Owns: the passes of a search or a history, from their beginning to the moment that somebody has looked at them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

from gdbrr.abi import lib
from gdbrr.timeline.hits import Pass
from gdbrr.timeline.model import Moment, Progress
from gdbrr.timeline.order import Order
from gdbrr.timeline.step.found import Found
from gdbrr.timeline.step.points import Piece
from gdbrr.timeline.worker import Checkpoint

_AHEAD = 8
"""Passes for each core that may stand behind one that still runs: each is a process with the pages that it changed."""
MANY = 2 * lib.GR_HITS
"""Hits of one run, from which on it pays to cut it in two."""
_Part = TypeVar("_Part", bound="Part")
Begin = Callable[[], Pass]
Between = Callable[[Checkpoint, int], "Checkpoint | None"]
"""Leaves a checkpoint behind another one, at a tick, if there may be one more."""


class Part(Protocol):
    """A stretch of time that a pass runs over; a dataclass."""

    @property
    def source(self) -> Checkpoint: ...
    @property
    def end(self) -> int: ...
    @property
    def inside(self) -> Moment | None: ...


@dataclass
class _Place(Generic[_Part]):
    part: _Part
    passes: list[Pass] = field(default_factory=list)
    """Those that were begun."""
    waiting: list[Begin] | None = None
    """The others, which take their turn; None before it is begun."""

    def begin(self, room: int, needed: bool) -> int:
        """As many more as there is ROOM for, and one in any case if it is NEEDED and none runs; tells how many."""
        begun = 0
        while self.waiting and (begun < room or (needed and not begun and all(one.ended() for one in self.passes))):
            self.passes.append(self.waiting.pop(0)())
            begun += 1
        return begun


class Row(Generic[_Part]):
    """Parts of time that are looked at in their order, with as many passes at a time as AT_ONCE.

    INVARIANT(no-idle-core): a pass that ended makes room for the next one, though one in front of it still runs; and
    where one takes long, because it meets its points often, another one runs over the later half of what is left of it.
    """

    def __init__(
        self,
        parts: Sequence[_Part],
        begin: Callable[[_Part], list[Begin]],
        at_once: int,
        between: Between,
        newest_first: bool,
    ) -> None:
        self._places = [_Place(part) for part in parts]
        self._total = len(parts)
        self._begin = begin
        self._at_once = at_once
        self._between = between
        self._newest_first = newest_first

    def fill(self) -> bool:
        """Begin as many as there is room for; whether any is left."""
        room = self._at_once
        for one in [one for place in self._places for one in place.passes]:
            if one.ended():
                one.close()
            else:
                room -= 1
        room -= room > 0 and self._share()
        for number, place in enumerate(self._places[: _AHEAD * (self._at_once - 1) + 1]):
            if place.waiting is None and (room > 0 or not number):
                place.waiting = self._begin(place.part)
            room -= place.begin(room, not number)
        return bool(self._places)

    def _share(self) -> bool:
        """The later half of what is left of one that meets its points often is another's."""
        for number, place in enumerate(self._places):
            if (
                len(place.passes) != 1
                or place.waiting
                or place.passes[0].ended()
                or place.passes[0].worker.slot.met <= MANY
            ):
                continue
            one, part = place.passes[0], place.part
            middle = one.middle()
            source = self._between(part.source, middle) if middle else None
            if middle and source:
                one.end_at(middle)
                place.part = replace(part, end=middle, inside=None)  # type: ignore[type-var]
                later = _Place(replace(part, source=source))  # type: ignore[type-var]
                self._places.insert(number + (not self._newest_first), later)
                later.waiting = self._begin(later.part)
                later.begin(1, True)
                return True
        return False

    @property
    def first(self) -> tuple[_Part, list[Pass]]:
        return self._places[0].part, self._places[0].passes

    @property
    def first_is_begun(self) -> bool:
        """Whether none of its passes waits for another one to end."""
        return not self._places[0].waiting

    @property
    def fraction(self) -> float:
        """How much has been looked at."""
        return max(0.0, 1 - len(self._places) / self._total)

    def pop(self) -> None:
        """The first one has been looked at."""
        _drop(self._places.pop(0))

    def instead(self, parts: Sequence[_Part]) -> None:
        """PARTS in place of the first one; the others, as far as they still run, leave the processors to them."""
        self.pop()
        for place in self._places:
            if not all(one.ended() for one in place.passes):
                _drop(place)
        self._places = [*(_Place(part) for part in parts), *self._places]

    def drop(self) -> None:
        for place in self._places:
            _drop(place)


def _drop(place: _Place[_Part]) -> None:
    for one in place.passes:
        one.drop()
    place.passes, place.waiting = [], None


@dataclass(frozen=True)
class Single:
    """One pass that is to be made, of which no hit may be lost."""

    source: Checkpoint
    end: int
    inside: Moment | None
    pieces: tuple[Piece, ...]
    groups: int = 1
    """How many passes its span takes."""
    spread: frozenset[int] = frozenset()
    """The points, by their identity, of which several of these have pieces."""


def made(
    runs: Sequence[Single], order: Order, at_once: int, between: Between, progress: Progress | None
) -> Iterator[tuple[Single, list[Found]]]:
    """What each run found, in their order."""

    def begin(run: Single) -> list[Begin]:
        return [lambda: Pass(run.source, order, run.pieces, run.end, run.inside, every=True)]

    row = Row(runs, begin, at_once, between, newest_first=False)
    try:
        while row.fill():
            run, (one,) = row.first
            if not one.done():
                one.nap(progress, "searching", row.fraction)
                continue
            found = one.hits()
            row.pop()
            yield run, found
    finally:
        row.drop()
