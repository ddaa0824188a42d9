"""Sessions on many kinds of program: what GDB sees forwards, it has to see again on its way back."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from harness import ROOT, programs
from harness.run import gdbrr, run
from harness.said import NO_MORE

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")

ORACLE = Path(__file__).with_name("oracle.py")
PIE_BASE = 0x555555554000
KINDS = {
    "pie": ("-O0",),
    "fixed": ("-O0", "-no-pie", "-Wl,-z,now"),
    "optimised": ("-O2",),
    "stripped": ("-O2", "-no-pie", "-s", "-Wl,-z,now"),
}
SCENES = {
    **dict.fromkeys(("plain", "threads", "crash", "crash_in_thread", "deadlock", "signals"), 0),
    **dict.fromkeys(("from_kernel", "recursion", "tail_calls", "jumps", "strings"), 0),
}
CASES = [(scene, kind) for kind in KINDS for scene in (*SCENES, "cxx")]
LONG = int(os.environ.get("GDBRR_WANDER", "0"))
"""Steps of the long walk, which `make wander` asks for."""


@dataclass(frozen=True)
class Case:
    program: Path
    here: str
    value: str


@cache
def built(scene: str, kind: str) -> Case:
    name = "scenes_cxx" if scene == "cxx" else "scenes"
    flags = [flag for flag in KINDS[kind] if flag != "-s"]
    whole = programs.build(name, flags)
    symbols = subprocess.run(["nm", whole], capture_output=True, text=True, check=True).stdout
    places = {label: int(addr, 16) for addr, label in re.findall(r"^(\w+) \w (\w+)$", symbols, re.MULTILINE)}
    base = 0 if "-no-pie" in flags else PIE_BASE
    # Other flags make another program: what is stripped is compiled in the same way, so it lies in the same places.
    program = programs.build(name, [*flags, "-s"]) if "-s" in KINDS[kind] else whole
    return Case(program, f"*{base + places['here']:#x}", f"{base + places['value']:#x}")


def played(case: Case, demo: Path, *calls: str, mi: bool = False) -> str:
    words = ["gdb", "-nx", "-batch"]
    for command in (
        *("set pagination off", "set confirm off", "set width 0", "set debuginfod enabled off"),
        *(f"source {ROOT / 'gdbinit.py'}", f"file {case.program}", f"rr-replay {demo}", f"source {ORACLE}"),
        *(f"python {call}" for call in calls),
    ):
        words += ["-ex", command]
    environment = {**os.environ, "ORACLE_HERE": case.here, "ORACLE_VALUE": case.value}
    return run("sh", "-c", 'exec "$@" 2>&1', "sh", *words, limit=100 + LONG, env=environment).out


def recorded(case: Case, scene: str, demo: Path) -> None:
    arguments = [] if scene == "cxx" else [scene]
    gdbrr("record", "--set", "epoch_ticks=16", "-o", demo, "--", case.program, *arguments)
    assert demo.exists()


@pytest.mark.parametrize(("scene", "kind"), CASES)
def test_backwards_is_forwards(scene: str, kind: str, tmp_path: Path) -> None:
    case, demo = built(scene, kind), tmp_path / "x.demo"
    recorded(case, scene, demo)
    # Without symbols GDB's steps through the loader's lazy binding are more than the one step back that they are.
    steps = [] if kind == "stripped" else ["steps(moments[len(moments) // 2], 12)"]
    quiet = "gdb.execute('handle SIGUSR1 nostop noprint', to_string=True)"
    out = played(case, demo, quiet, "moments, _ = breakpoints(8)", *steps, "watchpoints(6)")
    kept = re.findall(r"^ORACLE: (breakpoint|stepi from|watchpoint).*: (\d+) stops are the same$", out, re.MULTILINE)
    assert [name for name, _ in kept] == ["breakpoint", *["stepi from"] * len(steps), "watchpoint"], out
    assert all(int(count) > 1 for _, count in kept), out


@pytest.mark.limit(120 + LONG)
@pytest.mark.parametrize("scene", ["threads", "recursion", "signals", "cxx"])
def test_random_commands_show_every_moment_as_it_was(scene: str, tmp_path: Path) -> None:
    case, demo = built(scene, "pie"), tmp_path / "x.demo"
    recorded(case, scene, demo)
    steps = LONG or 30
    out = played(case, demo, f"wander({len(scene)}, {steps})")
    assert re.search(rf"^ORACLE: wandered {steps} steps", out, re.MULTILINE), out


def test_an_operation_inside_the_allocator_is_one_step(tmp_path: Path) -> None:
    case, demo = built("cxx", "pie"), tmp_path / "x.demo"
    recorded(case, "cxx", demo)
    rows = re.findall(r"^ *(\d+) +([1-9]\d*) +(\w+)", gdbrr("events", demo).out, re.MULTILINE)
    # Of several with nothing of the program between them, which are one step, the way back shows the last, whatever
    # other threads did in the meantime.
    pairs = itertools.pairwise(sorted(rows, key=lambda row: row[1]))
    ticks = [tick for (tick, _, kind), (_, _, after) in pairs if kind == "heap" != after]
    assert ticks
    # The allocator calls it, not the program: with the first step one is back in the program, which goes on as it did.
    out = played(case, demo, *(f"steps({tick}, 8)" for tick in ticks))
    same = re.findall(r"^ORACLE: stepi from (\d+): [5-9] stops are the same$", out, re.MULTILINE)
    assert same == ticks, out


def test_two_gdbs_on_one_demo(tmp_path: Path) -> None:
    case, demo = built("threads", "pie"), tmp_path / "x.demo"
    recorded(case, "threads", demo)
    words = ["gdb", "-nx", "-batch"]
    for command in (
        *(f"source {ROOT / 'gdbinit.py'}", f"file {case.program}", f"rr-replay {demo}", f"break {case.here}"),
        *("reverse-continue", "rr-when", "shell sleep 3", "reverse-continue", "rr-when"),
    ):
        words += ["-ex", command]
    other = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    out = played(case, demo, "breakpoints(8)", "watchpoints(6)")
    theirs, _ = other.communicate(timeout=100)
    assert out.count("stops are the same") == 2, out
    ticks = [int(tick) for tick in re.findall(r"^tick (\d+)", theirs, re.MULTILINE)]
    assert len(ticks) == 3 and ticks[0] > ticks[1] > ticks[2], theirs


MI = """\
-gdb-set mi-async off
-interpreter-exec console "rr-replay {demo}"
-break-insert {here}
-exec-continue --reverse
-exec-step-instruction
-exec-step-instruction --reverse
-stack-list-frames 0 2
-exec-finish
-exec-next --reverse
-exec-continue --reverse
-exec-continue
-break-delete 1
-interpreter-exec console "rr-back -w *(long *) {value}"
-interpreter-exec console "rr-goto start"
-exec-continue --reverse
-data-evaluate-expression "*(long *) {value}"
-data-evaluate-expression "*(long *) {value} = 17"
-exec-continue
-thread-info
-gdb-exit
"""


@pytest.mark.parametrize("scene", ["plain", "threads", "crash", "recursion"])
def test_a_front_end_over_the_machine_interface(scene: str, tmp_path: Path) -> None:
    case, demo = built(scene, "pie"), tmp_path / "x.demo"
    recorded(case, scene, demo)
    script = MI.format(demo=demo, here=case.here, value=case.value)
    setting = ["-iex", "set debuginfod enabled off", "-ex", f"source {ROOT / 'gdbinit.py'}"]
    words = ["gdb", "-nx", "-q", "-i", "mi", *setting, case.program]
    out = subprocess.run(words, input=script, capture_output=True, text=True, timeout=100, check=False).stdout
    assert "^error" not in out, out
    stops = re.findall(r'^\*stopped(?:,reason="([a-z-]+)")?', out, re.MULTILINE)
    assert stops.count("breakpoint-hit") >= 3 and stops.count("end-stepping-range") >= 1, out
    assert out.count('frame={addr="') >= 8, "moves of gdbrr's commands are stops as well"
    assert 'value="17"' in out and "what was changed here is undone" in out, out
    assert NO_MORE.search(out), out
