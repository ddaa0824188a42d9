"""Signals that reach a handler: in a replay they stop GDB where they do without one, in both directions."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from harness import programs
from harness.run import gdbrr, run
from harness.said import NO_MORE

from ..session import recorded, whole, words

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")

CATCHING = Path(__file__).with_name("catching.py")
SENT = "signals_sent"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(programs.build(SENT), tmp_path_factory.mktemp("sent"))


def played(demo: Path, *commands: str, program: str = SENT) -> str:
    return whole(programs.build(program), f"rr-replay {demo}", f"source {CATCHING}", *commands)


def in_demo(demo: Path) -> list[tuple[int, str]]:
    rows = [json.loads(line) for line in gdbrr("events", "--json", demo).expect(0).out.splitlines()]
    return [
        (row["tick"], row["call"].replace("SIGRTMIN", "SIG34").replace("signal ", "SIG"))
        for row in rows
        if row["operation"] == "signal"
    ]


def stops(out: str, command: str) -> list[tuple[int, str]]:
    """Tick and signal of every stop at one."""
    pattern = rf"received signal (\w+),(?:(?!received)[^\0])*?^AT {command} (\d+) "
    return [(int(tick), name) for name, tick in re.findall(pattern, out, re.MULTILINE)]


@pytest.mark.parametrize(
    "program", [SENT, "signal_nested", "signal_within", "signal_loop", "signal_queue", "signal_altstack"]
)
def test_every_one_forwards_and_back(program: str, tmp_path: Path) -> None:
    """At operations, behind calls, in functions that wait, and in the middle of a loop."""
    demo = recorded(programs.build(program), tmp_path)
    out = played(
        demo,
        *("handle all stop print", "rr-goto start", "python caught('continue')"),
        *("rr-goto end", "python caught('reverse-continue')"),
        program=program,
    )
    forwards = stops(out, "continue")
    assert forwards and forwards == in_demo(demo), out
    assert stops(out, "reverse-continue") == forwards[::-1], out


def test_what_came_with_it_and_where_it_goes(demo: Path) -> None:
    """Going on delivers it once; a step leads to its handler."""
    sent = "print $_siginfo._sifields._rt.si_sigval.sival_int"
    came = "print ((siginfo_t *) $rsi)->_sifields._rt.si_sigval.sival_int"
    out = played(
        demo,
        *("rr-goto start", "continue", "print $_siginfo.si_signo", sent, "print handled"),
        *("stepi", "backtrace 1", "print $rdi", came, "continue", "print $_siginfo.si_signo", "print handled"),
        *("continue", "print handled", "stepi", "print $rdi", "continue", "print handled", "print value"),
        *(*["reverse-continue"] * 3, sent, "print handled", "step", came, "reverse-continue", "print handled"),
    )
    assert "#0  with_info (" in out, out
    values = [int(value) for value in re.findall(r"^\$\d+ = (-?\d+)$", out, re.MULTILINE)]
    assert values == [10, 42, 0, 10, 42, 12, 11, 23, 15, 38, 42, 42, 0, 42, 0], out


@pytest.mark.parametrize("step", ["stepi", "nexti"])
def test_a_step_leads_to_its_handler_while_recording(step: str) -> None:
    """As under `run`: in the function that sends it to itself, in another thread, and with one that is reset by it."""
    steps = (step, "backtrace 1", "print handled")
    there = (*steps, "continue", *steps, "continue", *steps)
    out = whole(programs.build(SENT), "rr-start", *there, "reverse-continue", *steps, "rr-live", "continue")
    assert re.findall(r"^#0  (\w+) \(number=", out, re.MULTILINE) == ["with_info", "plain", "plain", "plain"], out
    assert re.findall(r"^\$\d+ = (\d+)$", out, re.MULTILINE) == ["0", "11", "23", "23"], out
    assert re.findall(r"received signal (\w+)", out) == ["SIGUSR1", "SIGUSR2", "SIGTERM", "SIGTERM"], out
    assert "handled 38, value 42" in out, out


def test_caught_by_name_and_without(demo: Path) -> None:
    """The stop of a command that moves time is none of a signal."""
    out = played(
        demo,
        *("catch signal", "rr-goto start", "rr-goto 50%", "rr-back -w handled", "rr-goto start"),
        *(*["continue"] * 4, "rr-back", "delete", "catch signal SIGTERM", "tcatch signal SIGUSR1"),
        *("handle SIGUSR1 nostop noprint", "handle SIGUSR2 nostop print", *["reverse-continue"] * 3),
    )
    hits = re.findall(r"atchpoint (\d) \(signal (\w+)\), |received signal (\w+)", out)
    names = [" ".join(filter(None, words)) for words in hits]
    assert names == ["1 SIGUSR1", "1 SIGUSR2", "1 SIGTERM", "2 SIGTERM", "SIGUSR2", "3 SIGUSR1"], out
    assert len(NO_MORE.findall(out)) == 2, out


def test_what_is_asked_changes_nothing(demo: Path) -> None:
    """A function that GDB calls at such a stop leaves it as it was."""
    out = played(
        demo,
        *(
            "handle SIGUSR1 nopass",
            "rr-goto start",
            "continue",
            "print (int) getpid() > 0",
            "continue",
            "print handled",
        ),
        *("signal 0", "print handled", "reverse-continue", "rr-goto end", "print handled"),
    )
    assert re.findall(r"^\$\d+ = (\d+)$", out, re.MULTILINE) == ["1", "11", "23", "38"], out
    assert out.count("the signal is delivered all the same: so it was recorded") == 2, out
    assert re.findall(r"received signal (\w+)", out) == ["SIGUSR1", "SIGUSR2", "SIGTERM", "SIGUSR2"], out


def test_what_was_not_recorded_is_not_delivered(demo: Path) -> None:
    """Be it over a breakpoint, for which GDB steps into the handler, at another one's stop, or what ends a program."""
    out = played(
        demo,
        *(
            "rr-goto start",
            "break main",
            "continue",
            "signal SIGUSR1",
            "print handled",
            "signal SIGTERM",
            "print handled",
        ),
        *(
            "rr-goto start",
            "signal SIGKILL",
            "continue",
            "print handled",
            "delete",
            "rr-goto end",
            "continue",
            "rr-when",
        ),
    )
    assert re.findall(r"gdbrr: (.*) is not delivered: it was not recorded here\n", out) == [
        "SIGUSR1",
        "SIGTERM",
        "SIGKILL",
    ]
    assert out.count("the signal is delivered all the same: so it was recorded") == 1, out
    # All the others came where they do: SIGKILL was for where the breakpoint is met.
    assert re.findall(r"^\$\d+ = (\d+)$", out, re.MULTILINE) == ["0", "11", "0"], out
    assert re.findall(r"received signal (\w+)", out) == ["SIGUSR1", "SIGUSR2", "SIGUSR1"], out
    assert "(100%)" in out and "terminated" not in out, out


