"""Orders and seeds in a profile: what may be set, and that a seed is there where one is needed."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from gdbrr.cli import record
from gdbrr.config import profiles, tables
from gdbrr.config.profiles import Value, guess_of
from gdbrr.demo import verified


def test_numbers_are_those_of_the_engine() -> None:
    # enum gr_order of preload/log/turn.h
    assert tables.knob_by_name()["order"].choices == ("parallel", "serial", "random", "pct", "auto")


@pytest.mark.parametrize("order", ["random", "pct"])
def test_a_seed_is_drawn_where_none_was_chosen(order: str) -> None:
    profile = profiles.resolve("default", None, [f"order={order}"])
    seeds = {profile.with_seed().values["seed"] for _ in range(8)}
    assert len(seeds) > 1
    assert all(seed.origin == "drawn" and 0 < int(seed.value) < 1 << 32 for seed in seeds)
    chosen = profiles.resolve("default", None, [f"order={order}", "seed=7"])
    assert chosen.with_seed().values["seed"] == Value(7, "--set")


@pytest.mark.parametrize("order", ["parallel", "serial"])
def test_no_seed_where_nothing_is_drawn(order: str) -> None:
    profile = profiles.resolve("default", None, [f"order={order}"])
    assert profile.with_seed() is profile


def test_options_of_record() -> None:
    parser = argparse.ArgumentParser()
    record.add_options(parser)
    words = record.sets_of(parser.parse_args(["--order", "pct", "--seed", "0", "--set", "pct.depth=5"]))
    values = profiles.resolve("default", None, words).values
    assert [values[key].value for key in ("order", "seed", "pct.depth")] == ["pct", 0, 5]
    assert record.prepare(["--seed", "3", "--digest", "x"]) == ["--seed", "3", "--digest=64", "x"]


def test_what_is_guessed_says_why() -> None:
    profile = profiles.resolve("default", None, ["order=auto"])
    assert profile.guessed == ""
    decided = profile.with_order("serial", "it has 3 atomic instructions")
    assert decided.knobs()["order"] == 1
    assert guess_of({"profile": json.loads(json.dumps(decided.to_json()))}) == "it has 3 atomic instructions"
    assert guess_of({"profile": 1}) == guess_of({}) == ""


def test_a_mark_belongs_to_the_contents(tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    demo.write_bytes(b"one")
    assert not verified.is_marked(demo)
    verified.mark(demo)
    assert verified.is_marked(demo)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.demo", "x.demo.verified"]
    demo.write_bytes(b"two")
    assert not verified.is_marked(demo)
    verified.mark(tmp_path / "no" / "x.demo")  # a place that cannot be written costs nothing
