"""When the server starts and ends, and what it leaves behind in GDB."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import ROOT
from harness.run import run
from ingdb.stage import Stage, said

pytestmark = pytest.mark.needs("gdb")


def test_the_users_settings_come_back(stage: Stage) -> None:
    result = stage.gdb("show sysroot", "show remotetimeout", "disconnect", "rr-when", "rr-replay no.demo",
                       "rr-replay x.demo", "python gdb.execute('disconnect')", "echo \\n")  # fmt: skip
    assert 'The current system root is "/".' in result.out
    assert "rr-when: no demo is open. Try: rr-replay FILE" in result.err
    script = "rr-replay x.demo\ndisconnect\nshow sysroot\nshow remotetimeout\n"
    # Only a GDB that reads commands has an event loop, in which what waited for the end of a disconnect happens.
    words = ["gdb", "-q", "-nx", "-ex", f"source {ROOT / 'gdbinit.py'}", str(stage.program)]
    start = f"set gdbrr python {stage.place / 'python'}\n"
    result = run(*words, limit=60, cwd=stage.place, env=stage.env, stdin=(start + script).encode())
    assert 'The current system root is "target:".' in result.out
    assert "Timeout limit to wait for target to respond is 2." in result.out


def test_a_users_own_sysroot_is_left_alone(stage: Stage) -> None:
    result = stage.gdb("set sysroot /usr", "rr-replay x.demo", "show sysroot", open=False)
    assert 'The current system root is "/usr".' in result.out


def test_the_socket_is_private_and_gone_once_connected(stage: Stage) -> None:
    stage.gdb("shell ls $XDG_RUNTIME_DIR > left")
    assert (stage.place / "left").read_text() == ""
    path = Path(stage.notes("serve")[0]["words"][2])
    assert path.parent.parent == stage.private


def test_the_server_ends_with_gdb(stage: Stage) -> None:
    stage.gdb()
    wait_for_end(stage)


def test_the_server_ends_when_gdb_is_killed(stage: Stage) -> None:
    stage.gdb("shell kill -9 $PPID")
    wait_for_end(stage)
    assert list((stage.private).iterdir()) == []


def wait_for_end(stage: Stage) -> None:
    wait_until(lambda: bool(stage.notes("ended")))


def wait_until(seen: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_new_session_ends_the_old_one(stage: Stage) -> None:
    result = stage.gdb("rr-replay x.demo", "rr-when")
    assert result.err == ""
    assert [note["what"] for note in stage.notes("serve") + stage.notes("ended")].count("serve") == 2
    notes = [json.loads(line) for line in (stage.place / "notes").read_text().splitlines()]
    # The new one is there before the old one goes, and is talked to behind that.
    order = [
        note["what"] for note in notes if note["what"] != "asked" and "qSupported" in note.get("text", "qSupported")
    ]
    assert order == ["serve", "packet", "serve", "ended", "packet", "ended"]


def test_a_server_that_fails_is_quoted(stage: Stage) -> None:
    error = stage.gdb(env={"STUB_FAILS": "1"}).err.strip()
    assert error == "rr-replay: the engine is not built. In a checkout run `make build`"
    assert list((stage.private).iterdir()) == []


def test_tracebacks_of_the_server_are_shown_to_those_who_ask(stage: Stage) -> None:
    complains = {"STUB_COMPLAINS": "1"}
    assert "Traceback" not in stage.gdb("reverse-continue", "rr-back", env=complains).err
    shown = stage.gdb("set gdbrr verbose on", "reverse-continue", "rr-back", "rr-when", env=complains).err
    assert shown.count("Traceback of the server\n") == 2
    # What was said before anybody asked is not lost.
    late = stage.gdb("reverse-continue", "set gdbrr verbose on", "rr-when -x", env=complains).err
    assert late.count("Traceback of the server\n") == 1


def test_a_server_that_says_nonsense_is_not_trusted(stage: Stage) -> None:
    error = stage.gdb(env={"STUB_SAYS": "hello"}).err.strip()
    assert error.startswith("rr-replay: the server said b'hello")


def test_ctrl_c_while_the_server_starts(stage: Stage) -> None:
    words = ["gdb", "-q", "-nx", "-ex", f"source {ROOT / 'gdbinit.py'}", "-ex",
             f"set gdbrr python {stage.place / 'python'}"]  # fmt: skip
    env = {**os.environ, **stage.env, "STUB_DELAYS": "1"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(words, cwd=stage.place, env=env, text=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            process.stdin.write("rr-replay x.demo\nshow sysroot\n")
            process.stdin.flush()
            wait_until(lambda: (stage.place / "notes").exists() and bool(stage.notes("serve")))
            process.send_signal(signal.SIGINT)
            out = process.communicate(timeout=60)[0]
        finally:
            process.kill()
    assert "rr-replay: interrupted\n" in out
    assert 'The current system root is "target:".' in out
    wait_for_end(stage)  # by itself, where GDB was still about to start it; then it removes its directory, too
    assert list(stage.private.iterdir()) == []


def test_an_interpreter_that_is_not_there(stage: Stage) -> None:
    error = stage.gdb("set gdbrr python /no/such", "rr-replay x.demo", open=False).err.strip()
    assert error == "rr-replay: there is no interpreter /no/such. Try: set gdbrr python PATH"


def test_another_program_is_not_killed_without_asking(stage: Stage) -> None:
    result = stage.gdb("starti", "rr-replay x.demo", open=False)
    assert "Kill the program being debugged?" in said(result)


def test_packets_without_the_python_connection(stage: Stage) -> None:
    """GDB before 12 has no send_packet; `maint packet` is the way then."""
    script = (
        "python from gdbrr.ingdb import compat; class_ = type('Old', (), {}); "
        "print(bytes.fromhex(compat.send_packet(class_(), 'qGdbrr:' + b'{\"verb\":\"status\"}'.hex()))[:7])"
    )
    assert "b'{\"ok\": '" in stage.gdb(script).out
