"""`gdbrr suggest`: the smallest profile that replays is found by trying; what only seems to be free is not left out.

Runs in: pytest. May call: gdbrr suggest, record, replay.
Owns: the row of docs/determinism.md that names it.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gdbrr.config import profiles
from gdbrr.demo.reader import Demo
from gdbrr.errors import GdbrrError
from gdbrr.launch import engine, record
from gdbrr.sparse import candidates, suggest, trial, written
from gdbrr.sparse.payload import Call, Span
from gdbrr.sparse.tour import Thing
from harness import ROOT, programs
from harness.run import Result, gdbrr, run

INTERRUPTED = 128 + signal.SIGINT


def suggested(tmp_path: Path, *words: str) -> tuple[Result, dict[str, object]]:
    """What it printed, and every value of the profile that is not a default."""
    (tmp_path / "input").write_bytes(bytes(at * 7 % 251 for at in range(60_000)))
    out = tmp_path / "found.toml"
    result = gdbrr("suggest", "-o", out, "--", programs.build("sparse_uses"), tmp_path / "input", *words).expect(0)
    return result, values_of(out)


def values_of(profile: Path) -> dict[str, object]:
    values = profiles.resolve(str(profile), None, ()).values
    return {key: value.value for key, value in values.items() if value.origin != "default"}


def test_what_no_output_depends_on_is_left_out(tmp_path: Path) -> None:
    result, values = suggested(tmp_path)
    assert values == {"classes.file": "native", "classes.time": "ignore"}
    assert f"gdbrr record -p {tmp_path}/found.toml -- " in result.out
    demo, program = tmp_path / "x.demo", programs.build("sparse_uses")
    first = gdbrr("record", "-p", tmp_path / "found.toml", "-o", demo, "--", program, tmp_path / "input").expect(0)
    assert gdbrr("replay", demo).expect(0).out == first.out
    assert demo.stat().st_size < 20_000 < (tmp_path / "input").stat().st_size


def test_control_a_day_that_is_printed_is_needed_though_it_is_the_same_today(tmp_path: Path) -> None:
    """Ignored, the clocks of the replay show the same day, so that trying alone would not tell."""
    demo, program = tmp_path / "x.demo", programs.build("sparse_uses")
    result, values = suggested(tmp_path, "day")
    gdbrr("record", "--set", "time=ignore", "-o", demo, "--", program, tmp_path / "input", "day").expect(0)
    gdbrr("replay", demo).expect(0)
    assert values == {"classes.file": "native"}
    assert "what it does depends on the time" in result.out


def test_control_a_number_that_is_printed_is_needed(tmp_path: Path) -> None:
    result, values = suggested(tmp_path, "pid")
    assert values == {"classes.file": "native", "classes.time": "ignore"}
    assert "record: the program wrote other output than recorded" in result.out
    assert "its output differs from run to run" in result.out


def test_what_the_kernel_makes_up_stays_recorded(tmp_path: Path) -> None:
    _, values = suggested(tmp_path, "proc")
    assert (values["classes.file"], values["paths./proc/**"]) == ("native", "record")


def test_a_file_that_the_next_run_changes_stays_recorded(tmp_path: Path) -> None:
    _, values = suggested(tmp_path, "state")
    assert values[f"paths.{tmp_path}/input"] == "native"
    assert not [key for key in values if key.startswith("paths.") and "state" in key]
    assert "classes.file" not in values


def test_what_it_reads_from_its_input(tmp_path: Path) -> None:
    """It stays recorded: a replay has another standard input, or none."""
    words, out = tmp_path / "words", tmp_path / "found.toml"
    words.write_text("".join(f"{at * 7919 % 5003}\n" for at in range(5000)))
    result = gdbrr("suggest", "--input", words, "-o", out, "--", "/usr/bin/sort", "-n").expect(0)
    assert "standard input" in result.out and f"/usr/bin/sort -n <{words}\n" in result.out
    record = [sys.executable, "-m", "gdbrr", "record", "-p", out, "-o", tmp_path / "x.demo", "/usr/bin/sort", "-n"]
    first = run(*record, stdin=words.read_bytes(), env={"PYTHONPATH": str(ROOT)}).expect(0)
    assert gdbrr("replay", tmp_path / "x.demo").expect(0).out == first.out
    assert "none cannot be read" in gdbrr("suggest", "--input", "none", "/bin/true", cwd=tmp_path).expect(1).err


def test_who_serves_is_asked_and_then_ended(tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(bytes(at * 7 % 251 for at in range(60_000)))
    program, out = programs.build("serves"), tmp_path / "found.toml"
    client = f"{program} s ask input && {program} s ask input"
    server = ("-o", out, "--", program, "s")
    result = gdbrr("suggest", "--client", client, "--stop", "int", *server, cwd=tmp_path).expect(0)
    assert values_of(out) == {"classes.file": "native"}
    assert "differs from run to run" not in result.out, "each run has answered both"
    for words, why in (
        (("--client", "exit 3", "--limit", "2"), ", and the program did not end within 2 s: exit 3"),
        (("--client", "sleep 600", "--limit", "2"), "the client has not ended, and the program did not end"),
        (("--stop", "INT"), "there is none"),
        (("--client", client, "--stop", "WHAT"), "--stop WHAT is no signal"),
    ):
        assert why in gdbrr("suggest", *words, "-o", "other.toml", "--", program, "s", cwd=tmp_path).err
    assert not list(Path("/proc").glob("[0-9]*/cwd/found.toml")), "a client or a server is left"


def test_control_who_ends_before_it_was_asked_says_nothing(tmp_path: Path) -> None:
    done = gdbrr("suggest", "--client", "exit 1", "-o", "x.toml", "--", "/bin/sleep", "1.3", cwd=tmp_path).expect(1)
    assert ", and the program ended with status 0: exit 1" in done.err


def test_runs_that_end_differently_are_told(tmp_path: Path) -> None:
    (tmp_path / "count").write_text("")
    script = "read line < count; n=$(wc -c < count); printf x >> count; exit $((n % 2))"
    result = gdbrr("suggest", "-o", "x.toml", "--", "/bin/sh", "-c", script, cwd=tmp_path).expect(0)
    assert "its runs end differently: exit status 0 (" in result.out


def test_ctrl_c_leaves_the_best_found(tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(bytes(60_000))
    out = tmp_path / "found.toml"
    program = programs.build("sparse_uses")
    words = [sys.executable, "-m", "gdbrr", "suggest", "-o", out, "--", program, tmp_path / "input", "pid"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr
        for line in process.stderr:
            if b"class time" in line:
                process.send_signal(signal.SIGINT)
                break
        text, _ = process.communicate(timeout=60)
    assert process.returncode == INTERRUPTED
    assert b"note: interrupted" in text
    assert values_of(out).get("classes.file") == "native"


def test_what_cannot_be_run_again_and_again_is_refused(tmp_path: Path) -> None:
    slow = gdbrr("suggest", "--limit", "0.3", "--", "/bin/sleep", "20", cwd=tmp_path).expect(1)
    assert "the program did not end within 0.3 s" in slow.err
    assert "no program is named" in gdbrr("suggest", cwd=tmp_path).expect(2).err
    (tmp_path / "true.toml").write_text("# mine\n")
    assert "is there already" in gdbrr("suggest", "/bin/true", cwd=tmp_path).expect(1).err
    assert (
        "for finding bugs"
        in gdbrr("suggest", "--order", "pct", "-o", "x.toml", "/bin/true", cwd=tmp_path).expect(1).err
    )
    assert [path.name for path in tmp_path.iterdir()] == ["true.toml"]


# ---------------------------------------------------------------- the search by itself
class World:
    """A program whose replays are good as long as none of NEEDED is left out."""

    def __init__(self, tmp_path: Path, *needed: str, order: str = "parallel") -> None:
        self.needed = needed
        self.order = order
        profile = profiles.resolve("default", None, ())
        demo = tmp_path / "trial.demo"
        gdbrr("record", "-o", demo, "--", "/bin/true").expect(0)
        request = record.Request(["/bin/true"], dict(os.environ), "/", profile, engine.find())
        self.search = suggest.Search(request, tmp_path, lambda text: None)
        self.tried: list[dict[str, object]] = []

    def attempt(self, _request: object, profile: profiles.Profile, *_how: object) -> trial.Verdict:
        left_out = {key: value.value for key, value in profile.values.items() if value.origin == "suggest"}
        self.tried.append(left_out)
        good = not [key for key in self.needed if left_out.get(key, "record") != "record"]
        good = good and profile.values["order"].value == self.order
        return trial.Verdict(
            trial.Run(0, b"", 1.0, 1.0, 100, 100_000 - len(left_out)), good, "" if good else "it differs"
        )


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    rows = [
        ("file", "/usr/lib/a", "read", 50_000), ("file", "/usr/lib/b", "read", 40_000),
        ("file", "/etc/c", "read", 9_000), ("random", "getrandom", "getrandom", 5_000),
        ("proc", "getpid", "getpid", 4_000), ("proc", "getppid", "getppid", 2_000), ("net", "a socket", "read", 90_000),
    ]  # fmt: skip
    found = [Call(at, 0, Thing(*row[:3]), 0, row[3], (Span(1, 0, 1),)) for at, row in enumerate(rows)]
    monkeypatch.setattr(suggest.payload, "calls", lambda demo, arguments: iter(found))
    monkeypatch.setattr(suggest.tour, "look", lambda demo, trust: {})
    monkeypatch.setattr(trial, "native", lambda argv, limit, company: trial.Run(0, b"", 1.0, 1.0))
    monkeypatch.setattr(trial, "replay", lambda path, run: "")
    return found


def found_in(world: World, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(trial, "attempt", world.attempt)
    found = world.search.run()
    return {key: value.value for key, value in found.profile.values.items() if value.origin == "suggest"}


@pytest.mark.usefixtures("calls")
def test_everything_that_has_a_choice_is_left_out_costliest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    assert found_in(world, monkeypatch) == {
        "classes.file": "native", "classes.proc": "native", "classes.random": "ignore",
    }  # fmt: skip
    fresh = [set(now) - set(before) for before, now in itertools.pairwise(world.tried[:4])]
    assert fresh == [{"classes.file"}, {"classes.proc"}, {"classes.random"}]


@pytest.mark.usefixtures("calls")
def test_a_class_that_is_needed_is_cut_into_its_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, "classes.file", "paths./usr/**", "paths./usr/lib/a", "classes.proc", "calls.getppid")
    assert found_in(world, monkeypatch) == {
        "paths./usr/lib/b": "native", "paths./etc/**": "native", "calls.getpid": "native", "classes.random": "ignore",
    }  # fmt: skip


@pytest.mark.usefixtures("calls")
def test_threads_that_race_get_an_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, order="serial")
    assert found_in(world, monkeypatch)["order"] == "serial"
    with pytest.raises(GdbrrError, match="even recorded in full"):
        found_in(World(tmp_path, order="nothing helps"), monkeypatch)


@pytest.mark.usefixtures("calls")
def test_what_does_not_hold_in_the_end_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo of an earlier run stops replaying when the program has run again: only seen behind the search."""
    world = World(tmp_path)

    def replay(path: Path, run: trial.Run) -> str:
        return "its file is another one" if path.name == "earlier.demo" and "classes.random" in world.tried[-1] else ""

    monkeypatch.setattr(trial, "replay", replay)
    assert found_in(world, monkeypatch) == {"classes.file": "native", "classes.proc": "native"}


