"""Links between pages lead somewhere, and README's table of commands is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import ROOT
from lint import sources

LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")


def broken_links(page: Path, text: str) -> list[str]:
    found = []
    for target in LINK.findall(text):
        place = target.partition("#")[0]
        if "://" not in target and place and not (page.parent / place).exists():
            found.append(f"{page}: {target}")
    return found


def pages() -> list[Path]:
    return [path for path in sources.project_files() if path.suffix == ".md"]


def test_links_lead_somewhere() -> None:
    found = [link for page in pages() for link in broken_links(page, page.read_text())]
    assert found == []


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    names = [page.name for page in pages() if page.parent == ROOT / "docs" and page.name != "README.md"]
    assert [name for name in names if f"({name})" not in index] == []


def test_every_verb_is_in_the_readme_or_its_help_alone() -> None:
    from gdbrr.cli import VERBS

    text = (ROOT / "README.md").read_text()
    assert [verb for verb in VERBS if verb not in ("serve", "profiles") and f"gdbrr {verb}" not in text] == []


@pytest.mark.parametrize(("text", "broken"), [("[a](nowhere.md)", 1), ("[a](x.md#b)", 0), ("[a](https://x.org)", 0)])
def test_check_sees_broken_link(tmp_path: Path, text: str, broken: int) -> None:
    (tmp_path / "x.md").write_text("")
    assert len(broken_links(tmp_path / "y.md", text)) == broken
