"""The benchmark's own arithmetic, its tables, page and documentation; that a part which breaks costs only itself.

Runs in: pytest. May call: python -m bench, with a part made here.
Owns: nothing.
"""

from __future__ import annotations

import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from bench.kit import Bench, Row
from bench.report import docs, page, wanted
from bench.report.figures import Results, from_json, load, number, ratio, spread
from bench.report.table import markdown, text_table
from harness import ROOT
from harness.run import run

PAIR = Row("t: pairs", "a", "ns", {"native": [10.0, 20.0, 30.0], "recorded": [12.0, 24.0, 60.0]}, {"bytes": [0.5]})


def some_results() -> Results:
    curve = [Row("t: a curve", f"{x} s", "ms", {"search": [x * 3.0, x * 4.0]}, x=float(x)) for x in (1, 10, 100)]
    return Results(rows=[PAIR, Row("t: pairs", "b", "ns", {"native": [5.0]}), *curve], seconds={"t": 3.0})


def test_what_is_made_of_the_performance_page_comes_from_the_committed_figures() -> None:
    text = docs.PAGE.read_text()
    assert docs.made(text, load(docs.FIGURES)) == text, "make docs, or python -m bench --docs for other figures"


def test_control_a_figure_changed_by_hand_is_noticed() -> None:
    results = load(docs.FIGURES)
    text = docs.PAGE.read_text()
    changed = re.sub(r"(<!-- made: door: calls -->\n(?:.*\n){3}.*?)(\d)", r"\g<1>9\g<2>", text, count=1)
    assert changed != text and docs.made(changed, results) == text


def test_figures_kept_are_of_a_whole_run() -> None:
    assert not load(docs.FIGURES).quick


def test_ratios_are_taken_round_by_round() -> None:
    assert ratio(PAIR, "recorded") == pytest.approx(1.2), "the median of 1.2, 1.2 and 2"
    assert ratio(Row("t", "a", "ns", {"native": [10.0, 12.0], "slow": [110.0]}), "slow") == pytest.approx(10)
    assert ratio(PAIR, "native") is None and ratio(PAIR, "nobody") is None


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.0061, "0.006"), (1.234, "1.23"), (12.34, "12.3"), (1234.5, "1,234"), (100000.0, "100,000")],
)
def test_three_digits_count(value: float, text: str) -> None:
    assert number(value) == text


def test_a_spread_has_its_least_and_most() -> None:
    assert spread([3.0, 1.0, 2.0]) == "2 (1\N{EN DASH}3)"
    assert spread([2.0]) == "2" and spread([]) == "-"


def test_tables_have_a_column_for_each_way() -> None:
    text = text_table(some_results().rows)
    assert "native" in text and "recorded" in text and "24 (12\N{EN DASH}60), 1.20\N{MULTIPLICATION SIGN}" in text
    lines = markdown(some_results().tables()["t: pairs"]).splitlines()
    assert {line.count("|") for line in lines} == {5}


def test_figures_come_back_from_json() -> None:
    results = some_results()
    assert from_json(results.to_json()).to_json() == results.to_json()


def test_the_page_needs_nothing_else_and_draws_every_table() -> None:
    text = page.html(some_results())
    assert "http" not in text and "<script" not in text and "src=" not in text
    drawings = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(drawings) == 2 and "<polyline" in drawings[1]
    for drawing in drawings:
        ElementTree.fromstring(drawing)
    bars = ElementTree.fromstring(drawings[0])
    widths = [float(bar.get("width", "0")) for bar in bars.iter("rect")][-3:]
    assert widths == pytest.approx([widths[0], widths[0] * 24 / 20, widths[0] / 4], rel=0.01)


def test_names_from_outside_are_no_markup() -> None:
    assert "<b>" not in page.html(Results(rows=[Row("<b>", "<b>", "<b>", {"<b>": [1.0]})], left_out=["<b>"]))


def test_tables_without_a_place_are_added_and_others_are_named() -> None:
    old = "# P\n\n<!-- made: gone -->\n| x |\n<!-- end -->\n"
    text = docs.made(old, some_results())
    assert "Not measured in this run." in text and "## T: a curve" in text
    assert docs.made(text, some_results()) == text


