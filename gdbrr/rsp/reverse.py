"""What `bc` and an armed command look for, and what GDB is told when it is found; decisions only, no processes.

Runs in: the server and tests. May call: gdbrr.timeline.model, gdbrr.errors.
Owns: the breakpoints GDB has inserted, how they become points of a search, and the target of the next `bc`.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gdbrr.abi import lib
from gdbrr.errors import GdbrrError
from gdbrr.timeline.model import FEW, Call, Epoch, Hit, Moment, Point, PointKind, Sent, Timeline
from gdbrr.timeline.step.points import is_known

SOFTWARE, HARDWARE, WATCH, READ_WATCH, ACCESS_WATCH = range(5)
"""The digit of Z and z packets."""

HARDWARE_SLOTS = 4
"""Debug registers of an x86 thread."""
WORD = 8
"""Bytes that one of them watches."""

_LONGEST_CONDITION = lib.GR_CONDITION_ROOM // HARDWARE_SLOTS

Held = tuple[int, int, int]
"""(type, address, kind) as in a Z packet: kind is the length of a watched region."""


@dataclass(frozen=True)
class Fence:
    """An end of time in the middle of a segment: the live stop a timeline was built at. The engine knows only ends
    between operations, so the pc is a breakpoint, and `is_end` tells its last pass from earlier ones."""

    pc: int
    tick: int
    is_end: Callable[[int], bool]


class PointTable:
    """The breakpoints GDB wants now. It takes all out at a stop and puts them in again before it resumes."""

    def __init__(self) -> None:
        self.held: set[Held] = set()
        self.conditions: dict[int, bytes] = {}
        """By address. GDB tests them again: where there are several, or one that the engine does not understand, each
        pass is a stop for it to look at."""
        self._returns: dict[int, object] = {}
        """Where functions that GDB called return to, and the process on whose stack that is. GDB keeps a breakpoint
        there until they do: INVARIANT(no-byte-in-data), to any other process that would be a byte among its data."""
        self.calls: frozenset[int] | None = None
        """The system calls to stop at, by number: None for no call, none of them for any."""
        self._seen: set[int] = set()

    def change(self, insert: bool, held: Held, conditions: Sequence[bytes] = ()) -> None:
        kind, addr, _ = held
        (self.held.add if insert else self.held.discard)(held)
        if kind not in (SOFTWARE, HARDWARE):
            return
        self.conditions.pop(addr, None)
        if insert:
            self._seen.add(addr)
            alone = sum(each[1] == addr for each in self._code()) == 1
            if alone and len(conditions) == 1 and len(conditions[0]) <= _LONGEST_CONDITION and is_known(conditions[0]):
                self.conditions[addr] = conditions[0]

    def stepping_over(self, pc: int) -> bool:
        """Whether a step from PC may be GDB getting over a breakpoint there, which it leaves out for the step.

        Such a step must not be answered with the end of history: GDB 13.1 keeps the step-over in progress for ever
        then, and its next command hangs.
        """
        return pc in self._seen and not {(SOFTWARE, pc, 1), (HARDWARE, pc, 1)} & self.held

    def for_search(self) -> list[Point]:
        """The same as points of a search backwards.

        GDB drops a watch stop whose value is the one it holds, so writes of an equal value are no hits.
        """
        points = set()
        for kind, addr, length in self.of():
            if kind in (SOFTWARE, HARDWARE):
                points.add(Point(PointKind.EXEC, addr, condition=self.conditions.get(addr, b"")))
            elif kind == WATCH:
                points.add(Point(PointKind.CHANGE, addr, length))
            else:
                points.add(Point(PointKind.ACCESS, addr, length))
        return sorted(points, key=lambda point: (point.addr, point.kind.value, point.length))

    def asked(self, target: Target) -> list[Point]:
        """The points of TARGET, of which GDB may have said by a breakpoint what has to hold there."""
        conditions = self.conditions if target.conditional else {}
        return [
            dataclasses.replace(point, condition=conditions.get(point.addr, point.condition)) for point in target.points
        ]

    def forget(self) -> None:
        """A process is gone, and GDB takes what it had inserted there for gone, too."""
        self.held.clear()
        self.conditions.clear()
        self.calls = None

    def keep(self, mapped: Sequence[tuple[int, int]]) -> None:
        """Drop breakpoints beside what is MAPPED: where GDB reads that a library is gone, it takes its own there for
        gone with it, and never takes them out."""
        for kind, addr, length in self._code():
            if not any(start <= addr < end for start, end in mapped):
                self.change(False, (kind, addr, length))

    def check_live(self) -> None:
        """Refuse what the CPU cannot watch: gdbserver would only find out when it resumes, and end."""
        needed = sum(slots(held) for held in self.held)
        if needed > HARDWARE_SLOTS:
            raise GdbrrError(
                f"in the process that is recorded these watchpoints need {needed} debug registers and the CPU has"
                f" {HARDWARE_SLOTS}",
                hint="in the past there may be any number: go back, or let GDB step by: set can-use-hw-watchpoints 0",
            )

    @property
    def reads(self) -> bool:
        """Whether a place is watched for reads."""
        return any(kind in (READ_WATCH, ACCESS_WATCH) for kind, *_ in self.held)

    @property
    def fit(self) -> bool:
        """Whether the debug registers are enough for all of them."""
        return sum(map(slots, self.held)) <= HARDWARE_SLOTS

    def code(self) -> set[Held]:
        """The breakpoints; none of them needs a debug register where all of those may be in use."""
        return {
            (SOFTWARE, addr, 1) if kind == HARDWARE else (kind, addr, length) for kind, addr, length in self._code()
        }

    def _code(self) -> set[Held]:
        return {held for held in self.of() if held[0] in (SOFTWARE, HARDWARE)}

    def wrote(self, addr: int, payload: bytes, process: object) -> None:
        """GDB (13.1) puts such a byte on the stack before it calls a function, to have it return there."""
        if payload.endswith((b",1:\xcc", b",1:cc")):
            self._returns[addr] = process

    def returns_in(self, process: object) -> set[int]:
        return {addr for addr, its in self._returns.items() if its is process}

    def of(self, process: object = None) -> set[Held]:
        """Those that may be in PROCESS; None for any that nobody has changed."""
        return {held for held in self.held if held[0] >= WATCH or self._returns.get(held[1], process) is process}

    @property
    def places(self) -> list[Held]:
        """What is watched."""
        return sorted(held for held in self.held if held[0] >= WATCH)

    def watched(self) -> list[Point]:
        return [point for point in self.for_search() if point.kind is not PointKind.EXEC]

    def piece(self, addr: int) -> Held:
        """What one debug register watches at ADDR, where a watched place has one."""
        for kind, start, length in self.places:
            word = addr & -WORD
            begin, end = max(start, word), min(start + length, word + WORD)
            for first, size in pieces(begin, end - begin):
                if first <= addr < first + size:
                    return kind, first, size
        raise GdbrrError(f"nothing is watched at {addr:#x}")

    def reasons(self, hit: Hit) -> tuple[tuple[str, str], ...]:
        """Why GDB should say it stopped at HIT: nothing, unless a breakpoint of its own is the reason."""
        point = hit.point
        for kind, addr, length in sorted(self.held):
            if point.kind is PointKind.EXEC:
                if addr == point.addr and kind in (SOFTWARE, HARDWARE):
                    return (("swbreak" if kind == SOFTWARE else "hwbreak", ""),)
            elif addr <= point.addr < addr + length and kind >= WATCH:
                return (watch_reason((kind, addr, length)),)
        return ()


def watch_reason(held: Held) -> tuple[str, str]:
    return {WATCH: "watch", READ_WATCH: "rwatch", ACCESS_WATCH: "awatch"}[held[0]], f"{held[1]:x}"


def slots(held: Held) -> int:
    """Debug registers that a breakpoint takes."""
    kind, addr, length = held
    if kind in (SOFTWARE, HARDWARE):
        return int(kind == HARDWARE)
    return length // WORD if length > FEW else len(pieces(addr, length))


def pieces(addr: int, length: int) -> list[tuple[int, int]]:
    """A region as (address, length) of what a debug register can watch: aligned, of 1, 2, 4 or 8 bytes."""
    found = []
    while length > 0:
        size = next(size for size in (8, 4, 2, 1) if size <= length and addr % size == 0)
        found.append((addr, size))
        addr, length = addr + size, length - size
    return found


def split(points: Sequence[Point]) -> list[Point]:
    """The same places as points that a debug register can watch, but for those of many bytes."""
    found: list[Point] = []
    for point in points:
        if point.kind is PointKind.EXEC or point.length > FEW:
            found.append(point)
        else:
            found += [Point(point.kind, addr, length) for addr, length in pieces(point.addr, point.length)]
    return found


@dataclass(frozen=True)
class Span:
    """What a timeline reaches over, as far as decisions need it."""

    start: Moment
    end: Moment
    epochs: Sequence[Epoch]
    clock: Timeline | None = None


@dataclass(frozen=True)
class Target:
    """What the next `bc` does instead of going to the last breakpoint. Exactly one of the fields is set."""

    moment: Moment | None = None
    epoch: int | None = None
    epochs_back: int | None = None
    percent: float | None = None
    seconds: float | None = None
    """Since the start of the recording."""
    later: float | None = None
    """Seconds from now, below 0 for earlier."""
    at: float | None = None
    """Unix time."""
    start: bool = False
    end: bool = False
    live: bool = False
    behind: bool = False
    """One instruction or operation behind that."""
    here: bool = False
    """No move: only the stop."""
    named: bool = False
    """Behind which the moment is known."""
    points: tuple[Point, ...] = ()
    count: int = 1
    conditional: bool = False
    """The breakpoints at the points have their conditions."""
    before: Moment | None = None
    """No move: only a list of the changes of the points before it."""
    each: bool = False
    """They are too many for a search of all in an epoch."""
    silence: int = field(default=0, compare=False)
    """GDB is to be told of an access to this address, which it has a silent watchpoint for, and shows nothing of what
    it is told on the way; 0: it is to say that it stopped."""
    terminal: str = field(default="", compare=False)
    """Where GDB is, if one line there may tell how far the move is."""
    manner: str = field(default="line", compare=False)
    """How; see gdbrr.rsp.link.Manner."""
    since: float = field(default=0.0, compare=False)
    """When the command began that makes the move, by the monotonic clock."""
    stay: bool = False
    """Where a search for the points finds nothing, it ends where it began, and not at the start."""
    birth: tuple[int, int] | None = None
    """pc and stack pointer at which a search for the points ends: where the frame that they belong to begins."""


def parse_target(body: dict[str, Any]) -> Target:
    """The target of an `arm` request."""
    try:
        if "moment" in body:
            return Target(moment=Moment.parse(str(body["moment"])))
        if "epoch" in body:
            return Target(epoch=int(body["epoch"]))
        if "epochs_back" in body:
            return Target(epochs_back=_at_least(1, int(body["epochs_back"]), "epochs_back"))
        if "percent" in body:
            return Target(percent=float(body["percent"]))
        if "seconds" in body:
            return Target(seconds=float(body["seconds"]))
        if "later" in body:
            return Target(later=float(body["later"]))
        if "at" in body:
            return Target(at=float(body["at"]))
        if "where" in body:
            places = {"start": Target(start=True), "end": Target(end=True), "live": Target(live=True)}
            return {**places, "here": Target(here=True)}[body["where"]]
        if body.get("points"):
            index = None if body.get("thread") is None else int(body["thread"])
            points = tuple(dataclasses.replace(_point(item), thread=index) for item in body["points"])
            birth, before = body.get("birth"), body.get("before")
            return Target(
                before=None if before is None else Moment.parse(str(before)),
                each=bool(body.get("each")),
                points=points,
                count=_at_least(1, int(body.get("count", 1)), "count"),
                birth=None if birth is None else (int(birth["pc"]), int(birth["sp"])),
            )
    except (KeyError, TypeError, ValueError) as error:
        raise GdbrrError(f"that is no target: {body}", hint=f"what is wrong: {error!r}") from None
    raise GdbrrError(f"that is no target: {body}", hint="name a moment, epoch, epochs_back, percent, where or points")


def resolve(target: Target, span: Span, now: Moment) -> Moment:
    """The moment a target without points means, seen from NOW."""
    if target.moment is not None:
        moment = target.moment if span.clock is None else span.clock.present(target.moment)
        if not span.start.tick <= moment.tick <= span.end.tick:
            raise GdbrrError(f"moment {moment} is not in this demo", hint=f"it goes from {span.start} to {span.end}")
        return moment
    if target.epoch is not None:
        by_index = {epoch.index: epoch for epoch in span.epochs}
        if target.epoch not in by_index:
            raise GdbrrError(f"there is no epoch e{target.epoch}", hint=f"try: e0 to e{max(by_index)}, see rr-epochs")
        return Moment(by_index[target.epoch].start)
    if target.epochs_back is not None:
        return epoch_before(span, now, target.epochs_back)
    if target.percent is not None:
        if not 0 <= target.percent <= 100:
            raise GdbrrError(f"{target.percent:g}% is not in this demo", hint="a percentage goes from 0 to 100")
        if target.percent == 100:
            return span.end
        return Moment(span.start.tick + math.ceil((span.end.tick - span.start.tick) * target.percent / 100))
    if target.seconds is not None or target.later is not None or target.at is not None:
        return Moment(_tick_at(target, span, now))
    return span.end if target.end else span.start


def _tick_at(target: Target, span: Span, now: Moment) -> int:
    here = span.clock.seconds(now.tick) if span.clock is not None else None
    last = span.clock.seconds(span.end.tick) if span.clock is not None else None
    if span.clock is None or here is None or last is None:
        raise GdbrrError("this demo does not tell times", hint="go by ticks or percent")
    if target.at is not None:
        if span.clock.started is None:
            raise GdbrrError("this demo does not tell when it was recorded", hint="try: rr-goto 1.5s")
        seconds = target.at - span.clock.started
    else:
        seconds = target.seconds if target.seconds is not None else here + (target.later or 0.0)
    if target.at is not None and not 0 <= seconds <= last:
        first, end = _time_of_day(target.at - seconds), _time_of_day(target.at - seconds + last)
        raise GdbrrError(f"{_time_of_day(target.at)} is not in this demo", hint=f"it goes from {first} to {end}")
    if target.later is None and not 0 <= seconds <= last:
        raise GdbrrError(f"{seconds:.3f} s is not in this demo", hint=f"it goes from 0 to {last:.3f} s")
    tick = min(span.clock.tick_at(max(seconds, 0.0)), span.end.tick)
    if target.later is not None and seconds > here:
        # Ticks between two known times have the earlier one; whoever wants to go on shall not stay.
        return max(tick, min(now.tick + 1, span.end.tick))
    if target.later is None or target.later >= 0 or tick < now.tick:
        return tick
    # So back to the last one that has an earlier time, if only by one.
    return max(now.tick - 1, span.start.tick)


def _time_of_day(unix: float) -> str:
    return f"{datetime.datetime.fromtimestamp(unix):%Y-%m-%d %H:%M:%S.%f}"[:-3]


def epoch_before(span: Span, now: Moment, count: int) -> Moment:
    """The COUNT-th epoch start before NOW; the start of the demo where there are not that many."""
    passed = [epoch.start for epoch in span.epochs if (epoch.start, False) < (now.tick, now.pc is not None)]
    return Moment(passed[-count]) if count <= len(passed) else span.start


def is_behind(event: Call | Sent, moment: Moment) -> bool:
    """Whether a stop at EVENT comes behind MOMENT; a call's return is behind the operation that it is."""
    if event.tick != moment.tick:
        return event.tick > moment.tick
    return event.behind and moment.pc is None


def _at_least(least: int, number: int, name: str) -> int:
    if number < least:
        raise ValueError(f"{name} is less than {least}")
    return number


def _point(item: dict[str, Any]) -> Point:
    addr, length = int(item["addr"]), int(item.get("length", 1))
    if not 0 <= addr < 1 << 64 or not 1 <= length <= 1 << 32:
        raise ValueError("address or length out of range")
    return Point(PointKind[str(item["kind"]).upper()], addr, length)
