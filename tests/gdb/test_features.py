"""GDB's own features in a replay, which know nothing of time: they have to mean there what they mean anywhere."""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path

import pytest

from gdbrr.launch import engine
from harness import programs
from harness.run import gdbrr
from harness.said import NO_MORE, NO_POINTS

from .session import recorded, whole

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")


def played(scene: str, path: Path, *commands: str) -> str:
    program, demo = programs.build("scenes", ["-O0"]), path / "x.demo"
    gdbrr("record", "--set", "epoch_ticks=16", "-o", demo, "--", program, scene)
    assert demo.exists()
    return whole(program, f"rr-replay {demo}", *commands)


def numbers(out: str) -> list[int]:
    return [int(number) for number in re.findall(r"^\$\d+ = (\d+)$", out, re.MULTILINE)]


def test_the_direction_of_execution(tmp_path: Path) -> None:
    """`continue`, `step`, `next`, `until`, `advance` and `finish`, with the direction set to reverse and back."""
    out = played(
        "plain",
        tmp_path,
        *("break here", "set exec-direction reverse", "continue", "print number", "continue", "print number"),
        *(
            "finish",
            "print i",
            # Back to the start of the line and to the one before, or with GDB 15 and newer there at once.
            "python while gdb.selected_frame().find_sal().line == 30: gdb.execute('step')",
            "print i",
            "until",
            "advance plain",
            "delete",
            'print $_caller_is("main")',
        ),
        *("set exec-direction forward", "tbreak here", "continue", "print number", "up", "print i"),
    )
    assert numbers(out) == [5, 4, 4, 3, 1, 3, 3], out


def test_commands_displays_and_temporary_breakpoints(tmp_path: Path) -> None:
    script = tmp_path / "commands.gdb"
    script.write_text('commands 1\nsilent\nprintf "AT %ld %ld\\n", number, value\nend\n')
    out = played(
        "plain",
        tmp_path,
        *("break here", f"source {script}", "display value", "reverse-continue", "reverse-continue", "delete 1"),
        *(
            "tbreak here if number == 2",
            "reverse-continue",
            "info breakpoints",
            "reverse-finish",
            "stepi",
            "undisplay 1",
        ),
        *("reverse-continue", "rr-when"),
    )
    assert re.findall(r"^AT (\d+) (\d+)$", out, re.MULTILINE) == [("5", "10"), ("4", "6")], out
    assert "Temporary breakpoint 2, here (number=2)" in out and NO_POINTS.search(out), out
    assert out.count("1: value = 1\n") == 3 and "in plain () at" in out, out
    assert re.search(r"^tick 0 of", out, re.MULTILINE), out


def test_threads_and_their_own_variables(tmp_path: Path) -> None:
    """What a thread has to itself is that of the moment, for every thread and in every frame."""
    out = played(
        "threads",
        tmp_path,
        *("break here if value >= 12", "rr-goto start", "continue", "print mine", "thread apply all -q print mine"),
        *("thread apply all -q backtrace -3", "print $_thread", "print $_gthread", "info proc", "reverse-finish"),
        *("print mine", "frame function count", "print mine", "delete", "rr-goto 0", "info threads"),
    )
    own = numbers(out)
    assert own[0] in range(4) and own[-2:] == [own[0], own[0]], out
    assert re.search(r"^#\d+ .* in count \(arg=", out, re.MULTILINE), out
    assert re.search(r"^exe = '.*scenes'$", out, re.MULTILINE), out
    assert re.search(r"^\* 1 +Thread .*\n(?!  \d)", out, re.MULTILINE), "at the start there is one thread"


