"""Servers, with a client that asks them from several connections: how many requests a second, and how long each takes.

Runs in: python -m bench. May call: gcc; redis-server, memcached, nginx, apache2 and ab, where they are installed.
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
USED, SIZE = "servers: processor time a request", "servers: apache"
PERCENTILES = ("half of all", "99 of 100", "999 of 1,000", "the most")
CONNECTIONS = 8
START_LIMIT = 60.0
LESS = {STRACE: 10, VALGRIND: 10}

NGINX = """
daemon off; master_process off; pid {here}/nginx.pid; error_log {here}/nginx.log; events {{ }}
http {{ access_log off; keepalive_requests 1000000; server {{ listen 127.0.0.1:{port}; root {here}; }} }}
"""


APACHE = """
ServerRoot {here}
ServerName localhost
Listen 127.0.0.1:{port}
PidFile {here}/apache.pid
ErrorLog {here}/apache.log
DocumentRoot {here}
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
User www-data
Group www-data
StartServers 1
ServerLimit 1
ThreadsPerChild 25
MaxRequestWorkers 25
"""


@dataclass(frozen=True)
class Server:
    name: str
    words: tuple[str, ...]
    request: str = ""
    end: str = ""
    """Of every reply."""
    requests: int = 200_000
    """So many that the start of the server, and of its recording, do not count."""
    without: tuple[str, ...] = ()
    """Tools under which it does not start."""
    asks: tuple[str, ...] = ()
    """A client of its own, which prints \"Requests per second: N\"."""


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
        "nginx", ("nginx", "-c", "{here}/nginx.conf"), "GET /page HTTP/1.1\r\nHost: x\r\n\r\n", "the end\r\n", 100_000
    ),
)

# As in the literature: a connection for each request. In the debug mode (-X) it is one process, and that is recorded.
THE_APACHE = Server(
    "apache, 10,000 requests of 10 clients",
    ("apache2", "-X", "-f", "{here}/apache.conf"),
    requests=10_000,
    without=(VALGRIND,),
    asks=("ab", "-q", "-n", "{requests}", "-c", "10", "http://127.0.0.1:{port}/page"),
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


def time_used(pid: int) -> float:
    """Of a processor, by all of its threads so far, in seconds; nanoseconds where the kernel counts them."""
    found = 0.0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended
            found += int((task / "schedstat").read_text().split()[0]) / 1e9
    return found


def process_of(pid: int, name: str) -> int:
    """The one that runs the server, below what was started."""
    todo = [pid]
    while todo:
        here = todo.pop()
        with contextlib.suppress(OSError):
            if Path(f"/proc/{here}/comm").read_text().strip() == name[:15]:
                return here
            for task in Path(f"/proc/{here}/task").iterdir():
                todo += map(int, (task / "children").read_text().split())
    raise Failed(f"{name} is not there")


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
        self.used: dict[str, list[float]] = {}
        """Microseconds of a processor for a request, by the server's own process."""
        self.sizes: list[float] = []
        self.again = PARALLEL
        """The order of the recordings whose demos are looked at."""

    def asked(self, way: str, *before: str) -> float:
        """Requests a second of the server started by BEFORE and its words."""
        port = free_port()
        (self.here / "nginx.conf").write_text(NGINX.format(here=self.here, port=port))
        (self.here / "apache.conf").write_text(APACHE.format(here=self.here, port=port))
        requests = self.requests // LESS.get(way, 1)
        put = {"{port}": str(port), "{here}": str(self.here), "{requests}": str(requests)}
        words = [_filled(word, put) for word in self.server.words]
        command = [*before, *words]
        with (self.bench.scratch / "server.log").open("w") as log, subprocess.Popen(
            command, cwd=ROOT, env=ENVIRONMENT, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        ) as process:  # fmt: skip
            try:
                wait_for(port, process)
                runs = 0 if way in LESS else process_of(process.pid, words[0])
                begun = time_used(runs) if runs else 0
                if self.server.asks:
                    said = run([_filled(word, put) for word in self.server.asks]).out
                    speed, delays = float(said.partition("Requests per second:")[2].split()[0]), []
                else:
                    end_of = self.server.end
                    asking: list[str | Path] = [
                        self.client,
                        str(port),
                        str(CONNECTIONS),
                        str(requests),
                        self.server.request,
                        end_of,
                    ]
                    speed, *delays = (float(word) for word in run(asking).out.split())
                if runs:
                    self.used.setdefault(way, []).append((time_used(runs) - begun) * 1e6 / requests)
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
        if order == self.again:
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
        """Of the last recording: microseconds a request."""
        return replay(self.demo, statuses=range(125)).seconds * 1e6 / self.requests


def _filled(word: str, put: dict[str, str]) -> str:
    for name, value in put.items():
        word = word.replace(name, value)
    return word


def stop(process: subprocess.Popen[str]) -> None:
    """As an operator does; under a tool, the tool's own child."""
    pid = process.pid
    if isinstance(process.args, list) and process.args[0] == "strace":
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        pid = int(children[0]) if children else pid
    os.kill(pid, signal.SIGTERM)
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        raise Failed(f"{process.args!r} does not end") from None


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
        yield Row(SPEED, server.name, "requests/s", dict(sorted(found.items(), key=in_order)))
        yield Row(USED, server.name, "us", dict(sorted(case.used.items(), key=in_order)))
        yield from delays(case, server.name)
        if case.sizes:
            again = bench.interleaved({AGAIN: case.replayed}, bench.rounds(2), name=server.name)
            yield Row(REPLAY, server.name, "us a request", again, {"demo, bytes a request": case.sizes})
    if bench.has("apache2", THE_APACHE.name) and bench.has("ab", THE_APACHE.name):
        yield from apache(bench, client)


def apache(bench: Bench, client: Path) -> Iterator[Row]:
    """Its replay is of the order serial: its library has atomics of its own, whose order `parallel` does not see."""
    case = Case(bench, THE_APACHE, client)
    case.again = SERIAL
    found_ways = case.ways()
    ways = {way: found_ways[way] for way in ("native", PARALLEL, SERIAL)}
    found = bench.interleaved(ways, bench.rounds(3), name=THE_APACHE.name)
    ordered = dict(sorted(found.items(), key=in_order))
    yield Row(SIZE, THE_APACHE.name, "requests/s", ordered, {"demo, bytes a request": case.sizes})
    yield Row(USED, THE_APACHE.name, "us", dict(sorted(case.used.items(), key=in_order)))
    if case.sizes:
        again = bench.interleaved({AGAIN: case.replayed}, bench.rounds(2), name=THE_APACHE.name)
        yield Row(REPLAY, THE_APACHE.name, "us a request", again)


if __name__ == "__main__":
    only(rows)