def test_a_fault_recurs_unless_it_is_passed_on(tmp_path: Path) -> None:
    """As without a replay; another signal does not stand for it."""
    demo, program = tmp_path / "x.demo", programs.build("signal_segv_longjmp")
    gdbrr("record", "-o", demo, "--", program).expect(0)
    way = ("continue", "rr-when", "signal 0", "rr-when", "signal SIGUSR1", "rr-when", "continue", "rr-when")
    out = whole(program, f"rr-replay --start {demo}", *way)
    ticks = [int(tick) for tick in re.findall(r"^tick (\d+)", out, re.MULTILINE)][1:]
    assert ticks[0] == ticks[1] == ticks[2] < ticks[3] and out.count("received signal SIGSEGV") == 4, out
    assert out.count("is not delivered: it was not recorded here") == 1, out


def test_the_same_as_without_a_replay(demo: Path) -> None:
    """What GDB shows of the same commands, on the program itself and on its replay."""
    program = programs.build(SENT)
    commands = (
        "continue",
        "step",
        "backtrace 1",
        "handle SIGUSR2 nostop print",
        "tcatch signal SIGTERM",
        "next",
        "continue",
    )
    commands += ("stepi", "backtrace 1", "finish", "next", "info breakpoints")
    natively = run("sh", "-c", 'exec "$@" 2>&1', "sh", *words(program, "break main", "run", *commands)).out
    replayed = played(demo, "break main", "rr-goto start", "continue", *commands)

    def told(out: str) -> list[str]:
        shown = out[out.index("Breakpoint 1, ") :]
        # What arguments hold at the first instruction of a handler is dead stack.
        shown = re.sub(r"\((?:number|pid)=[^)]*\)|Thread \d+ (\".*\" )?(hit )?", "", shown)
        shown = re.sub(r"0x[0-9a-f]+", "ADDRESS", shown)  # of libraries, where they have no lines
        return [line for line in shown.splitlines() if line and not re.match(r"\[|handled|gdbrr|\d+\t(in )?\./", line)]

    assert told(replayed) == told(natively), replayed + natively


