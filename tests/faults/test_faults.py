"""One round of each kind of fault, and that each check sees what it is there to see. `make faults` goes on for an hour.

Runs in: pytest. May call: the other files of this folder.
Owns: nothing.
"""

from __future__ import annotations

import dataclasses
import os
import random
import subprocess
from pathlib import Path

import pytest

from apps.starts import missing
from apps.table import APPS
from faults import behind, checks, page, rounds, subjects
from faults.during import FAULTS, Fault, recording
from faults.place import Ended, Lost, Place, a_place
from faults.subjects import Subject, every, subject

assert behind  # its faults are in the list
pytestmark = [pytest.mark.needs("gdb", "gdbserver"), pytest.mark.limit(300)]


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_a_fault_loses_nothing_and_leaves_nothing(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "OUT", tmp_path)
    report = rounds.Report(0)
    if not report.possible([fault]):
        return  # named in the report; which machine can do what is not what this test is about
    assert rounds.one(7, fault, report, "spine", "serial") == ""
    assert report.rounds() == 1 and not report.unfit, report.text()


def test_programs_that_are_of_use_are_found() -> None:
    assert {"spine", "sync_queue", "signal_nested"} <= set(every()) and "sync_deadlock" not in every()


def test_real_programs_are_drawn_and_races_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subjects, "every", lambda: ["turn_race", "spine", "xz"])
    drawn = {subjects.one_of(random.Random(seed)) for seed in range(200)}
    assert {("xz", "parallel"), ("spine", "random"), ("turn_race", "serial")} <= drawn
    assert ("turn_race", "parallel") not in drawn
    assert os.access(subjects.drawn("xz", "serial").words[0], os.X_OK)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("vim-terminal", marks=pytest.mark.needs("vim")),
        pytest.param("redis", marks=pytest.mark.needs("redis-server")),
        pytest.param("curl", marks=pytest.mark.needs("curl")),
    ],
)
def test_real_programs_have_their_company(name: str, place: Place) -> None:
    assert not missing(APPS[name])
    found = subject(name, "serial", place)
    assert isinstance(found, Subject), found
    assert found.says_all and found.status == 0
    place.end()
    assert not any(thread.is_alive() for thread in place.threads)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    private = tmp_path / "private"
    private.mkdir()
    return Place(private, tmp_path)


def spine(place: Place) -> Subject:
    found = subject("spine", "serial", place)
    assert isinstance(found, Subject)
    return found


def test_check_sees_a_demo_that_prints_something_else(place: Place) -> None:
    what = spine(place)
    demo, started = recording(place, what)
    out = started.wait().out
    assert checks.replays(place, what, demo, out) == "whole"
    with pytest.raises(Lost, match="no beginning of"):
        checks.replays(place, what, demo, b"x" + out)
    assert checks.replays(place, what, demo, out + b"x") == "up to where it ends"
    says_less = dataclasses.replace(what, says_all=False)
    assert checks.replays(place, says_less, demo, out + b"what a child of it printed") == "whole"


def test_check_sees_a_demo_that_was_changed(place: Place) -> None:
    what = spine(place)
    demo, started = recording(place, what)
    out, digest = started.wait().out, checks.digest_of(demo)
    checks.sound(place, what, demo, out, digest)
    os.truncate(demo, demo.stat().st_size // 2)
    with pytest.raises(Lost, match="was changed"):
        checks.sound(place, what, demo, out, digest)
    with pytest.raises(Lost, match="no longer replays"):
        checks.sound(place, what, demo, out, checks.digest_of(demo))


@pytest.mark.parametrize("said", ["", "Killed"])
def test_check_sees_that_nothing_is_said(place: Place, said: str) -> None:
    what = Subject("x", "serial", ("x",), 0, True, 0.0)
    with pytest.raises(Lost, match="no word about it"):
        checks.whole_or_said(place, what, place.kept / "none.demo", Ended(1, b"", said))
    assert checks.whole_or_said(place, what, place.kept / "none.demo", Ended(1, b"", "gdbrr: no room")).startswith(
        "said"
    )


def test_check_sees_a_traceback(place: Place) -> None:
    with pytest.raises(Lost, match="a traceback in place of a sentence"):
        place.run("sh", "-c", "echo 'Traceback (most recent call last):' >&2")


def test_check_sees_a_process_and_a_file_that_stay(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faults.place.PATIENCE", 0.0)
    (place.private / "gdbrr-1").write_text("")
    words = ["sh", "-c", "echo here; read line"]
    process = subprocess.Popen(words, env=place.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        # Popen returns in the middle of exec, when a process has neither words nor surroundings yet
        assert process.stdout and process.stdout.readline() == b"here\n"
        with pytest.raises(Lost, match=r"left behind: process .*read line.*gdbrr-1"):
            behind.left(place)
    finally:
        place.end()
        process.communicate()


def test_check_sees_what_a_session_must_not_say() -> None:
    behind.complain("Program stopped.")
    with pytest.raises(Lost):
        behind.complain("Python Exception <class 'KeyError'>")


def test_what_is_lost_is_in_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "OUT", tmp_path)

    def lose(place: Place, subject: Subject, rng: object) -> str:
        (place.kept / "evidence").write_text("")
        raise Lost("all of it")

    monkeypatch.setitem(FAULTS, "lose", Fault("lose", lose, lambda: ""))
    report = rounds.Report(0)
    assert "all of it" in rounds.one(1, "lose", report, "spine", "serial")
    assert "- seed 1, lose, spine, serial: all of it" in report.text() and (tmp_path / "lost-1" / "evidence").exists()
    made = page.text("# Limits\n<!-- made: faults -->\nold\n<!-- end -->\nrest\n", report)
    assert "1 rounds" in made and "lost in 1 of them" in made and "old" not in made and made.endswith("rest\n")
    assert page.BEGIN in page.PAGE.read_text()
    report.write()
    assert (tmp_path / "report.json").exists()
    with a_place(tmp_path / "kept") as place:
        private = place.private
    assert not private.exists()
