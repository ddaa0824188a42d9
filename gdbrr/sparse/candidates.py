"""What a profile could leave out: classes, single calls, kinds of descriptors, paths; and what each of them costs.

Runs in: `gdbrr suggest`. May call: errors, config, gdbrr.sparse.
Owns: how a class whose calls are needed is cut into parts.
"""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from gdbrr.config import schema, tables
from gdbrr.config.profiles import Profile
from gdbrr.errors import GdbrrError
from gdbrr.sparse.payload import Call

MODES = {
    "file": ("native", "ignore"),
    "device": ("native", "ignore"),
    "proc": ("native", "ignore"),
    "time": ("ignore",),
    "random": ("ignore",),
}
"""Classes that have a choice, and what is tried. `native` first: what is compared cannot be wrong in silence. Clocks
and random bytes are never what they were."""
MADE_UP = ("/proc", "/sys")
"""Directories whose files the kernel makes up at each reading: what is the same today is another one tomorrow."""
_NEVER = ("time",)
"""Calls that tell the time by their result, which cannot be altered to see what depends on it: always recorded."""
_FIRST = itertools.count()


class Use(NamedTuple):
    """What one thing cost in the full demo."""

    cls: str
    name: str
    calls: int
    size: int


@dataclass(order=True)
class Candidate:
    """Something that may do without being recorded. Ordered by size, the largest first."""

    rank: tuple[int, int] = field(init=False)
    key: str = field(compare=False)
    """Of the profile."""
    cls: str = field(compare=False)
    modes: Sequence[str] = field(compare=False)
    calls: Sequence[Call] = field(compare=False)
    about: str = field(compare=False)
    parts: Callable[[], list[Candidate]] = field(compare=False, default=list)
    rules: Sequence[tuple[str, str]] = field(compare=False, default=())
    """Keys and modes that belong to it: exceptions."""

    def __post_init__(self) -> None:
        self.rank = -self.size, next(_FIRST)

    @property
    def size(self) -> int:
        return sum(call.size for call in self.calls)


def usage(calls: Iterable[Call]) -> list[Use]:
    """What the program used, by class and thing, costliest first."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for call in calls:
        key = call.thing.cls, call.thing.name
        count, size = found.get(key, (0, 0))
        found[key] = count + 1, size + call.size
    return sorted((Use(*key, *value) for key, value in found.items()), key=lambda use: -use.size)


def first(calls: Iterable[Call], profile: Profile) -> list[Candidate]:
    """The classes that are recorded and need not be."""
    found = []
    for cls, modes in MODES.items():
        mine = [call for call in calls if call.thing.cls == cls and not is_made_up(call.thing.name)]
        if not mine or profile.values[f"classes.{cls}"].value != "record":
            continue
        parts = _parts_of(cls, mine)
        if any(call.thing.call in _NEVER for call in mine):
            found += parts()
        else:
            rules = _exceptions(calls) if cls == "file" else ()
            found.append(Candidate(f"classes.{cls}", cls, modes, mine, f"class {cls}", parts, rules))
    return found


def is_made_up(path: str) -> bool:
    return path.startswith(tuple(f"{directory}/" for directory in MADE_UP))


def _exceptions(calls: Iterable[Call]) -> Sequence[tuple[str, str]]:
    """Rules by which what the kernel makes up stays recorded, where the program asks for it."""
    names = {call.thing.name for call in calls}
    used = [directory for directory in MADE_UP if any(name.startswith(f"{directory}/") for name in names)]
    return [(f"paths.{directory}/**", "record") for directory in used]


def _parts_of(cls: str, calls: Sequence[Call]) -> Callable[[], list[Candidate]]:
    if cls == "file":
        return lambda: _below("/", calls)
    if cls == "device":
        return lambda: _kinds(calls)
    return lambda: _single(cls, calls)


def _single(cls: str, calls: Sequence[Call]) -> list[Candidate]:
    """Each system call by itself, where the class has several."""
    found = []
    names = dict.fromkeys(call.thing.call for call in calls)
    for name in names if len(names) > 1 else ():
        mine = [call for call in calls if call.thing.call == name]
        try:
            modes = [mode for mode in MODES[cls] if mode in schema.call_key(name).modes]
        except GdbrrError:
            continue  # served by code of its own, or by its descriptor
        if modes and name not in _NEVER:
            found.append(Candidate(f"calls.{name}", cls, modes, mine, f"call {name}"))
    return found


def _kinds(calls: Sequence[Call]) -> list[Candidate]:
    """Each kind of device by itself."""
    by_kind: dict[str, list[Call]] = {}
    for call in calls:
        kind = _kind_of(call.thing.name)
        if kind:
            by_kind.setdefault(kind, []).append(call)
    return [
        Candidate(f"descriptors.{kind}", "device", MODES["device"], mine, f"descriptors of kind {kind}")
        for kind, mine in by_kind.items()
    ]


def _kind_of(path: str) -> str:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return ""
    types = {"CHR": stat.S_ISCHR, "BLK": stat.S_ISBLK}
    major, minor = os.major(status.st_rdev), os.minor(status.st_rdev)
    for kind in tables.kinds():
        fits = any(a <= major <= b and c <= minor <= d for a, b, c, d in kind.devices) or not kind.devices
        if kind.cls == "device" and kind.type in types and types[kind.type](status.st_mode) and fits:
            return kind.name
    return ""


def _below(directory: str, calls: Sequence[Call]) -> list[Candidate]:
    """What stands in DIRECTORY: each file, and each directory with all below it; no step without a choice."""
    groups: dict[str, list[Call]] = {}
    for call in calls:
        path = call.thing.name
        if path.startswith(directory) and path != directory:
            groups.setdefault(path[len(directory) :].split("/")[0], []).append(call)
    found = []
    for name, mine in groups.items():
        whole = directory + name
        parts: Callable[[], list[Candidate]] = list
        pattern = whole
        if any(call.thing.name != whole for call in mine):
            pattern, parts = f"{whole}/**", partial(_below, f"{whole}/", mine)
        if len(groups) == 1 and pattern != whole:
            return _below(f"{whole}/", mine)
        try:
            schema.path_key(pattern)
        except GdbrrError:
            continue  # a name that no profile can hold
        found.append(Candidate(f"paths.{pattern}", "file", MODES["file"], mine, pattern, parts))
    return found
