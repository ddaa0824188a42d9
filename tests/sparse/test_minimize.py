"""`gdbrr minimize`: what a symptom needs of a demo is found to the byte, and the rest is zero.

Runs in: pytest. May call: gdbrr record, replay, minimize, info; gdb.
Owns: the row of docs/determinism.md that names it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gdbrr.abi import lib
from gdbrr.demo.reader import Demo
from gdbrr.sparse import payload, symptom, tour
from gdbrr.sparse.minimize import Minimizer
from harness import programs
from harness.run import Result, gdbrr

NEEDLE = b"BUG~"
LETTER = NEEDLE[3]
SIZE, PLACE = 1000, 528
CRASHED = 128 + signal.SIGSEGV


def recorded(tmp_path: Path, *words: str, sets: tuple[str, ...] = (), status: int = CRASHED) -> Path:
    """A demo of the program, killed by what stands at PLACE of its input: in its sixth call of read."""
    data = bytearray(65 + at * 7 % 26 for at in range(SIZE))
    data[PLACE : PLACE + len(NEEDLE)] = NEEDLE
    (tmp_path / "input").write_bytes(data)
    demo = tmp_path / "needle.demo"
    program = programs.build("sparse_needle")
    gdbrr("record", *sets, "-o", demo, "--", program, tmp_path / "input", *words).expect(status)
    return demo


def found(result: Result) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(result.expect(0).out)
    return report


def things(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {Path(row["name"]).name: row for row in report["things"]}


def test_the_bytes_of_a_crash_are_found(tmp_path: Path) -> None:
    demo = recorded(tmp_path)
    report = found(gdbrr("minimize", demo, "--keep", "crash", "--json"))
    assert report["complete"]
    rows = things(report)
    (needed,) = rows["input"]["needed"]
    assert (bytes.fromhex(needed["data"]), needed["offset"], needed["call"]) == (NEEDLE, PLACE % 100, "read")
    assert rows["input"]["needed_bytes"] == len(NEEDLE)
    assert rows["clock_gettime"]["needed_bytes"] == 0
    assert rows["clock_gettime"]["payload_bytes"] == 16 * SIZE // 100


def test_the_new_demo_holds_them_and_nothing_else(tmp_path: Path) -> None:
    demo = recorded(tmp_path)
    text = gdbrr("minimize", demo, "--keep", "crash").expect(0).out
    assert 'read  bytes 28 to 31  "BUG~"' in text
    small = tmp_path / "needle-min.demo"
    gdbrr("replay", small).expect(CRASHED)
    assert "minimised  to the same crash, SIGSEGV" in gdbrr("info", small).expect(0).out
    with Demo.open(demo) as before, Demo.open(small) as after:
        assert after.ticks == before.ticks
        assert [(e.kind, e.nr, e.result, len(e.data)) for e in before.events()] == [
            (e.kind, e.nr, e.result, len(e.data)) for e in after.events()
        ]
        left = b"".join(payload.read(after, span) for call in payload.calls(after, {}) for span in call.payload)
        assert left.strip(b"\0") == NEEDLE
        reads = [e.data for e in after.events() if e.kind == lib.GR_OP_SYS_END and NEEDLE in e.data]
        assert len(reads) == 1


def test_of_output_the_word_is_needed_and_of_times_the_last_bits(tmp_path: Path) -> None:
    demo = recorded(tmp_path, "print")
    report = found(gdbrr("minimize", demo, "--keep", "output", "--json"))
    assert report["complete"]
    rows = things(report)
    assert bytes.fromhex("".join(part["data"] for part in rows["input"]["needed"])) == NEEDLE
    # tv_nsec is behind 8 bytes of tv_sec: of an odd one its lowest byte, if it is needed at all.
    offsets = {at for part in rows["clock_gettime"]["needed"] for at in range(part["offset"], part["offset"] + 1)}
    assert offsets <= {8}


def test_control_other_bytes_are_not_the_same_crash(tmp_path: Path) -> None:
    demo = recorded(tmp_path)
    with Demo.open(demo) as source:
        sought = symptom.of(source, "crash", trust=False, limit=0)
        calls = [call for call in payload.calls(source, tour.look(source, trust=False)) if call.payload]
        spans = [span for call in calls for span in call.payload if NEEDLE in payload.read(source, span)]
        (span,) = spans
        at = payload.read(source, span).index(NEEDLE)
        other = tmp_path / "other.demo"
        for instead, shown in ((NEEDLE, True), (b"BUG}", False), (b"BAG~", False)):
            payload.rewrite(source, other, [(span.part(at, at + 4), instead)])
            with Demo.open(other) as altered:
                assert sought.shows(altered) is shown


@pytest.mark.needs("gdb", "gdbserver")
def test_the_value_of_an_expression_is_kept(tmp_path: Path) -> None:
    demo = recorded(tmp_path)
    text = gdbrr("minimize", demo, "--keep", "letter", "--tries", "6", limit=120).expect(0).out
    assert f"kept was letter = {LETTER} at its end; 6 replays" in text
    assert "as far as was tried" in text
    refused = gdbrr("minimize", demo, "--keep", "no_such_name").expect(1)
    assert 'No symbol "no_such_name"' in refused.err


def test_what_is_large_and_needed_does_not_use_up_the_trials(tmp_path: Path) -> None:
    """Parts of a class are tried behind all classes: the times are found to be free however long the file takes."""
    demo = recorded(tmp_path)
    report = found(gdbrr("minimize", demo, "--keep", "crash", "--tries", "3", "--json"))
    rows = things(report)
    assert not report["complete"]
    assert rows["input"]["needed_bytes"] > 0
    assert rows["clock_gettime"]["needed_bytes"] == 0


def test_what_was_not_tried_counts_as_needed(tmp_path: Path) -> None:
    demo = recorded(tmp_path)
    report = found(gdbrr("minimize", demo, "--keep", "crash", "--tries", "1", "--json"))
    assert not report["complete"]
    assert all(row["needed_bytes"] == row["payload_bytes"] for row in report["things"])


def test_ctrl_c_leaves_the_best_found(tmp_path: Path) -> None:
    demo = recorded(tmp_path)
    with Demo.open(demo) as source:
        minimizer = Minimizer(source, symptom.of(source, "crash", trust=False, limit=0), trust=False)

        def stop(tries: int, left: int, total: int) -> None:
            minimizer.stopped = left < total

        result = minimizer.run(tmp_path / "small.demo", stop)
    assert not result.whole
    assert 0 < sum(need.needed_bytes for need in result.needs) < sum(need.size for need in result.needs)
    gdbrr("replay", tmp_path / "small.demo").expect(CRASHED)


def test_the_command_takes_ctrl_c(tmp_path: Path) -> None:
    """It may come when nothing was found yet, or when everything was: there is a demo in any case."""
    demo = recorded(tmp_path, "print")
    words = [sys.executable, "-m", "gdbrr", "minimize", demo, "--keep", "output", "--tries", "100000"]
    place = tmp_path / "scratch"
    place.mkdir()
    env = {**os.environ, "TMPDIR": str(place)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as process:
        while process.poll() is None and not list(place.glob("*/trial.demo")):
            os.sched_yield()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert b"gdbrr debug" in out
    gdbrr("replay", tmp_path / "needle-min.demo").expect(CRASHED)


def test_what_cannot_be_asked_is_refused(tmp_path: Path) -> None:
    demo = recorded(tmp_path, sets=("--digest=5",))
    assert "was recorded with --digest" in gdbrr("minimize", demo, "--keep", "crash").expect(1).err
    clean = tmp_path / "clean.demo"
    gdbrr("record", "-o", clean, "--", "/bin/true").expect(0)
    assert "was not killed by a signal" in gdbrr("minimize", clean, "--keep", "crash").expect(1).err
    assert "is the demo itself" in gdbrr("minimize", clean, "--keep", "output", "-o", clean).expect(1).err
    assert "--tries none is no number" in gdbrr("minimize", clean, "--keep", "output", "--tries", "none").expect(2).err
    assert "--limit soon is no number" in gdbrr("minimize", clean, "--keep", "output", "--limit", "soon").expect(2).err
    demo.write_bytes(demo.read_bytes()[: demo.stat().st_size * 3 // 4])
    assert "is damaged" in gdbrr("minimize", demo, "--keep", "crash").expect(1).err


def test_contents_are_outputs_and_stores() -> None:
    stores = payload.STORE.pack(0x1000, 5, 0, 0) + b"abcde\0\0\0" + payload.STORE.pack(0x2000, 4096, 1, 0)
    stores += payload.STORE.pack(0, 2, 8, 1) + b"xy\0\0\0\0\0\0"
    data = b"\3\0\0\0one" + b"\0\0\0\0" + b"\3\0\0\0two" + len(stores).to_bytes(4, "little") + stores
    assert [data[a:b] for a, b in payload.contents(data, len(stores))] == [b"one", b"two", b"abcde"]
    assert list(payload.contents(b"\xff\0\0\0short", 0)) == []  # a demo that lies
