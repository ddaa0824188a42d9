"""Steps back of a thread that the user has selected, while another one is where time stands."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
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
        if not back.startswith("reverse-"):
            gdb.execute("set exec-direction reverse")
        said = gdb.execute(back, to_string=True)
        gdb.execute("set exec-direction forward")
        again = here()
        ended = "history" in said
        if not ended:
            gdb.execute("rr-when", to_string=True)
            gdb.execute("stepi", to_string=True)
        print("EACH", before[0] == again[0], "received signal" in said, ended or here() == before, ended)
"""


@pytest.mark.parametrize("back", ["reverse-stepi", "stepi"])
def test_the_selected_thread_steps_back(back: str, tmp_path: Path) -> None:
    """GDB (13.1) does not say in its packet which one that is. A step forwards leads to where the thread stood."""
    program, demo, script = programs.build("scenes", ["-O0"]), tmp_path / "x.demo", tmp_path / "each.py"
    gdbrr("record", "--set", "epoch_ticks=16", "-o", demo, "--", program, "threads").expect(0)
    script.write_text(SCRIPT)
    moments = [f"{percent}%" for percent in range(20, 100, 10)]
    moves = [f"python each('{back}', '{moment}')" for moment in moments]
    out = whole(program, f"rr-replay {demo}", f"source {script}", *moves)
    rows = re.findall(r"^EACH (\w+) (\w+) (\w+) (\w+)$", out, re.MULTILINE)
    assert len(rows) > len(moments) and {row[:3] for row in rows} == {("True", "False", "True")}, out
    assert "False" in [row[3] for row in rows], out


BEGINS = """
import gdb

def when():
    return gdb.execute("rr-when", to_string=True).split(",")[0]

def behind_a_call():
    # clone3 has a name only where the C library's symbols are installed.
    before = gdb.newest_frame().pc() - 2
    return bytes(gdb.selected_inferior().read_memory(before, 2)) == bytes([0x0F, 0x05])

def to(moment):
    gdb.execute(f"rr-goto {moment}", to_string=True)
    gdb.execute("stepi", to_string=True)

def begins(moment):
    to(moment)
    now = when()
    for one in [thread.ptid for thread in gdb.selected_inferior().threads()]:
        to(moment)
        for thread in gdb.selected_inferior().threads():
            if thread.ptid == one and thread != gdb.selected_thread():
                thread.switch()
                sp = int(gdb.newest_frame().read_register("rsp"))
                gdb.execute("reverse-stepi", to_string=True)
                if int(gdb.newest_frame().read_register("rsp")) == sp and behind_a_call():
                    print("BEGINS", when() == now)
"""


def test_where_a_thread_begins_it_is_still_now(tmp_path: Path) -> None:
    """A step back of a thread that has not begun is none; its first operation comes later than now."""
    program, demo, script = programs.build("scenes", ["-O0"]), tmp_path / "x.demo", tmp_path / "begins.py"
    gdbrr("record", "--order", "serial", "--set", "epoch_ticks=16", "-o", demo, "--", program, "threads").expect(0)
    script.write_text(BEGINS)
    moves = [f"python begins('{percent}%')" for percent in range(4, 60, 4)]
    out = whole(program, f"rr-replay {demo}", f"source {script}", *moves)
    assert set(re.findall(r"^BEGINS (\w+)$", out, re.MULTILINE)) == {"True"}, out


