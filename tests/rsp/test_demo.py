"""A replay under a real GDB: backwards, forwards, and at both ends of time."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gdbrr.timeline.model import Moment
from harness.said import NO_MORE
from rsp.conftest import ROOT, TOKEN, Served, Starter, as_words, gdb_words, survivors
from rsp.fake import ORDER, FakeTimeline

pytestmark = pytest.mark.needs("gdb", "gdbserver")


def values(out: str, name: str) -> list[int]:
    return [int(value) for value in re.findall(rf"^{name} = (-?\d+)$", out, re.MULTILINE)]


def answers(out: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in re.findall(r"^answer (.*)$", out, re.MULTILINE)]


def changes() -> list[tuple[int, int]]:
    """(old, new) of every change of `balance`, as the balances of the program's operations add up."""
    out = []
    balance, rounds = 100, [0, 0]
    for thread in ORDER:
        rounds[thread] += 1
        new = balance + (rounds[0] * 10 if thread == 0 else -rounds[1])
        out.append((balance, new))
        balance = new
    return out


def test_it_stands_at_the_end_with_all_threads_in_the_program(demo: Served) -> None:
    out = demo.gdb(
        "info threads", "thread apply all backtrace", "print $_siginfo.si_signo", "python ask(verb='status')"
    )
    assert re.search(r"1 +Thread 7001\.7001 .* main \(\)", out)
    assert re.search(r"\* 2 +Thread 7001\.7002 .* worker \(", out)
    assert "gr_fake_gate" not in out
    (status,) = answers(out)
    ok = status["ok"]
    assert isinstance(ok, dict), answers(out)
    assert (ok["moment"], ok["start"], ok["end"], ok["ticks"]) == ("10", "0", "10", 10)
    assert (ok["epoch"], ok["epochs"], ok["live"], ok["approximate"]) == (2, 3, False, False)


def test_reverse_continue_visits_every_change_and_stops_at_the_beginning(demo: Served) -> None:
    wanted = list(reversed(changes()))
    out = demo.gdb("watch balance", *["reverse-continue"] * (len(wanted) + 1), "print balance")
    assert list(zip(values(out, "New value"), values(out, "Old value"), strict=True)) == wanted
    assert len(NO_MORE.findall(out)) == 1
    assert "$1 = 100" in out


def test_forwards_the_same_changes_and_the_end(demo: Served) -> None:
    wanted = changes()
    go = "python ask(verb='arm', where='start')"
    out = demo.gdb(go, "reverse-continue", "watch balance", *["continue"] * (len(wanted) + 2), "info threads")
    assert list(zip(values(out, "Old value"), values(out, "New value"), strict=True)) == wanted
    assert len(NO_MORE.findall(out)) == 2
    assert re.search(r"\* 2 +Thread 7001\.7002", out)


def test_breakpoints_both_ways(demo: Served) -> None:
    out = demo.gdb(
        *("break deposit", "reverse-continue", "reverse-continue", "print amount"),
        *("continue", "print amount", "continue"),
    )
    assert re.findall(r"deposit \(amount=(\d+)\)", out) == ["50", "40", "50"]
    assert re.findall(r"\$\d = (\d+)", out) == ["40", "50"]
    assert len(NO_MORE.findall(out)) == 1


def test_a_conditional_breakpoint_backwards(demo: Served) -> None:
    out = demo.gdb("break withdraw if amount == 2", "reverse-continue", "print amount", "reverse-continue")
    assert re.findall(r"\$\d = (\d+)", out) == ["2"]
    assert len(NO_MORE.findall(out)) == 1


def test_stepping_backwards_undoes_stepping_forwards(demo: Served) -> None:
    out = demo.gdb(
        *("break deposit if amount == 30", "reverse-continue", "delete", "stepi", "stepi", "stepi", "print $pc"),
        *("reverse-stepi", "print $pc", "stepi", "print $pc"),
        *("reverse-stepi", "reverse-stepi", "reverse-stepi", "print amount"),
    )
    pcs = re.findall(r"\(void \(\*\)\(\)\) (0x\w+)", out)
    assert len(pcs) == 3
    assert pcs[0] == pcs[2] != pcs[1]
    assert out.rstrip().endswith("30")
    assert "received signal" not in out


def test_reverse_next_step_and_finish(demo: Served) -> None:
    out = demo.gdb(
        *("break touch", "reverse-continue", "delete", "reverse-finish"),
        *("info symbol $pc", "reverse-next", "info symbol $pc", "reverse-step", "info symbol $pc"),
    )
    assert re.findall(r"^(\w+) \+ \d+ in section", out, re.MULTILINE)[:2] == ["worker", "worker"]
    assert "received signal" not in out


