"""gdbrr's commands on a demo and on a recording that the stub serves."""

from __future__ import annotations

import re

import pytest

from harness import ROOT
from harness.run import run
from ingdb.stage import Stage, last, said

pytestmark = pytest.mark.needs("gdb")


def test_replay_stands_at_the_end(stage: Stage) -> None:
    result = stage.gdb("print balance")
    assert "main () at" in result.out
    assert 'tick 11 of 11 (100%), epoch 2 of 3, thread 1 "main", back_stub.c:17\n' in result.out
    assert "$1 = -30\n" in result.out
    assert result.err == ""
    assert stage.notes("serve")[0]["words"][3:] == ["--patience", "0.2", str(stage.place / "x.demo")]


def test_replay_waits_for_the_end_as_a_command_that_moves(stage: Stage) -> None:
    commands = ("set gdbrr patience 0.5", "rr-replay x.demo", "print balance")
    result = stage.gdb(*commands, open=False, env={"STUB_EARLY": "1"})
    assert stage.asked()[0] == {"verb": "arm", "where": "end"}
    assert 'tick 11 of 11 (100%), epoch 2 of 3, thread 1 "main", back_stub.c:17\n' in result.out
    assert "$1 = -30\n" in result.out and "background" not in result.out


def test_replay_that_is_interrupted_goes_on_in_the_background(stage: Stage) -> None:
    environment = {"STUB_EARLY": "1", "STUB_INTERRUPTS": "1"}
    result = stage.gdb("set gdbrr patience 0", "rr-replay x.demo", open=False, env=environment)
    assert "SIGINT" in result.out
    assert "The replay goes on in the background. Try: rr-goto end\n" in result.out


def test_replay_from_the_start_waits_for_nothing(stage: Stage) -> None:
    result = stage.gdb("rr-replay --start x.demo", open=False, env={"STUB_EARLY": "1"})
    assert stage.notes("serve")[0]["words"][3:] == ["--start", str(stage.place / "x.demo")]
    assert stage.asked() == [] and "\ntick 0 of 11" in result.out


def test_replay_loads_the_program_of_the_demo(stage: Stage) -> None:
    assert "$1 = -30\n" in stage.gdb("print balance", load=False).out


def test_replay_says_so_when_gdb_has_another_program(stage: Stage) -> None:
    result = stage.gdb("file /bin/true", "rr-replay x.demo", open=False)
    assert f"Note: this demo is of {stage.program}, and GDB has /" in result.out


def test_back_to_a_change_tells_values_thread_and_line(stage: Stage) -> None:
    result = stage.gdb("rr-back -w balance", "rr-back -w balance")
    assert 'balance: 20 -> -30 at back_stub.c:7 by thread 2 "worker"\n' in result.out
    assert 'balance: 100 -> 20 at back_stub.c:7 by thread 2 "worker"\n' in result.out
    point = {"kind": "change", "addr": stage.code["balance"], "length": 4}
    assert stage.asked() == [{"verb": "arm", "points": [point], "count": 1, "stay": True}] * 2
    # GDB itself resumed: every front end saw the stop.
    assert [note["text"] for note in stage.notes("packet")].count("bc") == 2


def test_back_to_an_earlier_change(stage: Stage) -> None:
    result = stage.gdb("rr-back 3 -w balance", "rr-when")
    assert 'balance: 0 -> 100 at back_stub.c:12 by thread 1 "main"\n' in result.out
    assert "tick 2 of 11 (18%)" in result.out