def test_between_breakpoints_and_calls(demo: Path) -> None:
    """A call that sends its own thread a signal returns, and then the signal comes."""
    out = played(
        demo,
        *("break plain", "catch syscall tgkill", "rr-goto start", *["continue"] * 9, *["reverse-continue"] * 9),
    )
    hits = re.findall(r"received signal (\w+)|(?:Breakpoint|Catchpoint) \d+(?:, (plain)| \((\w+ \w+))", out)
    names = ["".join(words) for words in hits]
    forwards = [
        "SIGUSR1",
        *("call to", "returned from", "SIGUSR2", "plain"),
        *("call to", "returned from", "SIGTERM", "plain"),
    ]
    assert names == [*forwards, *forwards[-2::-1]], out
    assert len(NO_MORE.findall(out)) == 1, out


def test_in_the_process_that_is_recorded() -> None:
    """It stops where its replay does."""
    out = whole(
        programs.build(SENT),
        *("rr-start", "print handled", "continue", "print handled", "reverse-continue", "print handled"),
        *("reverse-continue", "print handled", "rr-live", "continue", "print handled", "reverse-continue", "continue"),
    )
    assert re.findall(r"^\$\d+ = (\d+)$", out, re.MULTILINE) == ["0", "11", "0", "0", "23"], out
    names = re.findall(r"(?:received signal|signal) (\w+), ", out)
    assert names[:3] == ["SIGUSR1", "SIGUSR2", "SIGUSR1"], out


def test_a_step_back_stops_at_a_signal_as_one_forwards_does(demo: Path) -> None:
    """From the first instruction of its handler."""
    out = played(demo, *("rr-goto start", "continue", "rr-when", "stepi", "reverse-stepi", "rr-when", "stepi", "bt 1"))
    assert out.count("received signal SIGUSR1") == 2 and "#0  with_info (" in out, out
    first, second = re.findall(r"^tick (\S+) of ", out.partition("tick 0 of")[2], re.MULTILINE)
    assert first == second, out


def test_a_signal_of_another_thread_stops_a_step_over_its_time(tmp_path: Path) -> None:
    """In both directions: the step of the first thread is over all that the other one does."""
    name = "signals_beside"
    out = played(
        recorded(programs.build(name, ["-pthread", "-O0"]), tmp_path),
        *("handle SIGUSR1 stop print pass", "rr-goto start", f"break {name}.c:35", "continue", "next", "rr-when"),
        *(f"tbreak {name}.c:36", "continue", "reverse-next", "rr-when"),
        program=name,
    )
    assert out.count("received signal SIGUSR1") == 2, out
    forth, back = re.findall(r"^tick (\S+) of ", out, re.MULTILINE)[-2:]
    assert forth == back, out
