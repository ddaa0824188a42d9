"""For which resume a Ctrl-C is that comes while nothing runs.

Runs in: pytest. May call: a server with a made-up timeline.
Owns: nothing.
"""

from __future__ import annotations

import pytest

from rsp.conftest import Client

pytestmark = pytest.mark.needs("gdb", "gdbserver")


@pytest.mark.parametrize(
    ("between", "interrupts"),
    [
        ((), True),
        # of a condition that GDB tests itself, and goes on
        ((b"z0,401136,1", b"m404040,4", b"g"), True),
        # of the first resume of a connection
        ((b"QPassSignals:", b"QProgramSignals:0", b"vCont?"), True),
        # of a stop that it tells of
        ((b"qXfer:threads:read::0,1000", b"z0,401136,1", b"g"), False),
        ((b"qfThreadInfo", b"qsThreadInfo"), False),
    ],
)
def test_ctrl_c_that_comes_behind_a_stop(client: Client, between: tuple[bytes, ...], interrupts: bool) -> None:
    """INVARIANT(ctrl-c-until-told)"""
    client.ask(b"Z0,401136,1")
    assert client.ask(b"bc").startswith(b"T05")
    client.interrupt()
    for each in between:
        client.ask(each)
    assert client.ask(b"vCont;c").startswith(b"T02" if interrupts else b"T05")


@pytest.mark.parametrize("packet", [b"QPassSignals:", b"QProgramSignals:0", b"vCont?"])
def test_ctrl_c_in_the_middle_of_a_resume(client: Client, packet: bytes) -> None:
    """GDB has told of the last stop, and the terminal is the program's again. What comes earlier is for that stop."""
    client.ask(b"qXfer:threads:read::0,1000")
    client.interrupt()
    client.ask(b"m404040,4")
    assert client.ask(b"vCont;c").startswith(b"T05")
    client.ask(b"qXfer:threads:read::0,1000")
    client.interrupt()
    client.ask(packet)
    assert client.ask(b"vCont;c").startswith(b"T02")