def test_a_profile_says_in_its_file_what_it_said(tmp_path: Path) -> None:
    sets = ("order=serial", "seed=7", "limits.log=512M", "engine.patch=off", "file=native", "calls.getpid=ignore")
    profile = profiles.resolve("default", None, sets)
    rules = {'paths./odd "name"/\u00e4\\**': "ignore", "descriptors.random": "native", "paths./proc/**": "record"}
    values = {**profile.values, **{key: profiles.Value(mode, "suggest") for key, mode in rules.items()}}
    path = tmp_path / "x.toml"
    written.write(path, profile._replace(values=values), ["for this test"])
    assert path.read_text().startswith("# for this test\n\norder = ")
    with pytest.raises(GdbrrError, match="cannot be written"):
        written.write(tmp_path / "no" / "x.toml", profile, [])


def test_devices_are_told_by_their_kind() -> None:
    assert (candidates._kind_of("/dev/null"), candidates._kind_of("/dev/urandom")) == ("null", "random")
    assert candidates._kind_of("/etc/passwd") == candidates._kind_of("/no/such/file") == ""


def test_a_demo_names_what_its_calls_were_about(tmp_path: Path) -> None:
    from gdbrr.sparse import payload, tour

    demo = tmp_path / "x.demo"
    gdbrr("record", "-o", demo, "--", "/bin/sh", "-c", "cd /usr; exec 3< /etc/passwd 4<&3; read a <&4", cwd=tmp_path)
    with Demo.open(demo) as source:
        found = {(call.thing.call, call.thing.name) for call in payload.calls(source, tour.look(source, trust=False))}
    assert ("read", "/etc/passwd") in found
    assert ("chdir", "/usr") in found
