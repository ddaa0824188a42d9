"""Rows as tables: for a terminal, and for a page of the documentation.

Runs in: python -m bench, pytest. May call: figures.py.
Owns: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.kit import Row
from bench.report.figures import Results, cell, columns, head, label


def grid(rows: Sequence[Row]) -> list[list[str]]:
    ways = columns(rows)
    return [[head(rows), *ways], *([label(row, rows), *(cell(row, way) for way in ways)] for row in rows)]


def text_table(rows: Sequence[Row]) -> str:
    by_table: dict[str, list[Row]] = {}
    for row in rows:
        by_table.setdefault(row.table, []).append(row)
    blocks = []
    for name, some in by_table.items():
        lines = grid(some)
        widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
        body = [
            "  ".join(
                text.ljust(width) if i == 0 else text.rjust(width) for i, (text, width) in enumerate(pairs)
            ).rstrip()
            for pairs in (list(zip(line, widths, strict=True)) for line in lines)
        ]
        blocks.append("\n".join([f"== {name}", *body]))
    return "\n\n".join(blocks)


def markdown(rows: Sequence[Row]) -> str:
    first, *rest = grid(rows)
    lines = ["| " + " | ".join(first) + " |", "|" + "---|" * len(first)]
    lines += ["| " + " | ".join(line).replace("\n", " ") + " |" for line in rest]
    return "\n".join(lines)


def summary(results: Results) -> str:
    """What stands below the tables: what it took, what is missing."""
    took = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in results.seconds.items())
    lines = [f"took {sum(results.seconds.values()):.0f} s: {took}" if took else "nothing was measured"]
    lines += [f"failed: {name}: {text.splitlines()[0] if text else ''}" for name, text in results.failed.items()]
    lines += [f"left out: {text}" for text in results.left_out]
    return "\n".join(lines)
