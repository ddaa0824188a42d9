"""Demos of every format version that was ever released read as they did then."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gdbrr.demo import format as fmt
from gdbrr.demo import seal
from golden.make import KEY, contents

HERE = Path(__file__).resolve().parent


@pytest.mark.parametrize("path", sorted(HERE.glob("*.demo")), ids=lambda path: path.stem)
def test_a_golden_demo_reads_as_it_did(path: Path) -> None:
    assert contents(path) == json.loads(path.with_suffix(".json").read_text())


@pytest.mark.parametrize("path", sorted(HERE.glob("*.demo")), ids=lambda path: path.stem)
def test_a_golden_demo_is_sealed(path: Path) -> None:
    with open(path, "rb") as demo:
        assert seal.fits(demo.fileno(), KEY) == (path.stem >= "format-3.3")
        assert not seal.fits(demo.fileno(), bytes(32))


def test_the_present_format_has_a_golden_demo() -> None:
    assert (HERE / "format-{}.{}.demo".format(*fmt.FORMAT)).exists(), "raise of version: run tests/golden/make.py"
