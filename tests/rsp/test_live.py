"""A live process behind the proxy, and the way from it into its past and back."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from harness.said import NO_MORE
from rsp.conftest import Served

pytestmark = pytest.mark.needs("gdb", "gdbserver")

TO_DEPOSIT = ("break deposit if amount == 40", "continue")
BACK_TO_LIVE = ("python ask(verb='arm', where='live')", "reverse-continue")


def status(out: str) -> dict[str, object]:
    return dict(json.loads(re.findall(r"^answer (.*)$", out, re.MULTILINE)[-1])["ok"])


def test_it_runs_as_under_any_debugger(live: Served) -> None:
    out = live.gdb("continue")
    assert "exited with code 07" in out
    assert "SIGSTOP" not in out
    assert "SIGCONT" not in out


def test_threads_born_later_do_not_join_the_stop_it_was_handed_over_in(live: Served) -> None:
    out = live.gdb("break main", "continue", "continue")
    assert "Breakpoint 1, main ()" in out
    assert "received signal" not in out
    assert "exited with code 07" in out


def test_into_the_past_and_back(live: Served) -> None:
    out = live.gdb(
        *TO_DEPOSIT,
        *("info threads", "watch balance", "reverse-continue", *BACK_TO_LIVE),
        *("print amount", "continue", "continue", "info threads", "delete", "continue"),
    )
    # The breakpoint, then the worker's withdrawal of 2 before it, which the watchpoint finds in the past.
    assert "withdraw (amount=2)" in out
    assert re.search(r"Old value = 157\nNew value = 159", out)
    # Back in the live process the same breakpoints are at work.
    assert "$1 = 40" in out
    assert re.search(r"New value = 197", out)
    assert "exited with code 07" in out
    assert "New Thread" not in out.split("hit Breakpoint")[1]


def test_the_past_ends_where_the_process_stands(live: Served) -> None:
    out = live.gdb(
        *TO_DEPOSIT,
        *("watch balance", "reverse-continue", "reverse-continue", "continue", "continue", "continue"),
        *("print amount", "print balance", "stepi", "continue"),
    )
    past = out.split("Old value")[-1]
    assert "$1 = 40" in past
    assert "$2 = 157" in past
    assert NO_MORE.search(past)
    assert "New value = 197" not in out


def test_a_live_status_and_save(live: Served, tmp_path: Path) -> None:
    target = tmp_path / "kept.demo"
    out = live.gdb(*TO_DEPOSIT, f"python ask(verb='save', path={str(target)!r})", "python ask(verb='status')")
    assert target.read_text() == "saved"
    told = status(out)
    assert (told["live"], told["recording"], told["ticks"]) == (True, True, 6)


def test_after_its_end_the_recording_can_be_opened(live: Served) -> None:
    opening = "maint packet qGdbrr:" + b'{"verb":"open"}'.hex()
    out = live.gdb("continue", opening, "attach 1", "watch balance", "reverse-continue")
    assert "exited with code 07" in out
    assert re.search(r"Old value = 235\nNew value = 240", out)


def test_live_stepping_over_an_operation(live: Served) -> None:
    out = live.gdb("break 48 if round == 2", "continue", "delete", *["next"] * 8)
    assert "gr_fake_gate" not in out
    assert "received signal" not in out


def test_killing_the_live_process(live: Served) -> None:
    out = live.gdb(*TO_DEPOSIT, "kill", "info threads")
    assert "No threads" in out
    assert live.end() == 0
    assert not live.survivors()
