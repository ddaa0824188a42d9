"""What a run of the benchmark found, as numbers: medians, spreads, ratios; and as JSON.

Runs in: python -m bench, pytest. May call: nothing.
Owns: the JSON's shape.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.kit import Row

VERSION = 1


@dataclass
class Results:
    machine: dict[str, str] = field(default_factory=dict)
    quick: bool = False
    seconds: dict[str, float] = field(default_factory=dict)
    """For each part, how long it took."""
    failed: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    def tables(self) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = {}
        for row in self.rows:
            found.setdefault(row.table, []).append(row)
        return found

    def row(self, table: str, name: str) -> Row | None:
        return next((row for row in self.rows if (row.table, row.name) == (table, name)), None)

    def to_json(self) -> str:
        return json.dumps({"version": VERSION, **asdict(self)}, indent=1) + "\n"


def from_json(text: str) -> Results:
    data: dict[str, Any] = json.loads(text)
    if data.pop("version") != VERSION:
        raise ValueError("these figures are of another version of the benchmark")
    rows = [Row(**row) for row in data.pop("rows")]
    return Results(rows=rows, **data)


def load(path: Path) -> Results:
    return from_json(path.read_text())


def median(values: Sequence[float]) -> float:
    return float(statistics.median(values))


def ratio(row: Row, way: str, base: str | None = None) -> float | None:
    """How much more WAY takes than BASE (the first way): the median of what it was in each round, or of medians."""
    base = base or next(iter(row.values))
    one, other = row.values.get(way), row.values.get(base)
    if not one or not other or way == base or not all(other):
        return None
    if len(one) == len(other):  # measured in turn: what disturbed a round disturbed both
        return median([a / b for a, b in zip(one, other, strict=True)])
    return median(one) / median(other)


def number(value: float) -> str:
    """Three digits that count, thousands apart."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    digits = 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    return f"{value:.{digits}f}".rstrip("0").rstrip(".") or "0"


def spread(values: Sequence[float]) -> str:
    """The median, and where there are several rounds in brackets the least and the most."""
    if not values:
        return "-"
    text = number(median(values))
    low, high = number(min(values)), number(max(values))
    return text if low == high else f"{text} ({low}\N{EN DASH}{high})"


def times(value: float) -> str:
    return f"{value:.0f}" if value >= 20 else f"{value:.1f}" if value >= 5 else f"{value:.2f}"


def cell(row: Row, way: str) -> str:
    if way in row.others:
        return spread(row.others[way])
    text = spread(row.values.get(way, ()))
    factor = ratio(row, way) if row.compared else None
    return text if factor is None else f"{text}, {times(factor)}\N{MULTIPLICATION SIGN}"


def columns(rows: Sequence[Row]) -> list[str]:
    found: dict[str, None] = {}
    for row in rows:
        found.update(dict.fromkeys(row.values))
    for row in rows:
        found.update(dict.fromkeys(row.others))
    return list(found)


def head(rows: Sequence[Row]) -> str:
    """What stands above the names: the unit, where all rows have the same."""
    units = {row.unit for row in rows}
    return units.pop() if len(units) == 1 else ""


def label(row: Row, rows: Sequence[Row]) -> str:
    return row.name if head(rows) else f"{row.name} [{row.unit}]"
