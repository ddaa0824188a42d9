"""How sessions end, and that nothing of them stays behind."""

from __future__ import annotations

import os
import signal

import pytest

from rsp.conftest import Client, Served, Starter

pytestmark = pytest.mark.needs("gdb", "gdbserver")


@pytest.mark.parametrize("last", [b"k", b"D;1b59", b"vKill;1b59"])
def test_the_last_packets_end_the_server(demo: Served, last: bytes) -> None:
    client = Client(demo)
    client.ask(b"qSupported:multiprocess+")
    if last == b"k":
        client.send(last)
    else:
        assert client.ask(last) == b"OK"
    assert demo.end() == 0
    assert not demo.survivors()
    assert not demo.path.parent.exists()
    client.close()


def test_after_a_kill_an_extended_session_can_run_again(client: Client) -> None:
    assert client.ask(b"!") == b"OK"
    assert client.ask(b"vKill;1b59") == b"OK"
    assert client.ask(b"?") == b"W00"
    assert client.ask(b"g").startswith(b"E.no process")
    assert client.ask(b"vRun;").startswith(b"T05")
    assert client.ask(b"qC") == b"QCp1b59.1b59"


def test_a_disconnect_ends_the_server(demo: Served) -> None:
    client = Client(demo)
    client.ask(b"?")
    client.close()
    assert demo.end() == 0
    assert not demo.survivors()


@pytest.mark.parametrize("connected", [False, True])
def test_sigterm_ends_the_server(demo: Served, connected: bool) -> None:
    client = Client(demo) if connected else None
    if client:
        client.ask(b"?")
    demo.process.send_signal(signal.SIGTERM)
    assert demo.end() == 0
    assert not demo.survivors()
    assert not demo.path.parent.exists()
    if client:
        client.close()


def test_no_packet_is_left_unread(demo: Served) -> None:
    """INVARIANT(nothing-unread): who waits for an answer comes to the end of the connection, not to a reset."""
    client = Client(demo)
    client.ask(b"?")
    # GIVEN a packet that has come when the server finds out that it has to end
    demo.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, demo.process.pid, os.WSTOPPED)
    client.send(b"?")
    # WHEN it ends
    demo.process.send_signal(signal.SIGTERM)
    demo.process.send_signal(signal.SIGCONT)
    # THEN
    with pytest.raises(EOFError):
        client.reply()
    assert demo.end() == 0
    client.close()


@pytest.mark.parametrize("connected", [False, True])
def test_the_end_of_the_lifeline_ends_the_server(serve: Starter, connected: bool) -> None:
    served = serve("demo", lifeline=True)
    client = Client(served) if connected else None
    if client:
        client.ask(b"?")
    assert served.process.stdin is not None
    served.process.stdin.close()
    assert served.end() == 0
    assert not served.survivors()
    if client:
        client.close()


def test_a_killed_server_leaves_no_process_behind(demo: Served) -> None:
    client = Client(demo)
    client.ask(b"?")
    client.ask(b"bs")
    demo.process.kill()
    demo.end()
    assert not demo.survivors()
    client.close()
