"""The packets themselves, interruption, and what goes wrong beside them."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import threading
import time
from pathlib import Path

import pytest

from gdbrr.errors import GdbrrError
from gdbrr.rsp.link import QUIET_SECONDS, Link, Manner, Meter, Where
from gdbrr.rsp.packet import frame, from_hex, to_hex
from gdbrr.rsp.stop import SIGNAL_INT
from gdbrr.rsp.upstream import Told, Upstream
from rsp.conftest import Client, Served, Starter, gdb_words, with_token

pytestmark = pytest.mark.needs("gdb", "gdbserver")


def test_features(demo: Served) -> None:
    client = Client(demo)
    features = client.ask(b"qSupported:multiprocess+;swbreak+").decode().split(";")
    assert {"ReverseContinue+", "ReverseStep+", "multiprocess+", "swbreak+", "qXfer:threads:read+"} <= set(features)
    dangerous = ("QNonStop", "fork-events", "exec-events", "QThreadEvents", "Qbtrace", "BreakpointC", "no-resumed")
    assert not [feature for feature in features if feature.startswith(dangerous)]
    client.close()


def test_ids_and_lists(client: Client) -> None:
    assert client.ask(b"?").startswith(b"T00")
    assert client.ask(b"qC") == b"QCp1b59.1b5a"
    assert client.ask(b"qfThreadInfo") == b"mp1b59.1b59,p1b59.1b5a"
    assert client.ask(b"qsThreadInfo") == b"l"
    xml = client.ask(b"qXfer:threads:read::0,1000")
    assert b'id="p1b59.1b59"' in xml
    assert b"core=" not in xml
    assert client.ask(b"Tp1b59.1b59") == b"OK"
    assert client.ask(b"Tp1b59.1111").startswith(b"E")
    assert client.ask(b"Hgp1b59.1111").startswith(b"E")
    whole = client.ask(b"qXfer:threads:read::0,1000")[1:]
    parts, offset = b"", 0
    while True:
        part = client.ask(b"qXfer:threads:read::%x,20" % offset)
        parts += part[1:]
        offset = len(parts)
        if part[:1] == b"l":
            break
    assert parts == whole


def test_files_of_the_process_are_those_of_the_leaf(client: Client) -> None:
    client.ask(b"?")
    reply = client.ask(b"vFile:open:" + to_hex("/proc/7001/task/7002/comm") + b",0,0")
    assert reply.startswith(b"F")
    assert not reply.startswith(b"F-1")
    assert client.ask(b"vFile:pread:" + reply[1:] + b",100,0") == b"F8;program\n"
    fd = client.ask(b"vFile:open:" + to_hex(__file__) + b",0,0")[1:]
    assert client.ask(b"vFile:pread:" + fd + b",3,0") == b'F3;"""'
    # A switch to another leaf leaves opened files alone.
    assert client.ask(b"bc").startswith(b"T05replaylog:begin;")
    assert client.ask(b"vFile:pread:" + fd + b",3,0") == b'F3;"""'
    assert client.ask(b"vFile:close:" + fd) == b"F0"
    assert client.ask(b"vFile:unlink:" + to_hex("/tmp/x")).startswith(b"F-1")
    assert client.ask(b"qXfer:exec-file:read:1b59:0,100").endswith(b"/program")


def test_what_is_refused_and_what_is_not_understood(client: Client) -> None:
    assert client.ask(b"QNonStop:0") == b"OK"
    assert client.ask(b"QNonStop:1").startswith(b"E.")
    assert client.ask(b"vCont;r1,2:p1b59.1b59") == b"E01"
    assert client.ask(b"vCont?") == b"vCont;c;C;s;S"
    assert client.ask(b"qRcmd," + to_hex("exit")) == b""
    assert client.ask(b"Z3,404040,8") == b""
    assert client.ask(b"G00").startswith(b"E.registers of another length")
    assert client.ask(b"M4,1:00").startswith(b"E")
    assert client.ask(b"X404040,0:") == b"OK"
    assert client.ask(b"qGdbrr:zz") == b""
    assert "error" in json.loads(from_hex(client.ask(b"qGdbrr:" + to_hex("{}"))))
    assert client.ask(b"?").startswith(b"T00")


def test_a_thread_named_for_stepping_backwards(client: Client) -> None:
    client.ask(b"?")
    assert client.ask(b"bs").endswith(b"thread:p1b59.1b5a;")
    assert client.ask(b"Hcp1b59.1b5a") == b"OK"
    assert client.ask(b"bs").endswith(b"thread:p1b59.1b5a;")


