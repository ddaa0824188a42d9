"""What asks the servers of table.py: enough, and from several connections at once, that a run differs from run to run.

Runs in: pytest, while the server is being recorded. May call: sockets on the loopback interface.
Owns: nothing.
"""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

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


def converse(port: int, lines: list[bytes], end: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as peer:
        for line in lines:
            peer.sendall(line)
            got = b""
            while not got.endswith(end):
                got += peer.recv(65536)
                assert got, "the server closed the connection"


def ask_redis(port: int, number: int) -> None:
    converse(
        port, [b"INCR %d\r\n" % (i % 7) if i % 2 else b"LPUSH l%d x\r\n" % number for i in range(REQUESTS * 5)], b"\r\n"
    )


def ask_memcached(port: int, number: int) -> None:
    converse(port, [b"set k%d 0 0 5\r\nhello\r\nget k%d\r\n" % (i, number) for i in range(REQUESTS * 3)], b"END\r\n")


CLIENTS: dict[str, Callable[[int, int], None]] = {"http": ask_http, "redis": ask_redis, "memcached": ask_memcached}


def drive(client: str, port: int) -> None:
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        list(pool.map(lambda number: CLIENTS[client](port, number), range(CONNECTIONS)))
