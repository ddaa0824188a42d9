"""Orders and seeds in a profile: what may be set, and that a seed is there where one is needed."""

from __future__ import annotations

import argparse

import pytest

from gdbrr.cli import record
from gdbrr.config import profiles, schema, tables
from gdbrr.config.profiles import Value
from gdbrr.errors import GdbrrError


def test_numbers_are_those_of_the_engine() -> None:
    # enum gr_order of preload/log/turn.h
    assert tables.knob_by_name()["order"].choices == ("parallel", "serial", "random", "pct")


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


def test_the_order_auto_is_planned() -> None:
    assert set(schema.NOT_YET_ORDERS) == {"auto"}
    with pytest.raises(GdbrrError, match="is not there yet"):
        profiles.resolve("default", None, ["order=auto"])
