"""What of a demo a symptom needs: parts of its payloads are set to zero as long as the symptom stays.

Runs in: `gdbrr minimize`. May call: errors, demo, gdbrr.sparse.
Owns: which parts are tried, in which order (classes, system calls, what they are about, single calls, bytes; of these
the costliest first), and when it is enough.
INVARIANT(shown-before-kept): what is zero in the result is zero in a demo whose replay showed the symptom.
"""

from __future__ import annotations

import heapq
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gdbrr.demo.reader import Demo
from gdbrr.sparse import payload, tour
from gdbrr.sparse.payload import Call, Span

if TYPE_CHECKING:
    from gdbrr.sparse.symptom import Symptom
    from gdbrr.sparse.tour import Thing

TRIES = 400
_CALLS, _BYTES = 4, 5
"""Levels of parts; all together is 0, a class 1, one of its system calls 2, what they are about 3."""

Progress = Callable[[int, int, int], None]
"""Told trials so far, payload bytes that may still be needed, and of how many."""


class Piece(NamedTuple):
    """Bytes of one call."""

    call: int
    """Its place in the list of calls."""
    span: Span


@dataclass(order=True)
class Part:
    """Pieces that are dropped together, or not. Ordered by how far they were cut, then by what dropping them saves:
    what is needed and large must not use up the trials of all that is small and is not."""

    level: int
    cost: int
    number: int
    pieces: Sequence[Piece] = field(compare=False)


@dataclass
class Need:
    """What the symptom needs of one thing."""

    thing: Thing
    calls: int
    """That brought in anything from it."""
    size: int
    """Of payload, in bytes."""
    needed: list[tuple[Call, Span, bytes]] = field(default_factory=list)

    @property
    def needed_bytes(self) -> int:
        return sum(span.size for _, span, _ in self.needed)


@dataclass
class Result:
    needs: list[Need]
    tries: int
    size: int
    """Of the new demo."""
    whole: bool
    """Whether everything was tried that could be; else what is called needed may be more than that."""


class Minimizer:
    def __init__(self, demo: Demo, symptom: Symptom, trust: bool, tries: int = TRIES) -> None:
        self._demo = demo
        self._symptom = symptom
        self._most = tries
        self.stopped = False
        """Set by whoever has seen enough: the best so far is the result."""
        self.tries = 0
        self._calls = [call for call in payload.calls(demo, tour.look(demo, trust)) if call.payload]
        self._dropped: list[Piece] = []
        self._kept: list[Piece] = []
        self._open: list[Part] = []
        self._numbers = 0

    # ---------------------------------------------------------------- the search
    def run(self, out: Path, progress: Progress | None = None) -> Result:
        """Look for what is needed and write the demo without the rest to OUT."""
        everything = [Piece(at, span) for at, call in enumerate(self._calls) for span in call.payload]
        total = sum(piece.span.size for piece in everything)
        self._push(0, everything)
        whole = True
        with tempfile.TemporaryDirectory(prefix="gdbrr-") as scratch:
            while self._open:
                spent = self.tries >= self._most
                fine = not spent and not self.stopped and self._try(self._open[0].pieces, Path(scratch))
                if spent or self.stopped:  # a trial in which Ctrl-C came is not believed
                    whole = False
                    break
                part = heapq.heappop(self._open)
                if fine:
                    self._dropped += part.pieces
                else:
                    self._split(part.pieces)
                if progress:
                    progress(self.tries, sum(piece.span.size for piece in self._needed()), total)
        needs = self._needs()
        size = self._write(self._dropped, out)
        return Result(needs, self.tries, size, whole)

    def _push(self, level: int, pieces: Sequence[Piece]) -> None:
        """What is zero already is dropped as it is."""
        live = [piece for piece in pieces if any(payload.read(self._demo, piece.span))]
        if live:
            self._numbers += 1
            cost = -sum(piece.span.size for piece in live)
            heapq.heappush(self._open, Part(level, cost, self._numbers, live))

    def _try(self, pieces: Sequence[Piece], scratch: Path) -> bool:
        self.tries += 1
        path = scratch / "trial.demo"
        self._write([*self._dropped, *pieces], path)
        with Demo.open(path) as trial:
            return self._symptom.shows(trial)

    def _write(self, pieces: Iterable[Piece], out: Path) -> int:
        spans = [piece.span for piece in pieces]
        note = {"keep": self._symptom.what, "zero": sum(span.size for span in spans)}
        return payload.write(self._demo, out, spans, note)

    def _split(self, pieces: Sequence[Piece]) -> None:
        """Into smaller parts, along the first line there is: class, system call, thing; then in halves."""
        for level, key in enumerate((self._class_of, self._call_of, self._thing_of), 1):
            groups: dict[object, list[Piece]] = {}
            for piece in pieces:
                groups.setdefault(key(piece), []).append(piece)
            if len(groups) > 1:
                for group in groups.values():
                    self._push(level, group)
                return
        if len(pieces) > 1:
            self._push(_CALLS, pieces[: len(pieces) // 2])
            self._push(_CALLS, pieces[len(pieces) // 2 :])
            return
        (call, span), half = pieces[0], pieces[0].span.size // 2
        if not half:
            self._kept.append(pieces[0])
            return
        self._push(_BYTES, [Piece(call, span.part(0, half))])
        self._push(_BYTES, [Piece(call, span.part(half, span.size))])

    def _class_of(self, piece: Piece) -> object:
        return self._calls[piece.call].thing.cls

    def _call_of(self, piece: Piece) -> object:
        thing = self._calls[piece.call].thing
        return thing.cls, thing.call

    def _thing_of(self, piece: Piece) -> object:
        thing = self._calls[piece.call].thing
        return thing.cls, thing.name

    # ---------------------------------------------------------------- what came of it
    def _needed(self) -> list[Piece]:
        return [*self._kept, *(piece for part in self._open for piece in part.pieces)]

    def _needs(self) -> list[Need]:
        """By thing, what is needed first, costliest first."""
        found: dict[tuple[str, str], Need] = {}
        for call in self._calls:
            need = found.setdefault((call.thing.cls, call.thing.name), Need(call.thing, 0, 0))
            need.calls += 1
            need.size += sum(span.size for span in call.payload)
        for number, span in _joined(self._needed()):
            call = self._calls[number]
            found[call.thing.cls, call.thing.name].needed.append((call, span, payload.read(self._demo, span)))
        return sorted(found.values(), key=lambda need: (not need.needed, -need.size))


def _joined(pieces: Iterable[Piece]) -> list[tuple[int, Span]]:
    """Spans by call, neighbours as one."""
    found: list[tuple[int, Span]] = []
    for call, span in sorted(pieces, key=lambda piece: (piece.call, piece.span.block, piece.span.at)):
        if found and found[-1][0] == call:
            last = found[-1][1]
            if (last.block, last.at + last.size) == (span.block, span.at):
                found[-1] = call, Span(last.block, last.at, last.size + span.size)
                continue
        found.append((call, span))
    return found


def offset(call: Call, span: Span) -> int:
    """Where in what the call brought in SPAN begins: in bytes from the first one on."""
    before = 0
    for whole in call.payload:
        if whole.block == span.block and whole.at <= span.at < whole.at + whole.size:
            return before + span.at - whole.at
        before += whole.size
    return before
