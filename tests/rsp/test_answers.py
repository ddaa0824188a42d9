"""Answers that come late, and moves that come to nothing."""

from __future__ import annotations

import json
import re

import pytest

from gdbrr.rsp.packet import frame
from rsp.conftest import Client, Served, Starter

pytestmark = pytest.mark.needs("gdb", "gdbserver")


def answers(out: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in re.findall(r"^answer (.*)$", out, re.MULTILINE)]


@pytest.mark.parametrize("acknowledged", [True, False])
def test_who_is_asked_again_before_he_has_answered_repeats_nothing(client: Client, acknowledged: bool) -> None:
    """GDB asks again when it has waited for its `remotetimeout`. What it is sent then, it takes for the answer."""
    if not acknowledged:
        assert client.ask(b"QStartNoAckMode") == b"OK"
    named = client.ask(b"qC")
    assert named.startswith(b"QC")
    client.send_plain(b"-" if acknowledged else b"")
    assert not acknowledged or client.reply() == named
    client.send_plain(frame(b"vMustReplyEmpty") + b"-" + frame(b"qC"))
    assert [client.reply(), client.reply()] == [b"", named]
    assert client.ask(b"qAttached") == b"0"


def test_what_cannot_be_asked_again_is_refused_until_a_move_has_found_the_moment(serve: Starter) -> None:
    """A write has to be undone later, and a bookmark kept: both need the moment, and GDB does not wait for it."""
    late = serve("late")
    late.complains = "gdbrr: which moment this is takes long to find out. Try: rr-when, and then this again\n"
    write, mark = "print balance = 7", "python ask(verb='marks', add='here')"
    out = late.gdb(
        *("break deposit", "reverse-continue", "stepi", "print balance", write, "print balance", mark),
        *("python ask(verb='arm', where='here', named=True)", "reverse-continue", mark, write, "print balance"),
    )
    assert len(answers(out)) == 3, out
    refused, armed, kept = answers(out)
    assert "takes long" in str(refused["error"]) and "rr-when" in str(refused["hint"]), out
    assert "ok" in armed and "here" in kept["ok"], out  # type: ignore[operator]
    assert out.count("Cannot access memory") == 1, out
    before, after, changed, shown = re.findall(r"^\$\d = (\d+)$", out, re.MULTILINE)
    assert before == after != "7" and changed == shown == "7", out


def test_a_target_that_is_not_there_fails_the_command_and_not_the_place(demo: Served) -> None:
    """Where it stops looks like where it was sent to; whoever has sent it there asks."""
    out = demo.gdb(
        *("python ask(verb='arm', moment='3')", "reverse-continue", "python ask(verb='outcome')"),
        *("python ask(verb='arm', moment='3:0x10#1')", "reverse-continue", "python ask(verb='outcome')"),
        *("python ask(verb='status')", "python ask(verb='arm', moment='4')", "python ask(verb='outcome')"),
    )
    _, there, _, failed, status, _, again = answers(out)
    assert there == again == {"ok": None}, out
    assert failed["error"] == "the moment 3:0x10#1 does not exist", out
    assert status["ok"]["moment"] == "3", out  # type: ignore[index]
    assert "gdbrr: " not in out, out
