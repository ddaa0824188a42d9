"""What asks the servers of table.py: enough, and from several connections at once, that a run differs from run to run.

Runs in: pytest, while the server is being recorded. May call: load generators; sockets on the loopback interface.
Owns: nothing.
"""

from __future__ import annotations

import contextlib
import http.client
import http.server
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from harness.run import run

CONNECTIONS = 6
REQUESTS = 60
START_LIMIT = 60.0


def wait_for(port: int) -> None:
    """Until the server accepts; its own end is the caller's to notice."""
    end = time.monotonic() + START_LIMIT
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            assert time.monotonic() < end, f"nobody listens at port {port}"
            time.sleep(0.02)


def ask_http(port: int, number: int) -> None:
    for _ in range(REQUESTS):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/numbers" if number % 2 else "/missing")
        connection.getresponse().read()
        connection.close()


CLIENTS: dict[str, Callable[[int, int], None]] = {"http": ask_http}
TOOLS = {
    "redis-benchmark": "-p {port} -c 6 -n 300 -t set,incr,lpush,lpop,mset -q",
    "memcslap": "--servers=127.0.0.1:{port} --concurrency=6 --execute-number=60 --test=set",
    "ab": "-q -c 6 -n 360 http://127.0.0.1:{port}/numbers",
}
COMPLAINTS = ("Failed requests:        [1-9]", "Non-2xx", "ERR", "(?i)error")
"""What a tool says that ends with status 0 all the same."""


def drive(client: str, port: int) -> None:
    if client in TOOLS:
        done = run(client, *TOOLS[client].format(port=port).split(), limit=300.0).expect(0)
        assert not [text for text in COMPLAINTS if re.search(text, done.out + done.err)], done.describe()
        return
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        list(pool.map(lambda number: CLIENTS[client](port, number), range(CONNECTIONS)))


@contextlib.contextmanager
def serving(here: Path, port: int) -> Iterator[None]:
    """The files of HERE by HTTP, for a program that is a client itself."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *words: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", port), partial(Quiet, directory=str(here))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