def test_a_thread_alone_goes_no_further_than_its_turn(tmp_path: Path) -> None:
    """`set scheduler-locking`: it stops where somebody else has to act first, and that one is named; or at its end."""
    waits = r"Thread \d+\.(\d+) waits: it is the turn of Thread \d+\.(\d+) \(tick (\d+)\)\. Try: "
    ends = r"Thread \d+\.(\d+) stops in front of its last operation \(tick (\d+)\)\. Try: "
    out = played(
        "threads",
        tmp_path,
        *("rr-goto start", "break here", "continue", "set $owner = $_thread", "delete", "thread 1"),
        *("set scheduler-locking on", "stepi", "nexti", "continue", "rr-when", "print $_thread"),
        *("thread $owner", "continue", "rr-when", "set scheduler-locking step", "thread 1", "stepi", r"echo OFF\n"),
        *("set scheduler-locking off", "break here", "continue", "next", "next", "delete", "continue", "rr-when"),
    )
    locked, off = out[out.index("hit Breakpoint 1") :].split("OFF\n")
    owner = re.search(r"Switching to Thread \d+\.(\d+)", out)
    assert owner is not None, out
    told = re.findall(waits, locked)
    assert {row[1] for row in told[:3]} == {owner[1]} and len(set(told[:3])) == 1, out
    assert "$1 = 1\n" in locked and "received signal" not in out, out
    ticks = [int(tick) for tick in re.findall(r"^tick (\d+)", locked, re.MULTILINE)]
    gone_on = [(row[0], row[2]) for row in told[3:]] + re.findall(ends, locked)
    assert (owner[1], str(ticks[1])) in gone_on and ticks[1] > ticks[0], out
    assert not re.findall(waits, off), out
    assert NO_MORE.search(off) and "(100%)" in off, out


def test_a_thread_alone_goes_back_to_its_birth(tmp_path: Path) -> None:
    """Stops are its own. GDB 13.1 aborts at one in a thread that it has not resumed."""
    out = played(
        "threads",
        tmp_path,
        *("break here", "reverse-continue", "print $_thread", "thread apply all -q bt 1", "set scheduler-locking on"),
        *("print number", *["reverse-continue"] * 4, "print $_thread", "reverse-stepi", "rr-when"),
        *("rr-goto start", "rr-goto end", "continue", "rr-goto 50%", "rr-back", "thread 1", "continue", "rr-when"),
    )
    first, number, last = numbers(out)[:3]
    assert first == last and out.count(f"hit Breakpoint 1, here (number={number})") == 4, out
    assert re.search(rf"^tick (?!0 ).*thread {first} ", out, re.MULTILINE), out
    assert len(NO_MORE.findall(out)) >= 3, out
    assert "internal-error" not in out and "E03" not in out, out


def test_scripts_hear_of_every_stop(tmp_path: Path) -> None:
    script = tmp_path / "heard.py"
    script.write_text(
        "import gdb\n"
        "def stopped(event):\n"
        "    kind = type(event).__name__\n"
        "    print('HEARD', kind, gdb.selected_frame().name(), int(gdb.parse_and_eval('value')))\n"
        "gdb.events.stop.connect(stopped)\n"
        "class Here(gdb.Breakpoint):\n"
        "    def stop(self):\n"
        "        return int(gdb.parse_and_eval('number')) % 2 == 1\n"
        "class Change(gdb.Breakpoint):\n"
        "    def __init__(self):\n"
        "        super().__init__('value', gdb.BP_WATCHPOINT)\n"
        "Here('here')\n"
    )
    out = played(
        "plain",
        tmp_path,
        *(f"source {script}", *["reverse-continue"] * 3, "delete", "python Change()", "continue", "rr-goto start"),
    )
    heard = re.findall(r"^HEARD (\w+) (\w+) (\d+)$", out, re.MULTILINE)
    assert heard[:3] == [
        ("BreakpointEvent", "here", "10"),
        ("BreakpointEvent", "here", "3"),
        ("BreakpointEvent", "here", "0"),
    ]
    assert heard[3] == ("BreakpointEvent", "here", "1") and len(heard) == 5, out


def test_back_over_functions_that_compute_long(tmp_path: Path) -> None:
    """More instructions than can be stepped through: a sort and a loop, each one `reverse-next`."""
    program, demo = programs.build("long_segment", ["-O0"]), tmp_path / "x.demo"
    gdbrr("record", "--set", "trace_limit=20000", "-o", demo, "--", program).expect(0)
    out = whole(
        program,
        *(f"rr-replay {demo}", "break long_segment.c:39", "reverse-continue", "delete", "print $pc"),
        *("reverse-stepi", "stepi", "print $pc", *["reverse-next"] * 3, "next", "next"),
    )
    assert "too many to step through" not in out, out
    pcs = re.findall(r"^\$\d = .* (0x\w+) <main", out, re.MULTILINE)
    assert len(pcs) == 2 and pcs[0] == pcs[1], out
    lines = [int(line) for line in re.findall(r"^(\d+)\t", out[out.index("$2") :], re.MULTILINE)]
    assert lines == [38, 37, 36, 37, 38], out


