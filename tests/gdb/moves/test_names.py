"""The names that threads give themselves, in a replay: GDB shows what the kernel says, of processes that are copies."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import programs

from ..session import recorded, whole

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")

SCRIPT = """
import gdb

def names():
    for thread in gdb.selected_inferior().threads():
        thread.switch()
        print("NAME", thread.name, "/", gdb.parse_and_eval("called").string())
"""


def test_threads_have_the_names_that_they_gave_themselves(tmp_path: Path) -> None:
    """At ticks all over the demo, so from checkpoints that each of the threads has made; there and back again."""
    program, script = programs.build("thread_names"), tmp_path / "names.py"
    demo = recorded(program, tmp_path, "--order", "random", "--seed", "3")
    script.write_text(SCRIPT)
    ways = [f"rr-goto {percent}%" for percent in (*range(95, 10, -5), *range(20, 95, 25))]
    commands = [each for way in ways for each in (way, "python names()")]
    out = whole(program, f"rr-replay {demo}", f"source {script}", *commands, "rr-goto start", "python names()")
    pairs = re.findall(r"^NAME (.*) / (.*)$", out, re.MULTILINE)
    # The one that says nothing has the name of who made it; so has one that has not come so far yet.
    assert {(name, called or "chief") for name, called in pairs[:-1]} == {
        (name, name) for name in ("chief", "reader", "writer", "reader, much ol", "writer, much ol")
    }, out
    assert pairs[-1] == ("thread_names", ""), out
