"""Everything that takes a demo apart, called on one that nobody recorded: what commands and sessions do but running it.

Runs in: tests/fuzz. May call: gdbrr, but for what starts processes.
Owns: the list of readers. A reader is fine if it ends, or raises a GdbrrError of one line.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

from gdbrr import abi
from gdbrr.abi import lib
from gdbrr.cli import redact as redact_verb
from gdbrr.config.profiles import Profile
from gdbrr.demo.reader import Demo
from gdbrr.errors import GdbrrError
from gdbrr.launch import engine as engines
from gdbrr.launch import inputs, replay, settings, waits, watchdog
from gdbrr.launch.carried import collect
from gdbrr.report import causes, divergence
from gdbrr.sparse import minimize, payload, redact, tour
from gdbrr.timeline import clock, timeline
from gdbrr.timeline.calls import Calls, Signals
from gdbrr.timeline.order import Order

EVENTS = 500

Reader = Callable[[Demo, random.Random, Path], object]


def _looked(demo: Demo, rng: random.Random) -> dict[int, tour.Arguments]:
    """What the program might have told of its calls."""
    paths = (None, "x", "/etc/passwd", "..", "a\udcff")
    return {
        event.tick: tour.Arguments(rng.choice((None, -100, 0, 1, 3, 4)), rng.choice(paths))
        for event in demo.events(stop=EVENTS)
        if event.kind == lib.GR_OP_SYS_START
    }


class _Never:
    what = "nothing"

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def shows(self, demo: Demo) -> bool:
        list(demo.events(stop=EVENTS))
        return self._rng.random() < 0.5


def _redact(demo: Demo, rng: random.Random, scratch: Path) -> None:
    with mock.patch.object(tour, "look", lambda *_: _looked(demo, rng)):
        redactor = redact.Redactor(demo, True)
        "\n".join(redact_verb.table(redactor))
        choice = redact.Choice(frozenset(("file",)), frozenset((0, 3)), ("*",))
        values = redact.values_of(demo.manifest["env"])
        result = redactor.take(choice, True, values)
        without = redact.Without(True, (), tuple(payload.checks(demo)))
        redact.write(redactor, demo, result, b"\0", without, scratch / "redacted.demo")
        list(redact_verb.said(result, scratch, without))


def _minimize(demo: Demo, rng: random.Random, scratch: Path) -> None:
    with mock.patch.object(tour, "look", lambda *_: _looked(demo, rng)):
        found = minimize.Minimizer(demo, _Never(rng), True, tries=4).run(scratch / "least.demo")  # type: ignore[arg-type]
    for need in found.needs:
        for call, span, _ in need.needed:
            minimize.offset(call, span)


def _start(demo: Demo, rng: random.Random, scratch: Path) -> None:
    """As much of a replay's start as comes in front of the process."""
    replay.check_program({**demo.manifest, "program": "/bin/true"})
    with abi.made_ctl() as (page, _), page:
        profile = Profile.from_json(demo.manifest.get("profile"))
        settings.fill(page, profile)
        for step in (engines.environment, engines.preloaded, engines.ignored, engines.shown, replay._signals):
            step(demo.manifest)
        replay._cache_pages(demo.manifest)
        replay.native_classes(profile)
    with contextlib.suppress(replay.Untrusted):
        replay.check_trust(demo, profile)


def _report(demo: Demo, rng: random.Random, scratch: Path) -> None:
    tick = rng.randrange(demo.ticks + 1)
    outcome = replay.Outcome(125, tick, None, problem="it did not go on")
    divergence.to_text(demo, outcome, None)
    divergence.to_json(demo, outcome, None)
    causes.likely(demo, outcome, list(demo.events(stop=20)), ["x", "/etc/passwd"])


def _timeline(demo: Demo, rng: random.Random, scratch: Path) -> None:
    order = Order(demo)
    calls, signals, time = Calls(demo, order), Signals(demo, order), clock.Clock(demo, demo.ticks)
    for tick in {0, demo.ticks, *(rng.randrange(demo.ticks + 1) for _ in range(4))}:
        calls.first(tick, frozenset())
        calls.last(tick, frozenset((0, 1)))
        sent = signals.first(tick, frozenset())
        if sent:
            signals.info(sent.tick)
        signals.last(tick, frozenset())
        time.seconds(tick)
        order.thread_of(tick)
        if 0 < tick <= demo.ticks:
            watchdog.segment_time(demo, tick - 1)
            watchdog.is_searched(demo, order.thread_of(tick - 1), tick)
    time.tick_at(rng.choice((0.0, 1.5, 1e300)))
    timeline._saved_at(demo)


def _pack(demo: Demo, rng: random.Random, scratch: Path) -> None:
    log = [("path", "257", "/etc/ld.so.cache", "-2"), ("auxv", "3", "4", "-")]
    with mock.patch.object(collect, "_loader_log", lambda *_: log):
        collect.collect(demo, False, True)


def _said(demo: Demo, rng: random.Random, scratch: Path) -> None:
    inputs.absent(demo.manifest)
    inputs.sentences(demo.manifest)
    waits.at_the_end(demo)


READERS: tuple[Reader, ...] = (_redact, _minimize, _start, _report, _timeline, _pack, _said)


def read(demo: Demo, rng: random.Random, scratch: Path) -> Iterator[str]:
    """Every reader in turn; yields the name of each, with a bar behind that of one that refused the demo."""
    for reader in READERS:
        name = reader.__name__.strip("_")
        try:
            reader(demo, rng, scratch)
            yield name
        except GdbrrError as error:
            assert str(error).isprintable(), f"not one line: {error!r}"
            yield f"{name}|"
