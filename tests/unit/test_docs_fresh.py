"""The generated pages are those that the tables make, and say what they should."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from gdbrr.config import profiles, schema, tables
from gdbrr.report import docs


def test_pages_are_fresh() -> None:
    assert docs.stale(docs.directory()) == [], "make them again: make docs"


def test_stale_page_is_seen_and_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(docs, "directory", lambda: tmp_path / "docs")
    assert docs.main([]) == 0
    assert docs.main(["--check"]) == 0
    page = tmp_path / "docs" / "knobs.md"
    page.write_text(page.read_text() + "by hand\n")
    capsys.readouterr()
    assert docs.main(["--check"]) == 1
    assert "stale: knobs.md" in capsys.readouterr().err
    assert docs.main([]) == 0
    assert capsys.readouterr().out == "docs/knobs.md\n"
    assert "by hand" not in page.read_text()


def test_every_call_is_on_the_page_once() -> None:
    text = docs.syscalls_page()
    for call in tables.syscalls():
        row = rf"^\| `{call.name}` \|" if "REFUSED" in call.flags else rf"^\| {call.nr} \| `{call.name}` \|"
        assert len(re.findall(row, text, re.MULTILINE)) == 1


def test_every_key_and_profile_is_on_the_page() -> None:
    text = docs.profiles_page()
    assert all(f"`{name}`" in text for name in [*schema.keys(), *profiles.SHIPPED])


def test_example_is_a_profile(tmp_path: Path) -> None:
    example = re.search(r"## One of your own\n\n```toml\n(.*?)```", docs.profiles_page(), re.DOTALL)
    assert example
    (tmp_path / "x.toml").write_text(example[1])
    assert profiles.resolve(str(tmp_path / "x.toml"), None, []).values["classes.file"].value == "native"


@pytest.mark.parametrize("name", docs.PAGES)
def test_page_is_well_formed(name: str) -> None:
    text = docs.PAGES[name]()
    assert text.startswith(docs.MADE)
    for line in text.splitlines():
        assert line == line.rstrip() and (len(line) <= 120 or line.startswith(("|", "`", "#")))
    for target in re.findall(r"\]\(([\w.]+)\)", text):
        assert target in docs.PAGES
    # Every row of a table has as many cells as its head.
    cells = [line.replace("\\|", "").count("|") if line.startswith("|") else 0 for line in text.splitlines()]
    assert all(before == after for before, after in itertools.pairwise(cells) if before and after)
