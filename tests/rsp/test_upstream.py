"""A gdbserver that is slower than whoever asks it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gdbrr.errors import GdbrrError
from gdbrr.rsp.packet import Framer, frame
from gdbrr.rsp.upstream import Pool, Told, Upstream

pytestmark = pytest.mark.needs("gdbserver")

PROGRAM = """
import signal
handled = []
signal.signal(signal.SIGUSR1, lambda *_: handled.append(1))
print(flush=True)
while not handled:
    signal.pause()
exit(len(handled))
"""


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    started = subprocess.Popen(["python3", "-c", PROGRAM], stdout=subprocess.PIPE)
    with started:
        assert started.stdout is not None
        started.stdout.readline()
        yield started
        started.kill()


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    started = Upstream()
    yield started
    started.close()


def await_state(pid: int, state: str) -> None:
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != state:
        pass


def hold(upstream: Upstream) -> None:
    os.kill(upstream.server_pid, signal.SIGSTOP)
    await_state(upstream.server_pid, "T")


def test_a_signal_is_sent_once_though_ctrl_c_came_too_late_for_its_stop(
    process: subprocess.Popen[bytes], upstream: Upstream
) -> None:
    """INVARIANT(sent-once)"""
    upstream.attach(process.pid, Told())
    upstream.resume(b"vCont;c")
    await_state(process.pid, "S")
    hold(upstream)
    os.kill(process.pid, signal.SIGUSR1)
    await_state(process.pid, "t")
    upstream.interrupt()
    os.kill(upstream.server_pid, signal.SIGCONT)
    stop = upstream.wait_stop({})
    upstream.resume(b"vCont;C%02x:%x;c" % (stop.signal, stop.tid))
    assert upstream.wait_stop({}).ended.startswith(b"W01")


def test_an_answer_that_came_too_late_is_not_the_next_ones(
    process: subprocess.Popen[bytes], upstream: Upstream
) -> None:
    upstream.attach(process.pid, Told())
    hold(upstream)
    for request in (b"qfThreadInfo", b"qC"):
        with pytest.raises(GdbrrError, match="does not answer"):
            upstream.request(request, timeout=0)
    os.kill(upstream.server_pid, signal.SIGCONT)
    assert upstream.request(b"Hg0") == b"OK"
    assert upstream.request(b"qfThreadInfo") == b"m%x" % process.pid
    upstream.kill()


def test_an_end_whose_way_gdbserver_missed() -> None:
    """It still lists the process, so it gets no other one."""
    lost = Framer().feed(frame(b"E.No unwaited-for children left."))
    pool = Pool()
    upstream = pool.take()
    upstream._events += lost
    assert upstream.wait_stop({}).ended and not upstream.alive
    pool.give(upstream)
    assert pool.take() is not upstream
    pool.close()


def test_an_end_that_gdbserver_missed_while_its_process_was_to_be_killed(
    process: subprocess.Popen[bytes], upstream: Upstream
) -> None:
    """Nothing else comes from it, and nobody waits for that."""
    upstream.attach(process.pid, Told())
    upstream.resume(b"vCont;c")
    hold(upstream)  # its own word for this is another one
    upstream._events += Framer().feed(frame(b"E.No unwaited-for children left."))
    began = time.monotonic()
    upstream.kill()
    assert time.monotonic() - began < 10 and not upstream.alive
    os.kill(upstream.server_pid, signal.SIGCONT)


@pytest.fixture
def pool(process: subprocess.Popen[bytes]) -> Iterator[Pool]:
    """It ends first: a process that is still traced cannot be waited for."""
    started = Pool()
    yield started
    started.close()


def test_who_attaches_too_late_holds_a_process_and_gets_no_other_one(
    process: subprocess.Popen[bytes], pool: Pool
) -> None:
    upstream = pool.take()
    hold(upstream)
    ask = upstream.request
    upstream.request = lambda payload, timeout=0.0: ask(payload, 0)  # type: ignore[method-assign]
    with pytest.raises(GdbrrError, match="does not answer"):
        upstream.attach(process.pid, Told())
    upstream.kill()
    os.kill(upstream.server_pid, signal.SIGCONT)
    pool.give(upstream)
    assert pool.take() is not upstream
    assert process.wait(30) == -signal.SIGKILL