def test_what_the_allocator_changes_is_one_step(tmp_path: Path) -> None:
    """It runs in the middle of a segment, as code that has no moments. Both ways there are the same changes."""
    program = programs.build("heap_words", ["-O0"])
    watching = ["break last", "reverse-continue", "set $q = block", "delete", "watch *(long *) $q"]
    back, forth = ["reverse-continue"] * 8, ["continue"] * 8
    out = whole(program, f"rr-replay {recorded(program, tmp_path)}", *watching, *back, "echo FORTH\\n", *forth)
    changes = re.compile(r"^Old value = (\d+)\nNew value = (\d+)\n(.*)$", re.MULTILINE)
    before, behind = (changes.findall(part) for part in out.split("FORTH\n"))
    assert [(new, old) for old, new, _ in reversed(before)] == [(old, new) for old, new, _ in behind], out
    assert ("0", "5") in [row[:2] for row in behind] and len(behind) >= 4, out
    assert all("main () at " in place for *_, place in behind) and "free@plt" in before[0][2], out
    listed = whole(program, f"rr-replay {tmp_path / 'x.demo'}", *watching[:3], "rr-history --csv *(long *) $q")
    rows = re.findall(r"^(\d+),(\d+),\S+,\d+,.*$", listed, re.MULTILINE)
    assert rows == [(old, new) for old, new, _ in before], listed


def test_the_engines_frames_are_shown_on_request(tmp_path: Path) -> None:
    program, demo = programs.build("scenes", ["-O0"]), tmp_path / "x.demo"
    gdbrr("record", "-o", demo, "--", program, "plain")
    on, off = "set gdbrr engine-frames on", "set gdbrr engine-frames off"
    says = [f"echo \\nPART {number}\\n" for number in range(4)]
    first = (says[0], "bt", on, says[1], "bt", off, says[2], "bt")
    out = whole(program, f"rr-replay {demo}", *first, on, "rr-goto start", says[3], "bt")
    hidden, shown, again, start = re.split(r"^PART \d\n", out, flags=re.MULTILINE)[1:]
    assert "_exit" in hidden and "gr_" not in hidden, out
    assert re.search(r"gr_door_c \(\).*_exit", shown, re.DOTALL), out
    assert [line for line in again.splitlines() if line.startswith("#")] == [
        line for line in hidden.splitlines() if line.startswith("#")
    ], out
    assert re.search(r" in gr_\w+ \(\)", start), out


def test_the_engines_name_is_its_path(tmp_path: Path) -> None:
    """The loader was given one with slashes in front, for a length that is the same in every folder."""
    program, demo = programs.build("scenes", ["-O0"]), tmp_path / "x.demo"
    gdbrr("record", "-o", demo, "--", program, "plain")
    rows = whole(program, f"rr-replay {demo}", "info sharedlibrary").splitlines()
    names = [row.split()[-1] for row in rows if row.endswith("/libgdbrr.so")]
    assert names == [str(engine.find().library)], rows


def test_names_are_the_programs(tmp_path: Path) -> None:
    """The engine has functions and variables of common names, too: they are nobody's breakpoint and nobody's value."""
    program, demo = programs.build("past_calls"), tmp_path / "x.demo"
    gdbrr("record", "-o", demo, "--", program).expect(0)
    out = whole(program, f"rr-replay {demo}", "break add", "break look_from_here", "print tids_count")
    assert "locations)" not in out and re.search(r"^Breakpoint 1 at .*: file .*past_calls\.c", out, re.MULTILINE), out
    assert 'Function "look_from_here" not defined' in out and 'No symbol "tids_count"' in out, out


def test_a_breakpoint_in_the_library_does_not_hide_its_locks(tmp_path: Path) -> None:
    """They are looked for in its text, when the second thread is about to be made."""
    program, demo = programs.build("turn_locks"), tmp_path / "x.demo"
    gdbrr("record", "--order", "serial", "-o", demo, "--", program)
    library = "break -qualified pthread_mutex_lock"
    out = whole(program, f"rr-replay {demo}", library, "rr-goto start", "continue", "continue", "delete", "continue")
    assert out.count("hit Breakpoint 1") + out.count("Breakpoint 1.1, ") >= 2, out
    assert "refuses" not in out and "_exit" in out.rpartition("pthread_mutex_lock")[2], out


TO_THE_ENGINE = (
    "python while 'libgdbrr' not in gdb.execute('info symbol $pc', to_string=True): gdb.execute('reverse-continue')"
)