def test_back_stays_where_nothing_changed(stage: Stage) -> None:
    result = stage.gdb("rr-goto 2", "rr-back -w balance", "rr-when")
    assert "rr-back: balance does not change before here. Try: rr-goto start" in result.err
    assert last(result).startswith("tick 2 of 11")


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("1 + 1", "rr-back: 1 + 1 is not an lvalue. Name a variable or *ADDRESS, something that is in memory"),
        ("$rax", "rr-back: $rax is not in memory, where changes are searched. Try: *(long *) $rax"),
        ("main", "rr-back: main is not an lvalue. Name a variable or *ADDRESS, something that is in memory"),
        ("nosuch", 'rr-back: No symbol "nosuch" in current context.'),
    ],
)
def test_what_cannot_be_watched_is_refused(stage: Stage, expression: str, error: str) -> None:
    assert stage.gdb(f"rr-back -w {expression}").err.strip() == error
    assert stage.asked() == []


def test_back_to_a_place(stage: Stage) -> None:
    result = stage.gdb("rr-back 2 -b withdraw", "info breakpoints")
    assert 'tick 4 of 11 (36%), epoch 1 of 3, thread 2 "worker", back_stub.c:7\n' in result.out
    assert "No breakpoints" in result.out
    point = {"kind": "exec", "addr": stage.code["withdraw"], "length": 1}
    assert stage.asked() == [{"verb": "arm", "points": [point], "count": 2, "stay": True}]


def test_a_list_has_one_form(stage: Stage) -> None:
    result = stage.gdb("rr-history --csv --json balance", "rr-history --json -n 2 --csv balance")
    assert result.err.splitlines() == ["rr-history: --csv and --json are two forms of the list. Name one of them"] * 2
    assert stage.asked() == [] and "{" not in result.out and "value," not in result.out


def test_a_place_that_is_not_there(stage: Stage) -> None:
    assert stage.gdb("rr-back -b nosuch").err.strip() == 'rr-back: Function "nosuch" not defined.'


def test_epochs(stage: Stage) -> None:
    result = stage.gdb("rr-back", "rr-epochs", "rr-back 2", "rr-when")
    assert (
        "    epoch  from tick  operations  events  checkpoint\n"
        "    e0             0           4   100 B\n"
        "    e1             4           4   100 B  *\n"
        "=>  e2             8           4   100 B\n"
        "[====================================>              ] 8 of 11\n"
    ) in result.out
    assert last(result).startswith("tick 0 of 11")


def test_goto(stage: Stage) -> None:
    result = stage.gdb("rr-goto 3", "rr-goto start", "rr-goto end", "rr-goto 50%", "rr-goto e1", "rr-goto 999")
    assert re.findall(r"^tick (\d+) of 11", result.out, re.MULTILINE) == ["11", "3", "0", "11", "5", "4"]
    assert result.err.strip() == "rr-goto: moment 999 is not in this demo. It goes from 0 to 11"
    assert stage.asked()[0] == {"verb": "arm", "moment": "3"}


def test_moves_work_while_gdb_runs_in_reverse(stage: Stage) -> None:
    result = stage.gdb("set exec-direction reverse", "rr-goto 3", "show exec-direction")
    assert "\ntick 3 of 11" in result.out
    assert last(result) == "Reverse."


def test_an_interrupted_search_claims_nothing(stage: Stage) -> None:
    result = stage.gdb("rr-back -w balance", env={"STUB_INTERRUPTS": "1"})
    assert "SIGINT" in result.out
    assert "balance:" not in result.out


def test_breakpoints_survive_a_move(stage: Stage) -> None:
    result = stage.gdb("break withdraw", "watch balance", "rr-goto 3", "info breakpoints")
    assert "breakpoint     keep y" in result.out
    assert "hw watchpoint  keep y" in result.out


def test_front_ends_see_an_ordinary_stop(stage: Stage) -> None:
    words = ["gdb", "-q", "-nx", "-i=mi", stage.program]
    lines = [f"source {ROOT / 'gdbinit.py'}", f"set gdbrr python {stage.place / 'python'}", "rr-replay x.demo",
             "rr-back -b withdraw", "-gdb-exit"]  # fmt: skip
    out = run(*words, cwd=stage.place, env=stage.env, stdin="\n".join([*lines, ""]).encode()).out
    stops = [line for line in out.splitlines() if line.startswith("*stopped")]
    assert 'func="withdraw"' in stops[-1]
    assert 'thread-id="2"' in stops[-1]


