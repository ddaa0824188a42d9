"""Taking what calls brought in out of a demo, and whatever else in it has the same bytes.

Runs in: `gdbrr redact`. May call: errors, abi, config, demo, launch, gdbrr.sparse.
Owns: which payload is meant, and which values of the environment stay.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gdbrr.abi import lib
from gdbrr.config import tables
from gdbrr.errors import GdbrrError
from gdbrr.sparse import payload, remains, texts, tour
from gdbrr.sparse.marks import Marks
from gdbrr.sparse.payload import Call, Span

if TYPE_CHECKING:
    from gdbrr.demo.reader import Demo
    from gdbrr.sparse.tour import Arguments

_ELF = b"\x7fELF"
ASKS = frozenset(
    "stat fstat lstat newfstatat statx statfs fstatfs poll ppoll select pselect6 epoll_wait epoll_pwait epoll_pwait2"
    " fcntl ioctl getsockopt lseek pipe pipe2 socketpair".split()
)
"""Calls that tell about files and descriptors (the last ones: their numbers), and nothing of their contents."""


class Choice(NamedTuple):
    """What is to be taken out; a call is meant if any of them fits."""

    classes: frozenset[str] = frozenset()
    fds: frozenset[int] = frozenset()
    paths: Sequence[str] = ()
    """Patterns of what a call is about, as a shell has them."""


@dataclass
class Row:
    """What is in a demo about one thing."""

    cls: str
    name: str
    fds: set[int] = field(default_factory=set)
    calls: int = 0
    size: int = 0
    program: bool = False
    """Its contents are those of a program or library, without which nothing replays."""


class Result(NamedTuple):
    taken: Sequence[Row]
    copies: Sequence[Row]
    """What was taken out elsewhere, because it has the same bytes."""
    left: Sequence[Row]
    """Programs and libraries that the choice means and that were left as they are."""
    named: Sequence[str]
    """Paths that the demo needs, in which such bytes stand still."""
    spans: Sequence[Span]
    marks: Marks
    """What the new demo may not hold; none where copies stay."""


class Redactor:
    """A demo, looked at once."""

    def __init__(self, demo: Demo, trust: bool) -> None:
        self._demo = demo
        self._arguments: Mapping[int, Arguments] = tour.look(demo, trust)
        self._inherited = _standard(demo)
        self._every = [call for call in payload.calls(demo, self._arguments, unseen=True) if call.payload]
        self._calls = [call for call in self._every if call.thing.call not in ASKS]
        self._programs = _programs(demo, self._calls)

    def _fd(self, call: Call) -> int:
        fd = self._arguments.get(call.tick, tour.Arguments(None, None)).fd
        return -1 if fd is None else fd

    def rows(self) -> list[Row]:
        """Everything that could be taken out, most first."""
        return self._summed((call, call.payload) for call in self._calls)

    def _summed(self, found: Iterable[tuple[Call, Sequence[Span]]]) -> list[Row]:
        rows: dict[tuple[str, str], Row] = {}
        for call, spans in found:
            key = self._class_of(call), call.thing.name
            row = rows.setdefault(key, Row(*key, program=call.thing.name in self._programs))
            row.calls += 1
            row.size += sum(span.size for span in spans)
            row.fds |= {self._fd(call)} - {-1}
        return sorted(rows.values(), key=lambda row: -row.size)

    def _class_of(self, call: Call) -> str:
        known = next((row for row in tables.syscalls() if row.name == call.thing.call), None)
        by_fd = known is None or "BY_FD" in known.flags
        if by_fd and (call.thing.name.startswith("descriptor") or not call.thing.cls):
            return self._inherited.get(self._fd(call), "")  # empty: nobody saw where it came from
        return call.thing.cls or (known.cls if known else "")

    def _is_meant(self, call: Call, choice: Choice) -> bool:
        cls = self._class_of(call)
        # What nobody could look at may be of any class.
        return (
            cls in choice.classes
            or (not cls and bool(choice.classes))
            or self._fd(call) in choice.fds
            or any(fnmatch.fnmatchcase(call.thing.name, pattern) for pattern in choice.paths)
        )

    def take(self, choice: Choice, copies: bool, values: Mapping[str, bytes] | None = None) -> Result:
        """What CHOICE means; with COPIES also what has the same bytes, or those of VALUES of the environment."""
        if choice.fds or choice.paths:
            self._check_looked_at()
        meant = [call for call in self._calls if self._is_meant(call, choice)]
        ours = [call for call in meant if call.thing.name not in self._programs or self._is_named(call, choice)]
        chosen = {call.tick for call in ours}
        spans = [span for call in ours for span in call.payload]
        own = list(texts.own(self._demo.manifest))
        contents = [payload.read(self._demo, span) for span in spans]
        public = [texts.encoded(text) for _, text in own]
        if values is not None:
            public += texts.kept(self._demo.manifest["env"], values)
        marks = Marks(contents, values, public) if copies else Marks()
        others = list(self._copies(chosen, marks))
        return Result(
            self._summed((call, call.payload) for call in ours),
            self._summed(others),
            self._summed((call, call.payload) for call in meant if call.tick not in chosen),
            list(dict.fromkeys(what for what, text in own if marks.leave(texts.encoded(text)))),
            [*spans, *(span for _, found in others for span in found)],
            marks,
        )

    def programs_in(self, demo: Demo) -> dict[Span, str]:
        """What of DEMO, which has the same calls, is contents of programs and libraries, and of which."""
        calls = payload.calls(demo, self._arguments, unseen=True)
        return {span: call.thing.name for call in calls if call.thing.name in self._programs for span in call.payload}

    @staticmethod
    def _is_named(call: Call, choice: Choice) -> bool:
        return any(fnmatch.fnmatchcase(call.thing.name, pattern) for pattern in choice.paths)

    def _check_looked_at(self) -> None:
        by_fd = {row.name for row in tables.syscalls() if "BY_FD" in row.flags}
        if any(call.thing.call in by_fd and call.tick not in self._arguments for call in self._calls):
            why = "it does not replay so far, or is too long"
            raise GdbrrError(
                f"{self._demo.path} does not tell the descriptor of each call: {why}", "take out whole classes: --class"
            )

    def _copies(self, chosen: set[int], marks: Marks) -> Iterator[tuple[Call, list[Span]]]:
        for call in self._every if marks else ():
            if call.tick in chosen or call.thing.name in self._programs:
                continue
            found = [
                span.part(start, end)
                for span in call.payload
                for start, end in marks.found_in(payload.read(self._demo, span))
            ]
            if found:
                yield call, found


def _programs(demo: Demo, calls: Iterable[Call]) -> set[str]:
    """Names of what was read and is a program or library."""
    return {call.thing.name for call in calls if payload.read(demo, call.payload[0]).startswith(_ELF)}


def _standard(demo: Demo) -> dict[int, str]:
    """The classes of standard input, output and error, which the first operation tells."""
    first = next(iter(demo.events(stop=1)), None)
    known = tables.classes()
    if first is None or first.kind != lib.GR_OP_START:
        return {}
    return {fd: known[kind & 31].name for fd, kind in enumerate(first.data[:3]) if kind & 31 < len(known)}


def values_of(env: Sequence[str], keep: Collection[str] = ()) -> dict[str, bytes]:
    """The values that `without_values` replaces, by the names of their variables."""
    rows = (entry.partition("=") for entry in env)
    return {name: texts.encoded(value) for name, _, value in rows if value and not _stays(name, keep)}


def without_values(env: Sequence[str], keep: Collection[str] = ()) -> list[str]:
    """The environment, each value replaced by as many `x`; what the loader and the C library look at stays."""
    return [_blank(entry, keep) for entry in env]


_KEPT = frozenset(("PATH", "TZ", "LANG", "LANGUAGE", "TERM", "COLORTERM", "SHELL"))


def _stays(name: str, keep: Collection[str]) -> bool:
    return name in _KEPT or name in keep or name.startswith(("LC_", "LD_", "GLIBC_", "MALLOC_"))


def _blank(entry: str, keep: Collection[str]) -> str:
    name, _, value = entry.partition("=")
    return entry if _stays(name, keep) else f"{name}={texts.FILL * len(texts.encoded(value))}"


class Without(NamedTuple):
    """What else is not in the new demo."""

    env: bool = False
    """The values of the environment, ..."""
    keep: Collection[str] = ()
    """... but for those of these variables."""
    hashes: Sequence[Span] = ()


def write(redactor: Redactor, demo: Demo, result: Result, fill: bytes, without: Without, out: Path) -> int:
    """The demo without it; its size.

    INVARIANT(nothing-half-done): OUT appears when all of it was looked at, else an error says what stands where."""
    taken = sum(span.size for span in result.spans)
    told = {"env": demo.manifest["env"], **(texts.redacted(demo.manifest, result.marks) if result.marks else {})}
    told["redacted"] = {"bytes": taken, "environment": without.env, "hashes": len(without.hashes)}
    if without.env:
        told["env"] = without_values(told["env"], without.keep)
    gone = lib.GR_CHECK_GONE.to_bytes(4, "little")
    changes = [*((span, fill * span.size) for span in result.spans), *((span, gone) for span in without.hashes)]

    def check(new: Demo) -> None:
        remains.check(new, result.marks, out, redactor.programs_in)

    return payload.rewrite(demo, out, changes, manifest=told, check=check if result.marks else None)
