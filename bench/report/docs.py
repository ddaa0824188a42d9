"""docs/performance.md: its tables are made from bench/report/performance.json, its text is written by hand.

`python -m bench.report.docs` writes the tables again, `--check` says whether they are fresh. A table of the figures
that the page has no place for is added at its end.

Runs in: a command of its own, python -m bench --docs. May call: figures.py, table.py, wanted.py.
Owns: bench/report/performance.json, and what stands between `<!-- made: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace

from bench.kit import ROOT
from bench.report import wanted
from bench.report.figures import Results, load
from bench.report.table import markdown

PAGE, FIGURES = ROOT / "docs" / "performance.md", ROOT / "bench" / "report" / "performance.json"
PLACE = re.compile(r"<!-- made: (?P<name>[^\n]*?) -->\n.*?<!-- end -->", re.DOTALL)
MACHINE, WANTED = "machine", "wanted"


def block(name: str, body: str) -> str:
    return f"<!-- made: {name} -->\n{body.strip()}\n<!-- end -->"


def body(name: str, results: Results) -> str:
    if name == MACHINE:
        return ", ".join(f"{what} {value}" for what, value in results.machine.items()) + "."
    if name == WANTED:
        rule = "|---" * len(wanted.HEAD) + "|"
        first, *rest = ["| " + " | ".join(line) + " |" for line in [wanted.HEAD, *wanted.lines(results)]]
        return "\n".join([first, rule, *rest])
    rows = results.tables().get(name)
    return markdown(rows) if rows else "Not measured in this run."


def made(page: str, results: Results) -> str:
    """PAGE with its tables as RESULTS have them."""
    seen = {match["name"] for match in PLACE.finditer(page)}
    text = PLACE.sub(lambda match: block(match["name"], body(match["name"], results)), page)
    for name in results.tables():
        if name not in seen:
            text += f"\n## {name[0].upper()}{name[1:]}\n\n{block(name, body(name, results))}\n"
    return text


def merged(old: Results, new: Results) -> Results:
    """NEW, with the tables of OLD that were not measured again."""
    again = new.tables()
    both = {**{name: rows for name, rows in old.tables().items() if name not in again}, **again}
    order = [*old.tables(), *(name for name in again if name not in old.tables())]
    rows = [row for name in order for row in both[name]]
    return replace(new, rows=rows, seconds={**old.seconds, **new.seconds})


def keep(results: Results) -> None:
    if FIGURES.exists():
        results = merged(load(FIGURES), results)
    # What failed printed, with places of this machine, is not for a page.
    FIGURES.write_text(replace(results, failed=dict.fromkeys(results.failed, "failed")).to_json())
    PAGE.write_text(made(PAGE.read_text(), results))


def main() -> int:
    page = PAGE.read_text()
    fresh = made(page, load(FIGURES))
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(fresh)
    elif page != fresh:
        print(
            "docs/performance.md is not what bench/report/performance.json makes it: python -m bench.report.docs",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
