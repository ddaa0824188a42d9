"""Steps back of a thread that the user has selected, while another one is where time stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import ROOT, programs
from harness.run import gdbrr, run

from ..session import whole

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")

SCRIPT = """
import gdb

def here():
    frame = gdb.newest_frame()
    return gdb.selected_thread().ptid[1], frame.pc(), int(frame.read_register("rsp"))

def each(back, moment):
    gdb.execute(f"rr-goto {moment}", to_string=True)
    for one in [thread.ptid for thread in gdb.selected_inferior().threads()]:
        gdb.execute(f"rr-goto {moment}", to_string=True)
        next(thread for thread in gdb.selected_inferior().threads() if thread.ptid == one).switch()
        before = here()
        said = gdb.execute(back, to_string=True)
        again = here()
        ended = "No more reverse-execution" in said
        if not ended:
            gdb.execute("rr-when", to_string=True)
            gdb.execute("stepi", to_string=True)
        print("EACH", before[0] == again[0], "received signal" in said, ended or here() == before, ended)
"""


def test_the_selected_thread_steps_back(tmp_path: Path) -> None:
    """GDB (13.1) does not say in its packet which one that is. A step forwards leads to where the thread stood."""
    program, demo, script = programs.build("scenes", ["-O0"]), tmp_path / "x.demo", tmp_path / "each.py"
    gdbrr("record", "--set", "epoch_ticks=16", "-o", demo, "--", program, "threads").expect(0)
    script.write_text(SCRIPT)
    moments = [f"{percent}%" for percent in range(20, 100, 10)]
    moves = [f"python each('reverse-stepi', '{moment}')" for moment in moments]
    out = whole(program, f"rr-replay {demo}", f"source {script}", *moves)
    rows = re.findall(r"^EACH (\w+) (\w+) (\w+) (\w+)$", out, re.MULTILINE)
    assert len(rows) > len(moments) and {row[:3] for row in rows} == {("True", "False", "True")}, out
    assert "False" in [row[3] for row in rows], out


def test_a_hook_of_the_users_own_stays(tmp_path: Path) -> None:
    script = tmp_path / "own.gdb"
    script.write_text("define hook-reverse-stepi\necho own\nend\n")
    shown = [word for step in ("step", "stepi") for word in ("-ex", f"show user hook-reverse-{step}")]
    out = run("gdb", "-nx", "-batch", "-x", script, "-x", ROOT / "gdbinit.py", *shown, limit=60).expect(0).out
    assert out.count("gdbrr-thread") == 1 and out.count("echo own") == 1, out
