"""Instructions that the engine executes apart, to prove a spin, against the processor: what they leave is the same."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from harness import ROOT

CC = os.environ.get("CC", "gcc")
SOURCES = (
    "tests/native/apart_test.c",
    "preload/signal/preempt/apart.c",
    "preload/signal/preempt/touch.c",
    "preload/signal/preempt/places.S",
    "preload/patch/decode.c",
)
RANDOM = int(os.environ.get("GDBRR_APART_RANDOM", "50000"))
STEPS = 30000


def outcome(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    program = tmp_path / "apart"
    line = [
        CC,
        "-std=gnu11",
        "-D_GNU_SOURCE",
        "-O2",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Ipreload",
        *SOURCES,
        "-o",
        program,
        "-lm",
    ]
    subprocess.run(line, cwd=ROOT, check=True, stdin=subprocess.DEVNULL, timeout=120)
    line = [program, str(RANDOM), str(STEPS), *words]
    return subprocess.run(line, capture_output=True, text=True, timeout=500, check=False, stdin=subprocess.DEVNULL)


@pytest.mark.limit(600)
def test_what_instructions_leave_is_what_the_processor_leaves(tmp_path: Path) -> None:
    done = outcome(tmp_path)
    assert done.returncode == 0, done.stdout
    compared = [int(number) for number in re.findall(r"(\d+) (?:random ones|of \d+ steps) compared", done.stdout)]
    assert compared[0] > RANDOM / 3
    assert compared[1] > STEPS * 0.95


def test_control_a_flag_less_is_seen(tmp_path: Path) -> None:
    done = outcome(tmp_path, "forget")
    assert done.returncode == 1, done.stdout
    assert "flags: apart" in done.stdout
