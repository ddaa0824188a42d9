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
