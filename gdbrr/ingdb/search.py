"""Going back to a change of an expression or to a place in the code, and the list of all changes.

Runs in: GDB's Python. May call: gdb, through gdbrr.ingdb.compat and watch.
Owns: the way through several moments to one that is shown, and the way back from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gdbrr.errors import GdbrrError
from gdbrr.ingdb import compat, text
from gdbrr.ingdb.watched.watch import Seen, Watch

if TYPE_CHECKING:
    from gdbrr.ingdb.session import Session

_AT_ONCE = 100
GDB_OR_OWN: tuple[type[Exception], ...] = (GdbrrError, *compat.ERRORS)


def back_to_change(session: Session, expr: str, count: int) -> None:
    """Go back to just before the COUNT-th last change of EXPR, and tell what it changed."""
    watch, origin = _watched(session, expr)
    often = " that often" * (count > 1)
    # One place in memory and one change: the stop of the search is the one to show.
    quiet = count > 1 or not watch.plain or watch.deep or watch.frame is not None
    new = watch.seen()
    if origin is None:
        # What changed behind the last recorded moment is no change that can be gone to.
        live, new = new, _at_the_end(session, watch)
        if live != new:
            values = f" from {new.text} to {live.text}" if new.text != live.text else ""
            compat.write(f"Note: behind the last moment that is recorded, {expr} changed{values}.")
    if count > 1 and watch.plain:
        # All but one at once: what it is then is what the change that is looked for made of it.
        skipped = {**watch.target(), "count": count - 1}
        count = 1
    else:
        skipped = {}
    while True:
        found = _step(session, skipped or watch.target(), lambda: watch.seen() != new, quiet)  # noqa: B023
        if found and watch.frame is not None and watch.frame.is_beginning(compat.pc(), compat.selected()):
            found = None
        if found and skipped:
            skipped, new = {}, watch.seen()
            continue
        if not found:
            _return_to(session, origin, quiet)
            if found is None:
                hint = f"try: rr-back -w {watch.anywhere()}"
                raise GdbrrError(f"{expr} does not change{often} before here in this call", hint)
            raise GdbrrError(f"{expr} does not change{often} before here", hint="try: rr-goto start")
        hit = session.status()["hit"] if watch.wide else None
        part = watch.part(hit) if hit and watch.has(hit) else None
        resolved = watch.resolve()
        old = watch.seen()
        if old != new or watch.plain or part:
            count -= 1
        if not count:
            break
        if not resolved:
            _return_to(session, origin, quiet)
            raise GdbrrError(f"{expr} has no value before here", hint="try a part of it")
        new = old
    if watch.deep and not part:
        moment = str(session.now()["moment"])
        new = _behind(session, watch, moment)
        _go_to(session, moment, True)
    if quiet:
        session.arrive()
    here = compat.place()
    session.followed = Followed(expr, watch, (str(session.now()["moment"]), *_selected()))
    compat.write(text.change(*(part or (expr, old.text, new.text)), here.thread, here.name, here.code))


def back_to_place(session: Session, location: str, count: int) -> None:
    """Go back to just before the COUNT-th last execution of LOCATION, which may end in `if CONDITION`."""
    place, thread, condition = split_location(location)
    session.reopen()  # there are no threads otherwise
    addresses = compat.code_addresses(place, condition)
    points = [{"kind": "exec", "addr": pc, "length": 1} for pc in addresses]
    tid = compat.thread_id(thread) if thread else None
    origin = _origin(session)
    target: dict[str, Any] = {"points": points, **({"conditional": True} if condition else {})}
    if tid is not None:
        target["thread"] = session.require().request("thread_index", tid=tid)
    left, tested = count, True
    while left:
        asked = 1 if condition else left
        with compat.planted(place, condition) as point:
            hits = point.hit_count if point else -1
            found = _step(session, {**target, "count": asked}, lambda: compat.pc() in addresses, bool(condition))
            # GDB takes one that it cannot test for met; in an inlined function that is each, where no stop is seen.
            tested = not point or bool(session.status().get("tested"))
            met = tested or point.hit_count > hits
        if not found:
            _return_to(session, origin, bool(condition))
            often = " that often" * (count > 1)
            raise GdbrrError(f"{location} is not executed{often} before here", hint="try: rr-goto start")
        if met:
            left -= asked
    why = "" if tested else compat.why_untested(condition)
    if condition:
        session.arrive()
    if why:
        compat.write(f"Note: the condition cannot be tested here: {why}")
    session.say_when()


def split_location(location: str) -> tuple[str, str, str]:
    """The place, the thread and the condition of `withdraw thread 2 if amount > 3`, as `break` reads it."""
    head, word, condition = f" {location} ".partition(" if ")
    if not word and "if(" in location.replace(" ", ""):
        head, _, condition = location.partition("if")
    place = head.strip()
    if word and (not place or not condition.strip()):
        raise GdbrrError(f"{location!r} lacks a place or a condition", hint="try: rr-back -b withdraw if amount > 3")
    named = re.fullmatch(r"(.*\S)\s+thread\s+(\d+(?:\.\d+)?)", place)
    return (named[1], named[2], condition.strip()) if named else (place, "", condition.strip())


def _step(session: Session, target: dict[str, Any], hit: Callable[[], bool], quiet: bool) -> bool | None:
    """True at a hit; False where there is none, at the start; None where the frame begins that TARGET is about.

    A QUIET search without a hit lands at the start, as reverse-continue does. HIT tells whether that is one, too.
    """
    stay = {} if quiet else {"stay": True}  # who sees each stop need not see the start
    if not session.move(quiet, **{"count": 1, **stay, **target}):
        raise KeyboardInterrupt
    after = session.now()
    if after.get("missed"):
        return False
    if after.get("born"):
        return None
    return after["moment"] != after["start"] or hit()


def _watched(session: Session, expr: str) -> tuple[Watch, str | None]:
    """EXPR as it is here, and the moment to come back to."""
    session.reopen()  # GDB would read variables from the program's file
    followed, selected = session.followed, _selected()
    watch: Watch | None = None
    failure: Exception | None = None
    try:
        watch = Watch(expr)
    except GDB_OR_OWN as error:
        failure = error
    origin = _origin(session)
    if followed is not None and followed.expr == expr and followed.place == (origin, *selected):
        watch = followed.watch
    if watch is None:
        raise failure or GdbrrError(f"{expr} has no value here")
    watch.resolve()
    return watch, origin


@dataclass(frozen=True)
class Followed:
    """What the last search was about: asked for again where that ended, it is the same, in whatever thread one stands
    there, which may know another variable of that name or none."""

    expr: str
    watch: Watch
    place: tuple[str | None, int, int]
    """The moment, and what is selected there."""


def _selected() -> tuple[int, int]:
    """The thread and the frame."""
    return compat.selected(), compat.level()


def _origin(session: Session) -> str | None:
    """The moment to come back to; None for the process that is being recorded. What was changed by hand is undone."""
    status = session.now()
    if status.get("altered"):
        session.arrive(shown=False)
    return None if status["live"] else str(status["moment"])


def _behind(session: Session, watch: Watch, moment: str) -> Seen:
    """What the change at MOMENT made of it: later on, what it points to may hold something else."""
    if not session.move(True, moment=moment, behind=True):
        raise KeyboardInterrupt
    watch.resolve()
    return watch.seen()


def _at_the_end(session: Session, watch: Watch) -> Seen:
    if not session.move(True, where="end"):
        raise KeyboardInterrupt
    watch.resolve()
    return watch.seen()


def _return_to(session: Session, origin: str | None, quiet: bool) -> None:
    """Where a search that found nothing began, and where a list was asked for: nothing new for who types."""
    _go_to(session, origin, quiet)
    session.be_seen(shown=False)


def _go_to(session: Session, moment: str | None, quiet: bool) -> None:
    if moment is None:
        session.live(quiet)
    elif session.now()["moment"] != moment and not session.move(quiet, moment=moment):
        raise KeyboardInterrupt


# ---------------------------------------------------------------- all changes


@dataclass(frozen=True)
class Change:
    moment: str
    thread: int
    code: str
    old: str
    new: str
    name: str = ""
    """Of what changed in a place that is too large to be shown."""


def history(session: Session, expr: str) -> Iterator[Change]:
    """Every change of EXPR before here, newest first. Behind it GDB stands where it stood."""
    watch, origin = _watched(session, expr)
    if origin is None:
        _at_the_end(session, watch)
    try:
        yield from _changes(session, watch, str(session.now()["moment"]))
    finally:
        _return_to(session, origin, True)


def _changes(session: Session, watch: Watch, before: str) -> Iterator[Change]:
    new = watch.seen()
    each = slow = False
    while True:
        asked = {**watch.target(), "before": before, "count": _AT_ONCE, "each": each}
        reply = None if slow else session.require().request("history", **asked)
        if reply is None or reply["late"]:
            slow = True
            if not session.move(True, **asked):
                raise KeyboardInterrupt
            reply = session.require().request("history", **asked)
            if reply["late"]:
                raise GdbrrError("the search failed", hint="what the server said above tells why")
        each = reply["each"]
        for row in reply["rows"]:
            if "moment" not in row:
                return
            if watch.frame is not None and watch.frame.is_beginning(int(row["pc"]), int(row["thread"])):
                return
            moment = str(row["moment"])
            part = watch.part(row["hit"]) if watch.wide and not row["moved"] else None
            if watch.plain and not (watch.wide or watch.deep):
                told = watch.show_bytes(bytes.fromhex(row["old"]))
                old = Seen(told, told)
            elif watch.plain and watch.wide:
                old = new
            else:
                if watch.deep and not part:
                    new = _behind(session, watch, moment)
                _go_to(session, moment, True)
                if not watch.resolve():
                    return
                old = watch.seen()
            name, was, became = part or ("", old.text, new.text)
            if was != became if part else old != new:
                yield Change(moment, int(row["thread"]), compat.code_of(int(row["pc"])), was, became, name)
            before, new = moment, old