def test_ctrl_c_ends_a_search_and_leaves_everything_as_it_was(serve: Starter) -> None:
    # GIVEN a search that takes half a minute
    client = Client(serve("demo", slow=30))
    client.ask(b"qSupported:multiprocess+;swbreak+")
    before = general(client)
    client.ask(b"Z0,401136,1")
    # WHEN it is interrupted once it says that it is at work
    client.send(b"bc")
    progress = client.reply()
    client.interrupt()
    # THEN it stops where it was
    assert from_hex(progress[1:]) == b"gdbrr: searching 50%\n"
    reply = client.reply()
    while reply.startswith(b"O"):
        reply = client.reply()
    assert reply.startswith(b"T02")
    assert general(client) == before
    client.close()


def test_ctrl_c_reaches_gdb_users(serve: Starter) -> None:
    served = serve("demo", slow=30)
    words = gdb_words(served.program, f"target extended-remote {served.path}")
    words[3:3] = ["-ex", "set height 0"]
    process = subprocess.Popen(
        [*words[:-1], "-ex", "break deposit", "-ex", "reverse-continue", "-ex", "print balance", words[-1]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if "searching" in line:
            process.send_signal(signal.SIGINT)
            break
    rest = process.stdout.read()
    process.stdout.close()
    process.wait(30)
    assert "SIGINT" in rest, seen + rest


def test_interrupting_a_process_that_runs() -> None:
    """No leader of its process group, and everything blocked: gdbserver's own way would not reach it."""
    program = "import signal as s; s.pthread_sigmask(s.SIG_BLOCK, range(1, 65)); print(flush=True); s.pause()"
    process = subprocess.Popen(["python3", "-c", program], stdout=subprocess.PIPE)
    upstream = Upstream()
    try:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        upstream.attach(process.pid, Told())
        for _ in range(2):
            upstream.resume(b"vCont;c")
            upstream.interrupt()
            assert upstream.wait_stop({}).signal == SIGNAL_INT
        upstream.kill()
        assert process.wait() == -signal.SIGKILL
    finally:
        upstream.close()
        process.kill()
        process.wait()


@pytest.mark.parametrize("late", [False, True])
def test_killing_a_process_that_runs(late: bool) -> None:
    """gdbserver hears nothing while its process runs: a request would take all the time that an answer may take.

    LATE: when the process is to be killed, gdbserver has not even read that it shall run.
    """
    process = subprocess.Popen(["sleep", "1000"])
    upstream = Upstream()
    try:
        for _ in range(2):
            upstream.attach(process.pid, Told())
            if late:
                os.kill(upstream.server_pid, signal.SIGSTOP)
                threading.Timer(0.2, os.kill, (upstream.server_pid, signal.SIGCONT)).start()
            upstream.resume(b"vCont;c")
            upstream.kill()
            # THEN no request was in vain, which would have ended the gdbserver: it is good for the next one
            assert process.wait() == -signal.SIGKILL and upstream.alive
            process = subprocess.Popen(["sleep", "1000"])
    finally:
        upstream.close()
        process.kill()
        process.wait()


def test_attaching_to_nothing_says_so() -> None:
    upstream = Upstream()
    try:
        with pytest.raises(GdbrrError, match="cannot attach to process"):
            upstream.attach(1 << 22, Told())
    finally:
        upstream.close()


def test_a_gdbserver_that_died_is_an_error_and_not_the_end(demo: Served) -> None:
    client = Client(demo)
    client.ask(b"qSupported:multiprocess+;swbreak+")
    for pid in children(demo.process.pid, "gdbserver"):
        os.kill(pid, signal.SIGKILL)
    client.send(b"vCont;c")
    replies = [client.reply()]
    while replies[-1].startswith(b"O"):
        replies.append(client.reply())
    assert b"gdbserver ended" in from_hex(replies[0][1:])
    assert replies[-1].startswith(b"T00")
    assert client.ask(b"bc").startswith(b"T05replaylog:begin")
    client.close()


def children(pid: int, name: str) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        pids = [int(word) for word in file.read().split()]
    return [each for each in pids if Path(f"/proc/{each}/comm").read_text(errors="replace").strip() == name]


def test_a_mistake_in_the_server_ends_one_command_and_not_the_session(serve: Starter) -> None:
    served = serve("faulty")
    served.complains = r"in previous\n.*\nZeroDivisionError: previous\n(.*\n)+ZeroDivisionError: epochs"
    client = Client(served)
    client.ask(b"qSupported:multiprocess+;swbreak+")
    before = general(client)
    # WHEN something is wrong in a move: a word on the terminal, and it stays where it was
    client.send(b"bs")
    assert b"internal error: ZeroDivisionError: previous" in from_hex(client.reply()[1:])
    assert client.reply().startswith(b"T00")
    assert general(client) == before
    # WHEN something is wrong in the answer to a question: an error
    answer = json.loads(from_hex(client.ask(b"qGdbrr:" + to_hex('{"verb":"epochs"}'))))
    assert answer["error"] == "internal error: ZeroDivisionError: epochs"
    assert "verbose" in answer["hint"]
    # THEN the session goes on
    assert client.ask(b"bc").startswith(b"T05replaylog:begin")
    client.close()


def test_only_this_user_can_connect(demo: Served) -> None:
    assert stat.S_IMODE(demo.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(demo.path.parent.stat().st_mode) == 0o700


def kill_gdbservers(demo: Served) -> None:
    """As where memory runs out. Its processes go with a gdbserver, so they are waited for, too."""
    pids = [int(line.split()[0]) for line in with_token(demo.token) if line.endswith(" gdbserver")]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    while any(Path("/proc", str(pid), "maps").read_text() for pid in pids if Path("/proc", str(pid)).exists()):
        time.sleep(0.001)


def general(client: Client) -> bytes:
    """Registers up to rip. In those of vectors is what string functions of the fake engine left, as numbers."""
    return client.ask(b"g")[: 17 * 16]


def stack(client: Client) -> bytes:
    """A question about the memory where the stack pointer points."""
    return b"m%x,8" % int.from_bytes(from_hex(client.ask(b"g"))[56:64], "little")


def test_another_leaf_stands_where_a_gdbserver_went_down(demo: Served) -> None:
    client = Client(demo)
    assert client.ask(b"?").startswith(b"T00")
    client.ask(b"bs")
    memory = stack(client)
    before = general(client), client.ask(memory)
    for question in (memory, b"g", b"?", b"qXfer:threads:read::0,1000"):
        kill_gdbservers(demo)
        assert client.ask(question)[:1] != b"E"
        assert (general(client), client.ask(memory)) == before
    client.close()


def test_what_gdb_is_told_where_nobody_knows_where_the_leaf_stood(demo: Served) -> None:
    """GDB 13.1 goes round and round on an error as the reason of a stop, and fails by itself on a text about memory."""
    demo.complains = "gdbserver ended unexpectedly"
    client = Client(demo)
    client.ask(b"?")
    client.ask(b"bs")
    client.ask(b"bs")
    memory = stack(client)
    assert client.ask(b"s").startswith(b"T")
    kill_gdbservers(demo)
    assert client.ask(memory) == b"E01"
    assert client.ask(b"g").startswith(b"E.gdbserver ended unexpectedly")
    assert client.ask(b"?").startswith(b"T00")
    assert client.ask(memory)[:1] != b"E"
    client.close()


def test_progress_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gdbrr.rsp.link.QUIET_SECONDS", 0.0)
    monkeypatch.setattr("gdbrr.rsp.link.EVERY_SECONDS", 0.0)
    ours, gdbs = socket.socketpair()
    with ours, gdbs:
        meter = Meter(Link(ours.fileno(), ours.fileno()))
        for fraction in (0.0, 0.001, 0.0, 0.5, 0.5):
            meter("searching", fraction)
        ours.shutdown(socket.SHUT_WR)
        said = b"".join(iter(lambda: gdbs.recv(4096), b""))
    assert said == frame(b"O" + to_hex("gdbrr: searching 0%\n")) + frame(b"O" + to_hex("gdbrr: searching 50%\n"))


def test_progress_is_one_line_of_the_terminal() -> None:
    """It is told at once behind the first second of its command, and gone at the move's end."""
    ours, gdbs = socket.socketpair()
    screen, terminal = os.openpty()
    try:
        with ours, gdbs:
            link = Link(ours.fileno(), ours.fileno())
            for since in (time.monotonic(), time.monotonic() - 2 * QUIET_SECONDS):
                meter = Meter(link, False, where=Where(os.ttyname(terminal), Manner.LINE), since=since)
                meter("searching", 0.25)
                meter("searching", 0.5)
                meter.close()
            Meter(link, False, since=0.1)("searching", 0.0)
            Meter(link, where=Where("/nowhere", Manner.LINE), since=0.1)("searching", 0.0)
            ours.shutdown(socket.SHUT_WR)
            assert gdbs.recv(4096) == b""
        os.write(terminal, b"|")  # what was written comes in its order, but not at once
        assert b"".join(iter(lambda: os.read(screen, 1), b"|")) == b"\r\033[Kgdbrr: searching 25%\r\033[K"
    finally:
        os.close(screen)
        os.close(terminal)