@pytest.mark.parametrize(("name", "function"), [("two_threads", "pthread_mutex_lock"), ("past_crash", "malloc")])
def test_back_from_a_function_in_whose_place_the_engine_has_its_own(name: str, function: str, tmp_path: Path) -> None:
    """Its start is a place of the program's: the way back leads to the call, through the linkage table or past it."""
    program, demo = programs.build(name), tmp_path / "x.demo"
    gdbrr("record", "-o", demo, "--", program)
    out = whole(
        program,
        *(f"rr-replay {demo}", f"break -qualified {function}", "reverse-continue", TO_THE_ENGINE, "rr-mark there"),
        *("echo FINISH\\n", "reverse-finish", "x/i $pc", "rr-when", "echo STEP\\n", "rr-goto there"),
        *("reverse-stepi", "x/i $pc", "rr-goto there", "finish", "rr-when"),
    )
    assert "does not exist" not in out, out
    finished, stepped = out.partition("FINISH")[2].split("STEP")
    assert re.search(rf"^=> 0x\w+ <\w+\+\d+>:\tcall .*{function}@plt", finished, re.MULTILINE), out
    assert re.search(r"^=> 0x\w+ <[^>]*>:\t(bnd )?(jmp|call) ", stepped, re.MULTILINE), out


TO_THE_STOS = "python while 'rep stos' not in gdb.execute('x/i $pc', to_string=True): gdb.execute('reverse-stepi')"


def test_a_repeated_instruction_is_one_step_forwards_too(tmp_path: Path) -> None:
    """Of one with 64 rounds; what is watched in its midst is told behind it."""
    program, demo = programs.build("moments", ["-no-pie"]), tmp_path / "x.demo"
    gdbrr("record", "-o", demo, "--", program).expect(0)
    to_it = ("rr-back -w filled[63]", TO_THE_STOS, "rr-mark there")
    back, watched = ("reverse-stepi", "rr-when"), ("stepi", "rr-when", "delete", "rr-goto there")
    out = whole(
        program,
        *(
            f"rr-replay {demo}",
            *to_it,
            r'printf "LEFT %d\n", $rcx',
            "stepi",
            r'printf "LEFT %d\n", $rcx',
            "rr-when",
            *back,
        ),
        *("watch filled[40]", *watched, "watch filled[0]", *watched, "watch idle", *watched),
    )
    assert re.findall(r"^LEFT (\d+)", out, re.MULTILINE) == ["64", "0"], out
    pcs = [int(pc, 16) for pc in re.findall(r"^tick \d+:0x(\w+)#1 of", out.partition("LEFT 0")[2], re.MULTILINE)]
    behind, start = pcs[:2]
    assert behind > start and pcs == [behind, start, *[behind, start] * 3], out
    assert re.findall(r"^Hardware watchpoint \d+: (\S+)\n\nOld", out, re.MULTILINE) == ["filled[40]", "filled[0]"], out


def test_a_state_that_is_another_one_each_time_is_named(tmp_path: Path) -> None:
    """The program keeps what is not recorded. Only who asks for it is told, by the move that comes there again."""
    program, demo = programs.build("unseen", ["-no-pie"]), tmp_path / "x.demo"
    gdbrr("record", "--set", "epoch_ticks=16", "-o", demo, "--", program, "g").expect(0)
    for option, told in (("", False), ("--check ", True)):
        for moves in (("",), ("--start ", "rr-goto 70", "rr-goto 3", "rr-goto 70", "rr-when")):
            out = whole(program, f"rr-replay {option}{moves[0]}{demo}", *moves[1:])
            assert ("counter of unseen) is 0x" in out) == told == ("is not what it was the first time" in out), out


def test_a_crash_under_rr_start_is_told_once() -> None:
    out = whole(programs.build("scenes", ["-O0"]), "rr-start crash", "continue", "continue")
    assert out.count("Program received signal SIGSEGV") == 1, out
    assert out.count("Program terminated with signal SIGSEGV") == 1 and "not being run" in out, out


def test_back_from_a_stop_in_front_of_the_first_operation() -> None:
    """But for the thread's beginning: such a recording has a past all the same, the way from its start to here."""
    moves = ("rr-when", "reverse-stepi", "rr-when", "reverse-continue", "rr-live", "continue", "rr-when")
    out = whole(programs.build("scenes", ["-O0"]), "rr-start crash", *moves)
    assert re.search(r"^recording: 1 tick so far", out, re.MULTILINE), out
    assert NO_MORE.search(out) and "Program terminated with signal SIGSEGV" in out, out
    assert re.search(r"^tick 0:0x\w+#1 of 1 ", out, re.MULTILINE), out