def test_an_operation_is_one_step(demo: Served) -> None:
    """From the call of an operation `stepi` leads behind it, and others whose turn it was have run."""
    out = demo.gdb(
        *("python ask(verb='arm', moment='2')", "reverse-continue", "x/i $pc", "info threads"),
        *("stepi", "x/i $pc", "python ask(verb='status')", "next", "next", "print visits"),
    )
    calls = re.findall(r"=> (0x\w+) <main\+\d+>:\s+(\w+)", out)
    assert calls[0][1] == "call"
    assert int(calls[1][0], 16) == int(calls[0][0], 16) + 5
    ok = answers(out)[1].get("ok")
    assert isinstance(ok, dict), answers(out)
    assert Moment.parse(str(ok["moment"])) == Moment(2, int(calls[1][0], 16), 1)
    assert "gr_fake" not in out.replace("gr_fake_op", "")


def test_stepping_into_an_operation_comes_out_behind_it(demo: Served) -> None:
    """stepi on the call itself, in the program's code, ends in the engine: it goes on until the program is back."""
    out = demo.gdb(
        "break 48 if round == 2", "reverse-continue", "delete", "reverse-stepi", "x/i $pc", "stepi", "x/i $pc"
    )
    lines = re.findall(r"=> (0x\w+)", out)
    assert len(lines) == 2
    assert "libgdbrr" not in out
    assert "gr_fake_gate" not in out


def test_thread_locals_follow(demo: Served) -> None:
    out = demo.gdb(
        *("print mine", "thread 1", "print mine", "break deposit if amount == 20", "reverse-continue"),
        *("print mine", "thread 2", "print mine"),
    )
    assert re.findall(r"\$\d = (\d+)", out) == ["505", "10", "6", "105"]


def test_ids_never_change(demo: Served) -> None:
    out = demo.gdb(
        *("info threads", "watch balance", "reverse-continue", "reverse-continue", "info threads", "continue"),
        *("info threads", "python ask(verb='arm', where='start')", "reverse-continue", "info threads"),
    )
    assert set(re.findall(r"Thread (7\d+\.\d+)", out)) == {"7001.7001", "7001.7002"}
    assert "New Thread" not in out


def test_ids_that_are_none_do_not_reach_gdb(serve: Starter) -> None:
    """INVARIANT(ids-are-ids): GDB 13.1 aborts on a thread 0 or -1, and a demo can hold anything."""
    back = ("watch balance", "reverse-continue", "reverse-continue", "thread 1", "backtrace")
    out = serve("no ids").gdb("info threads", *back, "info threads")
    assert "internal-error" not in out
    assert re.search(r"^#\d .*main \(\)", out, re.MULTILINE)
    threads = re.findall(r"Thread (\d+\.\d+)", out)
    assert len(set(threads)) == 2
    assert all(int(number) > 1 << 30 for thread in threads for number in thread.split("."))


def test_a_program_that_crashed_stands_at_its_crash(serve: Starter) -> None:
    # GIVEN a demo whose last segment ends in a fault, WHEN GDB connects, goes to the start and comes forward again
    start = ("python ask(verb='arm', where='start')", "reverse-continue", "continue", "continue")
    out = serve("crash").gdb("print $_siginfo.si_signo", "info symbol $pc", *start, "info symbol $pc")
    # THEN it is at the crash at once, and again, and there time ends
    before, after = out.split("answer")
    assert "$1 = 11" in before
    assert "received signal SIGSEGV" in after
    assert NO_MORE.search(after.split("SIGSEGV")[1])
    assert len(re.findall(r"gr_fake_gate \+ \d+ in section", out)) == 2


def test_wide_watchpoints_both_ways(demo: Served) -> None:
    moment = "python ask(verb='status')"
    out = demo.gdb(
        *("watch -l *(char(*)[64])wide", "reverse-continue", moment, "reverse-continue", moment),
        *("continue", "continue", "delete", "reverse-stepi", moment),
    )
    assert out.count("hit Hardware watchpoint") == 4, out
    last, before, again = [reply["ok"]["moment"] for reply in answers(out)]  # type: ignore[index, call-overload]
    assert last == again != before


def test_more_watchpoints_than_the_cpu_has(demo: Served, known: FakeTimeline) -> None:
    names = ["balance", "visits", "mine", *(f"wide[{at}]" for at in (1, 3, 5, 7, 9))]
    out = demo.gdb("starti", *(f"watch -l {name}" for name in names), *["continue"] * 6, *["reverse-continue"] * 7)
    hits = re.findall(r"hit Hardware watchpoint (\d+)", out)
    assert len(hits) == 12 and hits[:6] == hits[6:][::-1], out
    assert NO_MORE.search(out)


