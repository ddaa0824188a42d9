"""Taking what calls brought in out of a demo, and whatever else in it has the same bytes.

Runs in: `gdbrr redact`. May call: errors, abi, config, demo, launch, gdbrr.sparse.
Owns: which payload is meant, and what counts as a copy of it.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gdbrr.abi import lib
from gdbrr.config import tables
from gdbrr.errors import GdbrrError
from gdbrr.sparse import payload, tour
from gdbrr.sparse.payload import Call, Span

if TYPE_CHECKING:
    from gdbrr.demo.reader import Demo
    from gdbrr.sparse.tour import Arguments

WINDOW = 16
"""Bytes that are recognised wherever they stand, from twice as many on in a row ..."""
_DISTINCT = 6
"""... if they are of so many kinds at least: zeros and the like are nobody's secret."""
_WORD = re.compile(rb"[^\s\0\"'=:;,&<>/()\[\]{}]{8,256}")
"""A word of a text is recognised wherever it stands as one."""
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
    """Arguments and environment variables in which such bytes stand still."""
    spans: Sequence[Span]


class Redactor:
    """A demo, looked at once."""

    def __init__(self, demo: Demo, trust: bool) -> None:
        self._demo = demo
        self._arguments: Mapping[int, Arguments] = tour.look(demo, trust)
        self._inherited = _standard(demo)
        self._calls = [
            call
            for call in payload.calls(demo, self._arguments, unseen=True)
            if call.payload and call.thing.call not in ASKS
        ]
        self._programs = {
            call.thing.name for call in self._calls if payload.read(demo, call.payload[0]).startswith(_ELF)
        }

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

    def take(self, choice: Choice, copies: bool) -> Result:
        """What CHOICE means; with COPIES also what has the same bytes."""
        if choice.fds or choice.paths:
            self._check_looked_at()
        meant = [call for call in self._calls if self._is_meant(call, choice)]
        ours = [call for call in meant if call.thing.name not in self._programs or self._is_named(call, choice)]
        chosen = {call.tick for call in ours}
        spans = [span for call in ours for span in call.payload]
        marks = Marks(payload.read(self._demo, span) for span in spans)
        others = list(self._copies(chosen, marks)) if copies else []
        return Result(
            self._summed((call, call.payload) for call in ours),
            self._summed(others),
            self._summed((call, call.payload) for call in meant if call.tick not in chosen),
            list(_named(self._demo.manifest, marks)),
            [*spans, *(span for _, found in others for span in found)],
        )

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
        for call in self._calls:
            if call.tick in chosen or call.thing.name in self._programs:
                continue
            found = [
                span.part(start, end)
                for span in call.payload
                for start, end in marks.found_in(payload.read(self._demo, span))
            ]
            if found:
                yield call, found


class Marks:
    """What tells bytes that are taken out wherever else they stand."""

    def __init__(self, contents: Iterable[bytes]) -> None:
        self._windows: set[bytes] = set()
        self._words: set[bytes] = set()
        for raw in contents:
            for at in range(0, len(raw) - WINDOW + 1, WINDOW):
                window = raw[at : at + WINDOW]
                if len(set(window)) >= _DISTINCT:
                    self._windows.add(window)
            self._words.update(word for word in _WORD.findall(raw) if len(set(word)) >= _DISTINCT)

    def found_in(self, raw: bytes) -> list[tuple[int, int]]:
        """Where in RAW such bytes stand: ranges in their order, apart from each other."""
        ranges = [match.span() for match in _WORD.finditer(raw) if match.group() in self._words]
        if self._windows:
            ranges += [
                (at, at + WINDOW) for at in range(len(raw) - WINDOW + 1) if raw[at : at + WINDOW] in self._windows
            ]
        joined: list[tuple[int, int]] = []
        for start, end in sorted(ranges):
            if joined and start <= joined[-1][1]:
                joined[-1] = joined[-1][0], max(end, joined[-1][1])
            else:
                joined.append((start, end))
        return joined


def _standard(demo: Demo) -> dict[int, str]:
    """The classes of standard input, output and error, which the first operation tells."""
    first = next(iter(demo.events(stop=1)), None)
    known = tables.classes()
    if first is None or first.kind != lib.GR_OP_START:
        return {}
    return {fd: known[kind & 31].name for fd, kind in enumerate(first.data[:3]) if kind & 31 < len(known)}


def _named(manifest: Mapping[str, Any], marks: Marks) -> Iterator[str]:
    for number, word in enumerate(manifest["argv"]):
        if marks.found_in(word.encode("utf-8", "surrogateescape")):
            yield f"argument {number}"
    for entry in manifest["env"]:
        name, _, value = entry.partition("=")
        if marks.found_in(value.encode("utf-8", "surrogateescape")):
            yield f"${name}"


def without_values(env: Sequence[str]) -> list[str]:
    """The environment, each value replaced by as many `x`; what the loader and the C library look at stays."""
    return [entry if (name := entry.partition("=")[0]) in _KEPT else _blank(name, entry) for entry in env]


_KEPT = frozenset(("PATH", "TZ", "LANG", "LANGUAGE", "TERM"))


def _blank(name: str, entry: str) -> str:
    if name.startswith(("LC_", "LD_", "GLIBC_", "MALLOC_")):
        return entry
    size = len(entry.encode("utf-8", "surrogateescape")) - len(name.encode("utf-8", "surrogateescape")) - 1
    return f"{name}={'x' * size}"


def write(demo: Demo, result: Result, fill: bytes, blank_env: bool, out: Path, hashes: Sequence[Span] = ()) -> int:
    """The demo without it, and without HASHES; returns its size."""
    taken = sum(span.size for span in result.spans)
    told: dict[str, Any] = {"redacted": {"bytes": taken, "environment": blank_env, "hashes": len(hashes)}}
    if blank_env:
        told["env"] = without_values(demo.manifest["env"])
    gone = lib.GR_CHECK_GONE.to_bytes(4, "little")
    changes = [*((span, fill * span.size) for span in result.spans), *((span, gone) for span in hashes)]
    return payload.rewrite(demo, out, changes, manifest=told)
