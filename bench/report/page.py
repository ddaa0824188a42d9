"""The figures as one page of HTML that needs nothing else: tables, and charts drawn as SVG.

Runs in: python -m bench, pytest. May call: figures.py, table.py.
Owns: the look of the page.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from html import escape

from bench.kit import Row
from bench.report import wanted
from bench.report.figures import Results, columns, head, label, median, number
from bench.report.table import grid, summary

COLOURS = ("#5b6b7a", "#2a6fb0", "#2f9e6e", "#c46a1b", "#a8416f", "#7a5cc0", "#8a8f2a", "#c23b3b", "#3aa6b9", "#444444")
WIDTH, LEFT, BAR, GAP = 860, 230, 13, 14
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 900px; margin: 2em auto; padding: 0 1em; color: #1d252c }
h1 { font-size: 1.5em } h2 { font-size: 1.15em; margin: 2.2em 0 .4em }
table { border-collapse: collapse; font-size: 13px; margin: .6em 0 } .wide { overflow-x: auto }
td, th { border-bottom: 1px solid #dde3e8; padding: .2em .7em; text-align: right; font-weight: normal }
td:first-child, th:first-child { text-align: left } th { color: #5b6b7a }
svg text { font: 12px system-ui, sans-serif; fill: #1d252c } .axis { stroke: #dde3e8 } .faint { fill: #5b6b7a }
.missed { color: #b03030 } code { font-size: 12px } nav a { color: #2a6fb0; margin-right: 1em }
td { white-space: nowrap } .words td { white-space: normal } .words td:nth-child(2) { white-space: nowrap }
.words td:last-child { text-align: left } small { color: #5b6b7a; display: block; font-size: 11px; line-height: 1.2 }
h2 small { display: inline; font-size: .8em; margin-left: .4em }
details { margin: .3em 0 } summary { color: #5b6b7a; cursor: pointer }
@media (prefers-color-scheme: dark) {
body { background: #15191d; color: #dfe5ea } td, th { border-color: #333c44 } svg text { fill: #dfe5ea }
.axis { stroke: #333c44 } .missed { color: #ff8b80 } nav a { color: #6fb1ef }
small, .faint { color: #93a1ad; fill: #93a1ad } }
"""


class Scale:
    """From figures to pixels; by powers of ten where they lie far apart."""

    def __init__(self, values: Sequence[float], low: float, high: float) -> None:
        above = [value for value in values if value > 0] or [1.0]
        self.most = max(above)
        self.log = self.most / min(above) > 25
        self.least = 10 ** math.floor(math.log10(min(above))) if self.log else 0.0
        if self.log and self.least == self.most:
            self.least /= 10
        self.low, self.high = low, high

    def __call__(self, value: float) -> float:
        if self.log:
            part = math.log(max(value, self.least) / self.least) / math.log(self.most / self.least)
        else:
            part = value / self.most
        return self.low + (self.high - self.low) * part

    def ticks(self) -> list[float]:
        if self.log:
            first, last = round(math.log10(self.least)), math.floor(math.log10(self.most))
            return [10.0**power for power in range(first, last + 1)]
        step = 10 ** math.floor(math.log10(self.most))
        step = next(step * factor for factor in (0.2, 0.5, 1, 2) if self.most / (step * factor) <= 6)
        return [step * index for index in range(math.floor(self.most / step) + 1)]