def test_an_access_watchpoint(demo: Served) -> None:
    out = demo.gdb("awatch visits", "reverse-continue", "info symbol $pc", "reverse-continue", "rwatch balance")
    assert out.count("hit Hardware access (read/write) watchpoint") == 2
    assert "touch + " in out


def test_changes_are_undone_by_the_next_move(demo: Served) -> None:
    out = demo.gdb(
        *("break deposit", "reverse-continue", "set var $rax = 4", "print $rax", "print balance = 5"),
        *("delete", "print deposit(3)", "x/d &balance", "stepi", "x/d &balance"),
    )
    assert "$1 = 4" in out and "$2 = 5" in out
    assert re.search(r"<balance>:\t8\n", out)
    assert out.count("what was changed here is undone") == 1
    assert out.rstrip().endswith("190")


def test_run_starts_again(demo: Served) -> None:
    out = demo.gdb("starti", "print balance", "info threads", "break deposit", "continue", "continue")
    assert "$1 = 100" in out
    assert re.findall(r"deposit \(amount=(\d+)\)", out) == ["10", "20"]


def test_armed_targets(demo: Served) -> None:
    def armed(**target: object) -> tuple[str, str, str]:
        return f"python ask(verb='arm', **{target!r})", "reverse-continue", "python ask(verb='status')"

    out = demo.gdb(
        *armed(moment="3"),
        *armed(epochs_back=1),
        *armed(epochs_back=1),
        *armed(where="end"),
        *armed(percent=50),
        *armed(epoch=2),
        *armed(where="start"),
    )
    moments = [reply["ok"]["moment"] for reply in answers(out) if "moment" in reply["ok"]]  # type: ignore[index, operator]
    assert moments == ["3", "0", "0", "10", "5", "8", "0"]
    assert "received signal" not in out
    assert out.count("stopped.") >= 5


def test_armed_points_with_a_count(demo: Served, known: FakeTimeline) -> None:
    out = demo.gdb(
        "python ask(verb='arm', count=3, points=[dict(kind='exec', addr=int(gdb.parse_and_eval('*deposit').address))])",
        *("reverse-continue", "info symbol $pc", "python ask(verb='status')", "python ask(verb='epochs')"),
    )
    assert "deposit in section" in out
    ok = answers(out)[1].get("ok")
    assert isinstance(ok, dict), answers(out)
    third = [moment for moment, row in zip(known.moments(), known.trace(), strict=True) if row[3][16] == moment.pc]
    entry = int(re.findall(r"#1$", str(ok["moment"]))[0][1:])
    assert entry == 1
    assert Moment.parse(str(ok["moment"])) in third
    # Rounds of main are ticks 0, 2, 3, 5 and 8; the third last of them is 3.
    assert Moment.parse(str(ok["moment"])).tick == 3
    assert len(answers(out)[2]["ok"]) == 3  # type: ignore[arg-type]


def test_wrong_requests_say_what_is_wrong(demo: Served) -> None:
    out = demo.gdb(
        *("python ask(verb='dance')", "python ask(verb='arm', moment='11')", "python ask(verb='arm')"),
        *("python ask(verb='arm', where='live')", "python ask(verb='save')", "python ask(verb='open')", "info threads"),
    )
    replies = answers(out)
    assert len(replies) == 6
    assert all(reply["error"] and reply["hint"] for reply in replies)
    assert "7001.7002" in out


def test_machine_interface(demo: Served) -> None:
    words = [word for word in gdb_words(demo.program, f"target extended-remote {demo.path}") if word != "-batch"]
    script = "-break-watch balance\n-exec-continue --reverse\n-exec-step --reverse\n-thread-info\n-gdb-exit\n"
    out = subprocess.run(
        [*words, "-i", "mi"], input=script, capture_output=True, text=True, timeout=60, check=False
    ).stdout
    assert re.search(r'\*stopped,reason="watchpoint-trigger".*old="235",new="240"', out)
    assert 'reason="end-stepping-range"' in out
    assert 'target-id="Thread 7001.7002"' in out


def test_a_pipe_instead_of_a_socket(program: Path, tmp_path: Path) -> None:
    environment = f"env PYTHONPATH={ROOT}:{ROOT / 'tests'} {TOKEN}={tmp_path}"
    server = f"{environment} {sys.executable} -m rsp.serve_fake demo {program} -"
    words = gdb_words(program, f"target remote | {server}")
    commands = as_words(("watch balance", "reverse-continue"))
    run = subprocess.run(
        [*words, *commands], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )
    assert (values(run.stdout, "Old value"), values(run.stdout, "New value")) == ([235], [240])
    assert not survivors(str(tmp_path))
