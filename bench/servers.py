"""Servers, with a client that asks them from several connections: how many requests a second, and how long each takes.

Runs in: python -m bench. May call: gcc, redis-server, memcached, nginx, where they are installed.
Owns: the list; the servers, which end with their measurement.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.kit import ENVIRONMENT, GDBRR, ROOT, Bench, Failed, Row, end, only, replay, run
from bench.ways import AGAIN, PARALLEL, PEERS, SERIAL, STRACE, VALGRIND

SPEED, DELAY, REPLAY = "servers: requests a second", "servers: time to the end of a reply", "servers: replay"
PERCENTILES = ("half of all", "99 of 100", "999 of 1,000", "the most")
CONNECTIONS = 8
START_LIMIT = 60.0
LESS = {STRACE: 10, VALGRIND: 10}

NGINX = """
daemon off; master_process off; pid {here}/nginx.pid; error_log {here}/nginx.log; events {{ }}
http {{ access_log off; keepalive_requests 1000000; server {{ listen 127.0.0.1:{port}; root {here}; }} }}
"""


@dataclass(frozen=True)
class Server:
    name: str
    words: tuple[str, ...]
    request: str
    end: str
    """Of every reply."""
    requests: int = 20_000
    without: tuple[str, ...] = ()
    """Tools under which it does not start."""


SERVERS = (
    Server(
        "redis",
        ("redis-server", "--port", "{port}", "--save", "", "--appendonly", "no", "--loglevel", "warning"),
        "INCR counter\r\n",
        "\r\n",
    ),
    Server(
        "memcached, 4 threads",
        ("memcached", "-u", "root", "-l", "127.0.0.1", "-p", "{port}", "-t", "4", "-c", "64"),
        "set k 0 0 5\r\nhello\r\nget k\r\n",
        "END\r\n",
        without=(VALGRIND,),  # which keeps descriptors to itself, so that the limit cannot be raised
    ),
    Server(
        "nginx", ("nginx", "-c", "{here}/nginx.conf"), "GET /page HTTP/1.1\r\nHost: x\r\n\r\n", "the end\r\n", 10_000
    ),
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int, server: subprocess.Popen[str]) -> None:
    limit = time.monotonic() + START_LIMIT
    while True:
        with contextlib.suppress(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port)).close()
            return
        if server.poll() is not None or time.monotonic() > limit:
            raise Failed(f"{server.args!r}: nobody listens")
        time.sleep(0.01)


class Case:
    def __init__(self, bench: Bench, server: Server, client: Path) -> None:
        self.bench, self.server, self.client = bench, server, client
        self.here = bench.scratch / "server"
        self.here.mkdir(exist_ok=True)
        self.here.chmod(0o755)
        self.here.parent.chmod(0o755)  # servers give up their rights
        (self.here / "page").write_text("x" * 1000 + "the end\r\n")
        self.requests = bench.scaled(server.requests)
        self.demo = bench.scratch / "server.demo"
        self.delays: dict[str, list[list[float]]] = {}
        self.sizes: list[float] = []

    def asked(self, way: str, *before: str) -> float:
        """Requests a second of the server started by BEFORE and its words."""
        port = free_port()
        (self.here / "nginx.conf").write_text(NGINX.format(here=self.here, port=port))
        words = [word.replace("{port}", str(port)).replace("{here}", str(self.here)) for word in self.server.words]
        command = [*before, *words]
        requests = self.requests // LESS.get(way, 1)
        with (self.bench.scratch / "server.log").open("w") as log, subprocess.Popen(
            command, cwd=ROOT, env=ENVIRONMENT, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        ) as process:  # fmt: skip
            try:
                wait_for(port, process)
                asking: list[str | Path] = [
                    self.client,
                    str(port),
                    str(CONNECTIONS),
                    str(requests),
                    self.server.request,
                    self.server.end,
                ]
                speed, *delays = (float(word) for word in run(asking).out.split())
                stop(process)
            finally:
                if process.poll() is None:
                    end(process)
        self.delays.setdefault(way, []).append(delays)
        return speed

    def recorded(self, order: str) -> float:
        self.demo.unlink(missing_ok=True)
        words = [*GDBRR, "record", "--order", order, "-o", str(self.demo), "--"]
        speed = self.asked(order, *words)
        if order == PARALLEL:
            self.sizes.append(self.demo.stat().st_size / self.requests)
        return speed

    def ways(self) -> dict[str, Callable[[], float]]:
        found: dict[str, Callable[[], float]] = {"native": partial(self.asked, "native")}
        found[SERIAL] = partial(self.recorded, SERIAL)
        found[PARALLEL] = partial(self.recorded, PARALLEL)
        tools = {STRACE: ("strace", "-f", "-o", "/dev/null"), VALGRIND: ("valgrind", "--tool=none", "-q")}
        for way, words in tools.items():
            if way not in self.server.without and self.bench.has(PEERS[way], way):
                found[way] = partial(self.asked, way, *words)
        return found

    def replayed(self) -> float:
        """Of the last recording, which is in order parallel: microseconds a request."""
        return replay(self.demo, statuses=range(125)).seconds * 1e6 / self.requests


def stop(process: subprocess.Popen[str]) -> None:
    """As an operator does; under a tool, the tool's own child."""
    pid = process.pid
    if isinstance(process.args, list) and process.args[0] == "strace":
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        pid = int(children[0]) if children else pid
    os.kill(pid, signal.SIGTERM)
    process.wait(60)


def delays(case: Case, name: str) -> Iterator[Row]:
    for index, which in enumerate(PERCENTILES):
        values: dict[str, Sequence[float]] = {
            way: [some[index] for some in rounds] for way, rounds in sorted(case.delays.items(), key=in_order)
        }
        yield Row(DELAY, f"{name}: {which}", "us", values)


def in_order(item: tuple[str, object]) -> int:
    return ["native", PARALLEL, SERIAL, STRACE, VALGRIND].index(item[0])


def rows(bench: Bench) -> Iterator[Row]:
    client = bench.compile("load")
    for server in SERVERS:
        if not bench.has(server.words[0], server.name):
            continue
        case = Case(bench, server, client)
        found = bench.interleaved(case.ways(), bench.rounds(3), once=tuple(LESS), name=server.name)
        ordered = dict(sorted(found.items(), key=in_order))
        yield Row(SPEED, server.name, "requests/s", ordered)
        yield from delays(case, server.name)
        if case.sizes:
            again = bench.interleaved({AGAIN: case.replayed}, bench.rounds(2), name=server.name)
            yield Row(REPLAY, server.name, "us a request", again, {"demo, bytes a request": case.sizes})


if __name__ == "__main__":
    only(rows)