class Machine:
    """GDB's machine interface, as a front end speaks it."""

    def __init__(self, program: Path, demo: Path) -> None:
        begin = ("set debuginfod enabled off", "set confirm off", f"source {ROOT / 'gdbinit.py'}")
        words = [word for line in begin for word in ("-iex", line)]
        self.process = subprocess.Popen(
            ["gdb", "-nx", "-q", "-i", "mi3", *words, program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.ask(f'-interpreter-exec console "rr-replay {demo}"', "*stopped")

    def ask(self, command: str, until: str = "7^done") -> str:
        """What COMMAND is answered, up to a line that begins with UNTIL."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"7{command}\n")
        self.process.stdin.flush()
        said = []
        for line in self.process.stdout:
            said.append(line)
            if line.startswith((until, "7^error")):
                break
        return "".join(said)

    def threads(self) -> dict[str, str]:
        """Their numbers by their ids."""
        found = re.findall(r'{id="(\d+)",target-id="([^"]*)"', self.ask("-thread-info"))
        return {name: number for number, name in found}


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    program = programs.build("scenes", ["-O0"])
    demo = tmp_path / "x.demo"
    # In turns: elsewhere threads may come one after the other, and whoever waits stands in the C library.
    gdbrr("record", "--order", "random", "--seed", "3", "-o", demo, "--", program, "threads").expect(0)
    machine = Machine(program, demo)
    with machine.process:
        yield machine
        assert machine.process.stdin
        machine.process.stdin.write("-gdb-exit\n")


WAYS = ("-exec-step-instruction --reverse", "-exec-step --reverse", "-exec-next-instruction", "-exec-next")


@pytest.mark.parametrize("way", WAYS)
def test_the_thread_that_a_front_end_names_steps_back(way: str, machine: Machine) -> None:
    command, _, back = way.partition(" ")
    steps = set()
    for percent in range(30, 90, 20):
        goto = f'-interpreter-exec console "rr-goto {percent}%"'
        machine.ask(goto, "*stopped")
        for name in machine.threads():
            machine.ask(goto, "*stopped")
            number = machine.threads()[name]  # another one in each life of the thread
            current = re.search(r'current-thread-id="(\d+)"', machine.ask("-thread-list-ids"))
            if not back:
                machine.ask("-gdb-set exec-direction reverse")
            stopped = machine.ask(f"{command} --thread {number} {back}", "*stopped").splitlines()[-1]
            if "Cannot find bounds of current function" in stopped or 'reason="no-history"' in stopped:
                machine.ask("-gdb-set exec-direction forward")
                continue  # in the C library, without its symbols, or out of the thread's first line into that
            # A step into an inlined function is none of the process: GDB tells the stop before, which had no signal.
            assert 'signal-name="SIG' not in stopped and f'thread-id="{number}"' in stopped, stopped
            machine.ask("-gdb-set exec-direction forward")
            steps.add(current is not None and number == current[1])
    assert steps == {True, False}


@pytest.mark.parametrize(
    ("move", "then"),
    [
        *((step, r"^\[Current thread is 1 ") for step in ("reverse-stepi", "reverse-step")),
        *(("reverse-continue", r"^tick 0 of"), ("rr-goto 30", r"^tick 30 of")),
        *(("rr-back", r"^tick \d+ of"), ("rr-back -b main", r"^tick \d.* thread 1 .*scenes.c:\d+$")),
    ],
)
def test_from_a_breakpoint_of_another_thread(move: str, then: str, tmp_path: Path) -> None:
    """INVARIANT(nobody-steps-first): GDB steps that thread from there first, and took what came of it for a signal, or
    aborted."""
    program, demo = programs.build("scenes", ["-O0"]), tmp_path / "x.demo"
    gdbrr("record", "--set", "epoch_ticks=16", "-o", demo, "--", program, "threads").expect(0)
    there = ("rr-goto start", "break here", "continue", "thread 1", move, "echo THEN\\n", "thread", "rr-when")
    out = whole(program, f"rr-replay {demo}", *there)
    assert re.search(r'^Thread ([2-9]|\d\d) "scenes" hit Breakpoint 1, here', out, re.MULTILINE), out
    assert "received signal" not in out and re.search(then, out.partition("\nTHEN\n")[2], re.MULTILINE), out


def test_the_moment_is_that_of_the_thread_that_stopped(tmp_path: Path) -> None:
    """Whichever is selected: the moment, the thread and the line belong together."""
    program, demo = programs.build("scenes", ["-O0"]), tmp_path / "x.demo"
    turns = ("--order", "random", "--seed", "3")  # half-way there is more than one thread
    gdbrr("record", *turns, "--set", "epoch_ticks=16", "-o", demo, "--", program, "threads").expect(0)
    out = whole(program, f"rr-replay {demo}", "rr-goto 50%", "thread apply all rr-when", "thread")
    told = re.split(r"^Thread \d+ \(", out, flags=re.MULTILINE)[1:]
    lines = [line for each in told for line in re.findall(r"^tick .*$", each, re.MULTILINE)]
    plain = [line for line in lines if "is selected" not in line]
    assert len(plain) == 1 and len(lines) > 1, out
    others = {re.sub(r", while thread \d+ is selected", "", line) for line in lines}
    assert others == {plain[0]}, out


def test_a_hook_of_the_users_own_stays(tmp_path: Path) -> None:
    script = tmp_path / "own.gdb"
    script.write_text("define hook-reverse-stepi\necho own\nend\n")
    shown = [word for step in ("step", "stepi") for word in ("-ex", f"show user hook-reverse-{step}")]
    out = run("gdb", "-nx", "-batch", "-x", script, "-x", ROOT / "gdbinit.py", *shown, limit=60).expect(0).out
    assert out.count("gdbrr-thread") == 1 and out.count("echo own") == 1, out
