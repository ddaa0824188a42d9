"""What several threads print at the same time appears on replay in the order in which it came out.

Runs in: pytest. May call: gdbrr record, gdbrr replay.
Owns: the row of docs/determinism.md that names it.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from calls.test_programs import GDBRR, build
from harness.run import run


def printed(to: str, demo: Path, out: Path) -> str:
    program = build("output_threads")
    if to == "pipe":
        return run(*GDBRR, "record", "-o", demo, program).expect(0).out
    with open(out, "wb") as file:
        subprocess.run([*GDBRR, "record", "-o", demo, program], stdout=file, stderr=subprocess.DEVNULL, check=True)
    return out.read_text()


@pytest.mark.parametrize("to", ["pipe", "file"])
def test_lines_of_several_threads_keep_their_order(to: str, tmp_path: Path) -> None:
    """Without the queue one recording of two shows another order on replay."""
    mixed = 0
    for number in range(4):
        demo = tmp_path / f"{number}.demo"
        first = printed(to, demo, tmp_path / "out")
        lines = first.splitlines()
        assert sorted(lines) == sorted(f"{name} {i}" for name in "abcd" for i in range(2000))
        mixed += [line[0] for line in lines] != sorted(line[0] for line in lines)
        assert run(*GDBRR, "replay", demo).expect(0).out == first
    assert mixed, "the threads ran one behind the other"


def test_a_signal_comes_to_whoever_waits_for_an_output_that_nobody_reads(tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    words = [*GDBRR, "record", "-o", demo, build("output_blocked")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as recording:
        assert recording.stdout and recording.stderr
        said = recording.stderr.readline()  # before anything was read from its output
        out = recording.stdout.read()
    assert said == b"-1 EINTR, handled 1\n" and recording.returncode == 0
    again = run(*GDBRR, "replay", demo).expect(0)
    assert (again.out.encode(), again.err.encode()) == (out, said)


@pytest.mark.parametrize("order", ["parallel", "serial"])
def test_what_goes_out_without_passing_the_program_is_shown(order: str, tmp_path: Path) -> None:
    """And the program sees what it sees without the engine."""
    program, demo = build("output_splice"), tmp_path / "x.demo"
    natively = run(program).expect(0)
    first = run(*GDBRR, "record", "--order", order, "-o", demo, program).expect(0)
    said = [line for line in first.err.splitlines() if not line.startswith("gdbrr: ")]
    assert said == natively.err.splitlines()
    assert len(first.out) == len(natively.out) > 240000
    for _ in range(2):
        again = run(*GDBRR, "replay", demo).expect(0)
        assert (again.out, again.err.splitlines()) == (first.out, said)
    # The control: it was not the same in both.
    assert first.out != natively.out


def written(path: Path, before: str, mode: str, *words: str | Path) -> bytes:
    """The file PATH, in which BEFORE stands, once the command has run with it as its output."""
    path.write_text(before)
    with open(path, mode) as file:
        file.seek(0, 2)
        subprocess.run(words, stdout=file, stderr=subprocess.DEVNULL, check=True)
    return path.read_bytes()


@pytest.mark.parametrize(("before", "mode"), [("", "r+b"), ("something\n", "r+b"), ("something\n", "ab")])
def test_an_output_with_places_is_the_same_file(before: str, mode: str, tmp_path: Path) -> None:
    program, demo = build("output_placed"), tmp_path / "x.demo"
    natively = written(tmp_path / "natively", before, mode, program)
    first = written(tmp_path / "first", before, mode, *GDBRR, "record", "-o", demo, program)
    assert len(first) == len(natively) and first != natively
    assert written(tmp_path / "again", before, mode, *GDBRR, "replay", demo) == first
    # What stands in front of it there may be something else.
    if mode == "r+b":
        other = written(tmp_path / "other", "longer than that\n", mode, *GDBRR, "replay", demo)
        assert other == b"longer than that\n" + first[len(before) :]
    # The control: in a pipe there are no places.
    piped = run(*GDBRR, "replay", demo).expect(0).out.encode()
    assert (piped == first[len(before) :]) == (mode == "ab")
