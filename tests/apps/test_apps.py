"""Real programs are recorded, servers with clients that ask them, and replayed with nobody there: the same output.

Runs in: pytest; GDBRR_APPS=all (make apps) tries all of table.py, asks each demo a question about the past, and leaves
figures in build/apps.json, from which page.py makes docs/applications.md. May call: what table.py names.
Owns: nothing.
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from apps import page
from apps.starts import GDBRR, LIMIT, missing, prepare, recorder, start
from apps.table import APPS, App
from gdbrr.abi import lib
from gdbrr.demo.reader import Demo
from harness.run import Result, run

ALL = os.environ.get("GDBRR_APPS") == "all"


def chosen() -> list[str]:
    return [name for name, app in APPS.items() if ALL or (app.quick and not missing(app))]


@pytest.mark.limit(900)
@pytest.mark.parametrize("name", chosen())
def test_a_real_program_replays_alone(name: str, tmp_path: Path) -> None:
    app = APPS[name]
    lacking = missing(app)
    if lacking:
        pytest.skip(f"{lacking} is not installed: apt-get install {app.package}")
    demo, first, again = recorded_and_replayed(app, tmp_path / "full")
    if ALL:
        native = min((alone(app, tmp_path / f"alone-{i}") for i in range(3)), key=lambda result: result.seconds)
        figures = row(name, app, (native, first, again), demo, asked(app, demo))
        sparse = () if app.sets else ("-p", "sparse")
        size = recorded_and_replayed(app, tmp_path / "sparse", sparse)[0].stat().st_size if sparse else 0
        digests = state_compared(app, tmp_path / "digests", figures["operations"])
        page.note({**figures, "sparse_bytes": size, "digests": digests, "start_seconds": start_seconds()})


def alone(app: App, path: Path) -> Result:
    here = place(path)
    return start(app, prepare(app, here), here)


@functools.cache
def start_seconds() -> float:
    """What each recording takes for its start and its end."""
    return min(run(*GDBRR, "record", "-o", "/dev/null", "--save-on=never", "true").seconds for _ in range(5))


def state_compared(app: App, path: Path, operations: int) -> int:
    """How many digests of registers and memory a replay found equal: some thirty while the program has one thread. In
    order `parallel` dead stack may differ behind its threads, under another profile what it leaves out, and on another
    core what `cpuid` said, which SDL keeps."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        demo, *_ = recorded_and_replayed(app, path, ("--order", "serial", f"--digest={max(operations // 30, 1)}"))
    finally:
        os.sched_setaffinity(0, cores)
    with Demo.open(demo) as opened:
        found: int = sum(event.kind == lib.GR_OP_DIGEST for event in opened.events())
    assert found, "no digest was taken"
    return found


def place(path: Path) -> Path:
    path.mkdir()
    return path


def recorded_and_replayed(app: App, path: Path, sets: Sequence[str] = ()) -> tuple[Path, Result, Result]:
    here = place(path)
    words, demo = prepare(app, here), here / "x.demo"
    first = start(app, [*recorder(app, demo, sets), *words], here)
    assert demo.exists(), first.describe()
    again = run(*GDBRR, "replay", demo, limit=LIMIT)
    printed = again.out if "tmux" in app.needs else first.out  # there the replay itself compares every byte
    assert (again.status, again.out) == (first.status, printed), again.describe()
    return demo, first, again


def asked(app: App, demo: Path) -> tuple[str, float]:
    """What GDB answers, and how long that took with its start."""
    commands = [word for command in app.ask.commands for word in ("-ex", command)]
    done = run(*GDBRR, "debug", demo, "--", "-batch", "-ex", "set width 0", *commands, limit=LIMIT)
    found = re.findall(app.ask.answer, done.out)
    assert found and "rr-back:" not in done.err, done.describe()
    return found[-1].strip(), done.seconds


def row(
    name: str, app: App, runs: tuple[Result, Result, Result], demo: Path, answer: tuple[str, float]
) -> dict[str, Any]:
    native, first, again = runs
    info = json.loads(run(*GDBRR, "info", "--json", demo).expect(0).out)
    return {
        "name": name,
        "order": info["order"],
        "guess": info["order_guess"],
        "status": first.status,
        "operations": info["operations"],
        "threads": len(info["threads"]),
        "bytes": demo.stat().st_size,
        "native_seconds": round(native.seconds, 3),
        "record_seconds": round(first.seconds, 3),
        "replay_seconds": round(again.seconds, 3),
        "question": app.ask.question,
        "answer": answer[0],
        "answer_seconds": round(answer[1], 2),
    }


def test_the_page_has_every_program() -> None:
    text = page.PAGE.read_text()
    assert [name for name in APPS if f"| {name} |" not in text] == [], "make it again: make apps"


def test_a_row_says_what_was_measured() -> None:
    figures = {
        "name": "std::async", "order": "serial", "guess": "x has 7 atomic instructions of its own", "status": 0,
        "operations": 2457, "threads": 91, "bytes": 19_000, "sparse_bytes": 9_000, "native_seconds": 0.1,
        "record_seconds": 0.23, "replay_seconds": 0.15, "start_seconds": 0.08, "digests": 12,
        "question": "which part was summed last?", "answer": "7", "answer_seconds": 0.61,
    }  # fmt: skip
    (line,) = [line for line in page.text([figures]).splitlines() if line.startswith("| std::async")]
    measured = (
        "serial | 91 | 2,457 | 0.10 s | 0.23 s | 1.5\N{MULTIPLICATION SIGN} | 19.0 kB | 9.0 kB | 0.15 s | 12"
        " | which part was summed last? `7` | 0.6 s"
    )
    assert line == f"| std::async | {measured} |"
    assert "| curl | not tried: " in page.text([figures])