def test_what_was_not_measured_again_is_kept() -> None:
    new = Results(rows=[Row("t: pairs", "z", "ns", {"native": [1.0]})], seconds={"u": 1.0})
    both = docs.merged(some_results(), new)
    assert list(both.tables()) == ["t: pairs", "t: a curve"]
    assert [row.name for row in both.tables()["t: pairs"]] == ["z"] and both.seconds == {"t": 3.0, "u": 1.0}


def test_a_wanted_figure_is_judged_by_its_limit() -> None:
    results = some_results()
    one = wanted.Wanted("x", wanted.times_of("t: pairs", "a", "recorded"), 1.3, why="because")
    assert one.line(results) == ["x", "1.20\N{MULTIPLICATION SIGN}", "reached"]
    least = wanted.Wanted("x", wanted.figure("t: pairs", "a", "bytes"), 2, "B", least=True, why="because")
    assert least.line(results) == ["x", "0.5 B", "not reached: because"]
    assert wanted.Wanted("x", wanted.figure("t: none", "a", "bytes"), 2).line(results) is None


def test_every_limit_is_of_a_row_that_is_measured() -> None:
    """Or a row that was given another name would no longer be judged, and nobody would see it."""
    results = load(docs.FIGURES)
    missing = [each.text for each in wanted.ALL if each.line(results) is None]
    assert missing == []


def test_a_tool_that_is_missing_is_named_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert not bench.has("no-such-tool", "all of it") and not bench.has("no-such-tool", "all of it")
    assert bench.left_out == ["all of it: no-such-tool is not installed"] and bench.has("sh")


def test_ways_are_measured_in_turn(tmp_path: Path) -> None:
    seen: list[str] = []
    ways = {name: lambda name=name: seen.append(name) or 1.0 for name in "abc"}  # type: ignore[func-returns-value,misc]
    found = Bench(tmp_path).interleaved(ways, 2, once=("b",))
    assert "".join(seen) == "abcac" and found == {"a": [1.0, 1.0], "b": [1.0], "c": [1.0, 1.0]}


BROKEN = """
import sys, types
from bench import __main__ as main
from bench.kit import Failed, Row
from pathlib import Path
main.OUT = Path(sys.argv[1])
def part(name, action):
    module = types.ModuleType("bench." + name)
    def rows(bench):
        yield Row(name + ": t", "one", "ns", {"native": [1.0]})
        action()
    module.rows = rows
    sys.modules["bench." + name] = module
def fail(): raise Failed("it printed this")
def stop(): raise KeyboardInterrupt
part("good", lambda: None)
part("bad", fail)
part("worse", lambda: 1 / 0)
part("stopped", stop)
part("never", lambda: None)
main.PARTS = tuple(sys.argv[2].split())
sys.argv[1:] = []
sys.exit(main.main())
"""


@pytest.mark.parametrize(("parts", "status"), [("good", 0), ("bad worse good", 1), ("good stopped never", 130)])
def test_a_part_that_breaks_costs_only_itself(parts: str, status: int, tmp_path: Path) -> None:
    done = run(sys.executable, "-c", BROKEN, tmp_path, parts, cwd=ROOT).expect(status)
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert (tmp_path / "index.html").exists()
    measured = {row["table"].partition(":")[0] for row in figures["rows"]}
    assert measured == set(parts.split()) - {"never"}, "rows made before a part broke are kept"
    assert set(figures["failed"]) == set(parts.split()) & {"bad", "worse"}
    assert ("it printed this" in done.err) == ("bad" in parts)
    assert ("broken off" in done.out) == ("stopped" in parts)


def test_a_page_shows_figures_as_they_are_read() -> None:
    assert page.figures("116 (113-118), 1.01x") == "116, 1.01x<small>113-118</small>"
    assert page.figures("4.62, <b>") == "4.62, &lt;b&gt;"
    assert page.sentence("recording `true` <") == "recording <code>true</code> &lt;"
    assert 'class="missed"' in page.sentence("not reached: see") and "missed" not in page.sentence("reached")
