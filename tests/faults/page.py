"""Makes the last section of docs/limits.md from the report of a long run of `make faults DOCS=1`.

Runs in: python -m faults, pytest. May call: nothing.
Owns: what stands between the two marks on that page.
"""

from __future__ import annotations

import collections

from faults.rounds import Report
from faults.subjects import REAL
from harness import ROOT

PAGE = ROOT / "docs" / "limits.md"
SAID = "a sentence says what stands in the way"
BEGIN, END = "<!-- made: faults -->\n", "<!-- end -->\n"


def section(report: Report) -> str:
    lost = f"{len(report.lost):,} of them" if report.lost else "none of them"
    first = f"The last report: {report.rounds():,} rounds in {report.minutes:.0f} minutes from seed {report.seed}"
    if report.programs:
        real = sum(count for name, count in report.programs.items() if name in REAL)
        orders = ", ".join(f"{count:,} in order `{order}`" for order, count in sorted(report.orders.items()))
        first += f", with {len(report.programs):,} programs, {real:,} times a real one; {orders}"
    lines = [f"{first}. Something was lost in {lost}.", "", "| fault | rounds | what came of it |", "|---|---|---|"]
    for name, counter in sorted(report.survived.items()):
        few: collections.Counter[str] = collections.Counter()
        for what, count in counter.items():
            few[SAID if "said: " in what else what] += count
        came = "; ".join(f"{count:,}: {what}" for what, count in few.most_common())
        lines.append(f"| {name} | {sum(counter.values()):,} | {came} |")
    return "\n".join(lines) + "\n"


def text(page: str, report: Report) -> str:
    before, _, rest = page.partition(BEGIN)
    _, _, behind = rest.partition(END)
    return before + BEGIN + section(report) + END + behind


def write(report: Report) -> None:
    PAGE.write_text(text(PAGE.read_text(), report))