def faint(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text class="faint" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def key(ways: Sequence[str], y: float) -> list[str]:
    """The colours' names, in lines of what fits."""
    parts, x = [], float(LEFT)
    for index, way in enumerate(ways):
        width = 26 + 7 * len(way)
        if x + width > WIDTH and x > LEFT:
            x, y = float(LEFT), y + 18
        parts.append(f'<rect x="{x:.0f}" y="{y:.0f}" width="11" height="11" fill="{COLOURS[index % len(COLOURS)]}"/>')
        parts.append(f'<text x="{x + 16:.0f}" y="{y + 10:.0f}">{escape(way)}</text>')
        x += width
    return [*parts, f"<!-- {y + 24:.0f} -->"]


def key_height(ways: Sequence[str]) -> float:
    return float(key(ways, 4)[-1].split()[1])


def drawing(height: float, parts: Sequence[str]) -> str:
    inside = "\n".join(part for part in parts if not part.startswith("<!--"))
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" width="100%" role="img">\n{inside}\n</svg>'


def bars(rows: Sequence[Row]) -> str:
    """A bar for each row and way: its median, with a line from the least to the most."""
    ways = [way for way in columns(rows) if any(way in row.values for row in rows)]
    values = [value for row in rows for some in row.values.values() for value in some]
    scale, y = Scale(values, LEFT, WIDTH - 70), key_height(ways)
    parts, top = key(ways, 4), y
    for row in rows:
        shown = [(index, row.values[way]) for index, way in enumerate(ways) if row.values.get(way)]
        middle = y + len(shown) * BAR / 2 + 4
        parts.append(f'<text x="{LEFT - 10}" y="{middle:.0f}" text-anchor="end">{escape(label(row, rows)[:34])}</text>')
        for index, some in shown:
            end, colour = scale(median(some)), COLOURS[index % len(COLOURS)]
            parts.append(
                f'<rect x="{LEFT}" y="{y:.1f}" width="{max(end - LEFT, 1):.1f}" height="{BAR - 2}" fill="{colour}"/>'
            )
            low, high = scale(min(some)), scale(max(some))
            if high - low > 1:
                line = y + (BAR - 2) / 2
                parts.append(f'<path d="M{low:.1f} {line:.1f}H{high:.1f}" stroke="currentColor" stroke-width="1.5"/>')
            parts.append(
                f'<text class="faint" x="{max(end, high) + 5:.1f}" y="{y + 10:.1f}">{number(median(some))}</text>'
            )
            y += BAR
        y += GAP
    for tick in scale.ticks():
        x = scale(tick)
        parts.insert(0, f'<path class="axis" d="M{x:.1f} {top - 6:.0f}V{y - GAP + 4:.0f}"/>')
        parts.append(faint(x, y + 4, number(tick), "middle"))
    words = f"{head(rows)}{', by powers of ten' if scale.log else ''}"
    parts.append(faint(LEFT - 24, y + 4, words, "end"))
    return drawing(y + 12, parts)


def curve(rows: Sequence[Row]) -> str:
    """Rows with an x: a line for each way."""
    ways = [way for way in columns(rows) if any(way in row.values for row in rows)]
    xs = [row.x or 0.0 for row in rows]
    ys = [value for row in rows for some in row.values.values() for value in some]
    top = key_height(ways)
    across, up = Scale(xs, LEFT, WIDTH - 40), Scale(ys, top + 220, top + 10)
    parts = key(ways, 4)
    for tick in up.ticks():
        parts.append(f'<path class="axis" d="M{LEFT} {up(tick):.1f}H{WIDTH - 40}"/>')
        parts.append(
            f'<text class="faint" x="{LEFT - 10}" y="{up(tick) + 4:.1f}" text-anchor="end">{number(tick)}</text>'
        )
    for row, x in zip(rows, xs, strict=True):
        parts.append(faint(across(x), top + 240, row.name, "middle"))
    for index, way in enumerate(ways):
        points = [(across(row.x or 0.0), row.values[way]) for row in rows if row.values.get(way)]
        path = " ".join(f"{x:.1f},{up(median(some)):.1f}" for x, some in points)
        colour = COLOURS[index % len(COLOURS)]
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for x, some in points:
            parts.append(f'<circle cx="{x:.1f}" cy="{up(median(some)):.1f}" r="3.5" fill="{colour}"/>')
            parts.append(f'<path d="M{x:.1f} {up(min(some)):.1f}V{up(max(some)):.1f}" stroke="{colour}"/>')
    parts.append(
        f'<text class="faint" x="{LEFT - 10}" y="{top + 240:.0f}" text-anchor="end">{escape(head(rows))}</text>'
    )
    return drawing(top + 250, parts)


def chart(rows: Sequence[Row]) -> str:
    if not any(row.values for row in rows):
        return ""
    return curve(rows) if len(rows) > 1 and all(row.x is not None for row in rows) else bars(rows)


_SPREAD = re.compile(r"^(.*?) \(([^)]*)\)(.*)$")


def figures(text: str) -> str:
    """A median and its ratio, and below them, small, what lay farthest off."""
    found = _SPREAD.match(text)
    return f"{escape(found[1] + found[3])}<small>{escape(found[2])}</small>" if found else escape(text)


def sentence(text: str) -> str:
    words = re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))
    return f'<span class="missed">{words}</span>' if text.startswith("not reached") else words


def cells(lines: Sequence[Sequence[str]], cell: Callable[[str], str] = figures, kind: str = "wide") -> str:
    first, *rest = lines
    out = ["<tr>" + "".join(f"<th>{escape(text)}</th>" for text in first) + "</tr>"]
    for name, *others in rest:
        shown = [sentence(name), *map(cell, others)]
        out.append("<tr>" + "".join(f"<td>{text}</td>" for text in shown) + "</tr>")
    return f'<div class="{kind}"><table>\n' + "\n".join(out) + "\n</table></div>"


def anchor(part: str) -> str:
    return re.sub(r"\W+", "-", part)


def contents(names: Iterable[str]) -> str:
    parts = dict.fromkeys(name.partition(":")[0] for name in names)
    links = [f'<a href="#{anchor(part)}">{escape(part)}</a>' for part in parts]
    return f"<nav>{' '.join(links)}</nav>"


def html(results: Results) -> str:
    parts = ["<h1>gdbrr: what it costs</h1>"]
    parts.append("<p>" + ", ".join(f"{name}: {escape(value)}" for name, value in results.machine.items()) + "</p>")
    if results.quick:
        parts.append('<p class="missed">A quick run: a tenth of the work, once. Only to see that all of it runs.</p>')
    parts.append(
        "<p>Medians; below them, small, the least and the most of all rounds. Ratios: to the first column.</p>"
    )
    parts.append(contents(results.tables()))
    judged = wanted.lines(results)
    if judged:
        parts += ["<h2>What was wanted</h2>", cells([wanted.HEAD, *judged], sentence, "words")]
    seen: set[str] = set()
    for name, rows in results.tables().items():
        part, _, what = name.partition(": ")
        here = "" if part in seen else f' id="{anchor(part)}"'
        seen.add(part)
        parts += [f"<h2{here}>{escape(part)}<small>{escape(what)}</small></h2>", chart(rows)]
        parts.append(f"<details open><summary>figures</summary>{cells(grid(rows))}</details>")
    parts.append("<h2>This run</h2>")
    parts += [f"<p>{escape(line)}</p>" for line in summary(results).splitlines()]
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>gdbrr: what it costs</title>\n'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>\n'
        f"<body>\n{body}\n</body></html>\n"
    )