def test_save(stage: Stage) -> None:
    result = stage.gdb("rr-save kept.demo", "rr-save kept.demo")
    assert "saved kept.demo (1.2 kB). Try: rr-replay kept.demo\n" in result.out
    assert result.err.strip() == "rr-save: kept.demo exists. Try another name, or remove it first"


def test_start_hands_over_what_run_would(stage: Stage) -> None:
    (stage.place / "there").mkdir()
    result = stage.gdb(
        "set environment STUB_EXTRA one=two", "unset environment HOME", f"set cwd {stage.place}/there",
        "break withdraw", "rr-start -p full --set time=native -- -v 'a b' $STUB_EXTRA*", "show args", "rr-when",
        open=False,
        env={"STUB_LINES": "first\nNOT=real"},
    )  # fmt: skip
    told = stage.notes("serve")[0]
    assert told["words"][0] == "serve"
    assert told["words"][3].startswith("--input=")
    assert told["words"][4:] == [
        "--record", "-p", "full", "--set", "time=native", "--", str(stage.program), "-v", "a b", "one=two*",
    ]  # fmt: skip
    assert told["env"]["STUB_EXTRA"] == "one=two"
    assert told["env"]["STUB_LINES"] == "first\nNOT=real"
    assert "HOME" not in told["env"]
    assert told["cwd"] == f"{stage.place}/there"
    # It ran to where it would have stopped by itself.
    assert "received signal SIGSEGV" in result.out
    assert "'a b' $STUB_EXTRA*" in result.out
    assert 'recording: 11 ticks so far, thread 1 "main", back_stub.c:17\n' in result.out


def test_a_recording_that_has_ended_stands_at_its_end(stage: Stage) -> None:
    result = stage.gdb("rr-start", "rr-back -w balance", open=False, env={"STUB_EXITS": "1"})
    assert "exited with code 07]" in result.out
    assert "balance: 20 -> -30 at back_stub.c:7 by thread" in result.out


def test_start_uses_set_args(stage: Stage) -> None:
    stage.gdb("set args one 'two three'", "rr-start", open=False)
    assert stage.notes("serve")[0]["words"][-3:] == [str(stage.program), "one", "two three"]


def test_start_without_a_shell_expands_nothing(stage: Stage) -> None:
    stage.gdb("set startup-with-shell off", "set args $HOME > 'a b'", "rr-start", open=False)
    assert stage.notes("serve")[0]["words"][-3:] == ["$HOME", ">", "a b"]


def test_start_refuses_redirections(stage: Stage) -> None:
    error = stage.gdb("set args 'a>b' >out", "rr-start", open=False).err.strip()
    assert error == "rr-start: '>' in the arguments is not supported by rr-start. Try: gdbrr record in a shell"
    assert not (stage.place / "out").exists()
    out = stage.gdb("rr-start a < b", "show args", open=False).out
    assert '""' in out, "what was refused is not remembered"


def test_a_recording_is_not_thrown_away_without_asking(stage: Stage) -> None:
    result = stage.gdb("rr-start", "rr-replay x.demo", open=False)
    assert "Kill the program being debugged?" in said(result)
    assert len(stage.notes("killed")) == 1


def test_live_returns_to_the_recorded_process(stage: Stage) -> None:
    result = stage.gdb("rr-start", "rr-goto 3", "rr-live", "rr-when", open=False)
    assert stage.asked()[-1] == {"verb": "arm", "where": "live"}
    assert last(result).startswith("recording: 11 ticks so far")


def test_live_needs_a_recording(stage: Stage) -> None:
    error = stage.gdb("rr-live").err.strip()
    assert error == "rr-live: nothing is being recorded. Try: rr-start"
