"""Programs of a second or less, recorded and replayed: what they take beyond the start, which is measured beside them.

Runs in: python -m bench. May call: bench/kit.py.
Owns: how the start is taken off: in each round the same kind of program with nothing to do (`true`, or one that makes
its threads and joins them) is recorded and replayed beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from bench.kit import Bench, Done, Row, record, replay, run

NATIVE, ONE_CORE, RECORDED, REPLAYED = "native", "native, one core", "recorded", "replayed"
DEMO = "demo, kB"
LEAST = 1.0
"""Milliseconds: where the start beside it was slower, by what else the machine did, nothing is left."""


class Net:
    """One program, in all these ways in turn."""

    def __init__(
        self, bench: Bench, name: str, words: Sequence[str | Path], idle: Sequence[str | Path] = ("true",)
    ) -> None:
        self._bench, self._name, self._words, self._idle = bench, name, words, idle
        self._real: dict[str, list[float]] = {}
        self._used: dict[str, list[float]] = {}
        self._sizes: list[float] = []

    def _demo(self, name: str) -> Path:
        return self._bench.scratch / f"net-{name}.demo"

    def _note(self, way: str, done: Done, start: Done | None = None) -> float:
        real, used = done.seconds - (start.seconds if start else 0), done.used - (start.used if start else 0)
        self._real.setdefault(way, []).append(max(real * 1e3, LEAST))
        self._used.setdefault(way, []).append(max(used * 1e3, LEAST))
        return real

    def _native(self, way: str, core: int | None = None) -> float:
        return self._note(way, run(self._words, core=core))

    def _recorded(self) -> float:
        start = record(self._demo("start"), (), self._idle)
        done = record(self._demo("program"), (), self._words)
        self._sizes.append(self._demo("program").stat().st_size / 1000)
        return self._note(RECORDED, done, start)

    def _replayed(self) -> float:
        start = replay(self._demo("start"))
        return self._note(REPLAYED, replay(self._demo("program")), start)

    def rows(self, part: str, rounds: int) -> list[Row]:
        """One of real time, and one of processor time."""
        ways: dict[str, Callable[[], float]] = {
            NATIVE: partial(self._native, NATIVE),
            ONE_CORE: partial(self._native, ONE_CORE, 0),
            RECORDED: self._recorded,
            REPLAYED: self._replayed,
        }
        self._bench.interleaved(ways, rounds, name=self._name)
        return [
            Row(f"{part}: real time", self._name, "ms", self._real, {DEMO: self._sizes}),
            Row(f"{part}: processor time", self._name, "ms", self._used),
        ]