def test_hardware_breakpoints(tmp_path: Path) -> None:
    out = played(
        "plain", tmp_path, *("hbreak here", "reverse-continue", "print number", "thbreak plain", "reverse-continue"),
        *("delete", "thbreak here", "continue", "print number", "info breakpoints"),
    )  # fmt: skip
    assert numbers(out) == [5, 5] and "Temporary breakpoint 3, here (number=5)" in out, out
    assert NO_POINTS.search(out), out


def test_times_of_the_recording_and_of_the_day(tmp_path: Path) -> None:
    program, demo = programs.build("rounds"), tmp_path / "x.demo"
    gdbrr("record", "-o", demo, "--", program, "12").expect(0)
    facts = json.loads(gdbrr("info", "--json", demo).out)
    begins, ends = (facts["epochs"][epoch]["time"] for epoch in (2, 3))
    at = (begins + ends) / 2  # far from both: a time of the day is told in microseconds
    day = datetime.datetime.fromtimestamp(facts["started"] + at)
    ways = (f"{at}s", str(day), f"{day:%H:%M:%S.%f}")
    out = whole(program, f"rr-replay {demo}", *(f"rr-goto {where}" for way in ways for where in (way, "start")))
    shown = re.findall(r"^tick (\d+)\S* of \d+ \(\d+%\), ([\d.]+) s", out, re.MULTILINE)
    there = [float(seconds) for tick, seconds in shown if tick != "0"][1:]  # behind the end, where it begins
    # Of the ticks up to the next known time each has the one before.
    assert len(there) == 3 and max(there) - min(there) < 0.005 and max(there) <= ends, out


# ---------------------------------------------------------------- a deep recursion
def line(text: str) -> str:
    lines = (programs.SOURCES / "deep_recursion.c").read_text().splitlines()
    return f"deep_recursion.c:{next(at for at, each in enumerate(lines, 1) if text in each)}"


def test_back_over_a_deep_recursion(tmp_path: Path) -> None:
    """GDB stops at each start of the function on the way; it arrives where a run from the start comes by first."""
    program = programs.build("deep_recursion", ["-O0"])
    demo = recorded(program, tmp_path)
    names = "rip", "rsp", "rbp", "rbx", "rdi"
    look = f"python print('AT', [int(gdb.parse_and_eval('$' + name)) for name in {names}])"
    out = whole(
        program,
        *(f"rr-replay {demo}", "rr-goto start", f"tbreak {line('the first call')}", "continue", look),
        *(f"tbreak {line('behind all')}", "continue", "reverse-next", look),
        *(f"tbreak {line('here += down')} if n == 60", "continue", look),
        *(f"tbreak {line('behind the call')} if n == 60", "continue", "reverse-next", look, "reverse-next"),
        *(look, "print n"),
    )
    places = re.findall(r"^AT (.*)$", out, re.MULTILINE)
    # With GDB 15 and newer the first of the two comes to the start of the line.
    assert len(places) == 5 and places[0] == places[1] and places[2] in places[3:], out
    assert numbers(out) == [60], out


def test_in_front_of_a_call_is_what_a_move_there_shows(tmp_path: Path) -> None:
    """Behind a step back to a call, before anybody has looked, and after a move from elsewhere."""
    program = programs.build("deep_recursion", ["-O0"])
    demo = recorded(program, tmp_path)
    look = r"echo LOOK\n", "info registers", "x/4gx $sp", "backtrace 3", "info threads", r"echo LOOK\n"
    steps = whole(
        program,
        *(f"rr-replay {demo}", "rr-goto start", "break *down if n == 70", "continue", "reverse-stepi", "rr-when"),
        *("stepi", "reverse-stepi", *look, "reverse-stepi", "stepi", "rr-when"),
    )
    first, again = re.findall(r"^tick (\S+) of", steps, re.MULTILINE)[-2:]
    assert first == again, steps
    gone = whole(program, f"rr-replay {demo}", f"rr-goto {again}", *look)
    shown = [re.sub(r"Thread \d+\.\d+|LWP \d+", "", out.split("LOOK\n")[1]) for out in (steps, gone)]
    assert shown[0] == shown[1] and "rip" in shown[0], steps
