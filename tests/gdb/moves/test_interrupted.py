"""Ctrl-C in a run forwards through many operations, and the end of such a run."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from harness import ROOT, programs
from harness.run import gdbrr

from ..session import whole

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")


class Front:
    """GDB's machine interface, as a front end speaks it."""

    def __init__(self, program: Path, demo: Path) -> None:
        begin = ("set debuginfod enabled off", f"source {ROOT / 'gdbinit.py'}")
        words = [word for line in begin for word in ("-iex", line)]
        self.gdb = subprocess.Popen(
            ["gdb", "-nx", "-q", "-i", "mi3", *words, program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self.console(f"rr-replay --start {demo}")

    def send(self, command: str) -> None:
        assert self.gdb.stdin
        self.gdb.stdin.write(f"{command}\n")
        self.gdb.stdin.flush()

    def until(self, *begins: str) -> str:
        assert self.gdb.stdout
        said = []
        for line in self.gdb.stdout:
            said.append(line)
            if line.startswith(begins):
                break
        return "".join(said)

    def console(self, command: str) -> str:
        self.send(f'-interpreter-exec console "{command}"\n7-list-features')
        return self.until("7^")


def test_ctrl_c_meets_the_program(tmp_path: Path) -> None:
    """INVARIANT(no-moment-in-the-engine): a program that makes call after call is in there most of the time."""
    program, demo = programs.build("many_calls", ["-pthread"]), tmp_path / "x.demo"
    gdbrr("record", "--set", "engine.patch=off", "-o", demo, "--", program).expect(0)
    front = Front(program, demo)
    with front.gdb as gdb:
        stops = []
        for percent in range(10, 90, 5):
            front.console(f"rr-goto {percent}%")
            front.send("-exec-continue")
            front.until("*running")
            gdb.send_signal(signal.SIGINT)
            stops.append(front.until("*stopped").splitlines()[-1])
            when = front.console("rr-when")
            assert "libgdbrr" not in stops[-1] + when and '~"tick ' in when, stops[-1] + when
        front.send("-gdb-exit")
    assert sum('signal-name="SIGINT"' in stop for stop in stops) > len(stops) // 2, stops


def test_who_goes_on_to_the_end_has_come_there(tmp_path: Path) -> None:
    """The process that ran there stays; there is nothing to be replayed up to where it stood."""
    program, demo = programs.build("scenes", ["-O0"]), tmp_path / "x.demo"
    gdbrr("record", "-o", demo, "--", program, "threads").expect(0)
    out = whole(program, f"rr-replay {demo}", "rr-goto start", *["continue", "info gdbrr", "stepi", "info gdbrr"] * 2)
    moments = re.findall(r"^tick (\d+) of (\d+) \(100%\)", out, re.MULTILINE)
    assert len(moments) > 3 and all(now == last for now, last in moments), out
    assert out.count("No more reverse-execution history") == 4, out
    assert len(set(re.findall(r"^leaf: +(\d+)$", out, re.MULTILINE))) == 1, out


def test_ctrl_c_meets_no_round_of_a_repeated_instruction(tmp_path: Path) -> None:
    """In the middle of one there are no moments, and no way back from there."""
    program, demo = programs.build("repeats_long"), tmp_path / "x.demo"
    gdbrr("record", "-o", demo, "--", program).expect(0)
    front = Front(program, demo)
    with front.gdb as gdb:
        front.console("break main")
        front.console("continue")
        for _ in range(3):
            front.send("-exec-continue")
            front.until("*running")
            time.sleep(0.2)  # into the loop; what is asked for holds everywhere
            gdb.send_signal(signal.SIGINT)
            stop = front.until("*stopped").splitlines()[-1]
            when = front.console("rr-when")
            assert 'signal-name="SIGINT"' in stop and '~"tick ' in when and "approximate" not in when, stop + when
            back = front.console("reverse-stepi")
            assert '~"tick ' in front.console("rr-when") and "^error" not in back, back
        front.send("-gdb-exit")
