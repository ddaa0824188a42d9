"""Real programs: how each is started, what feeds it, and the order its threads need.

Runs in: pytest. May call: nothing.
Owns: the list. `make apps` tries all that are installed and says what is missing; the suite tries the quick ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

PYTHON = "/usr/bin/python3"  # on PATH there may be a shim that executes another program


@dataclass(frozen=True)
class App:
    words: tuple[str, ...]
    """{here} is a directory with the files of `INPUTS` and `files`."""
    package: str
    order: str = "parallel"
    """`serial` where threads share memory through atomics of their own."""
    quick: bool = False
    port: int = 0
    """Of a server, which gets SIGTERM when its client is done."""
    client: str = ""
    files: Mapping[str, str] = field(default_factory=dict)


THREADS = """
import threading, time
seen = []
def work(n):
    for i in range(50):
        seen.append((n, i, time.time()))
        time.sleep(0.0002)
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
print(hash(tuple(seen)), [n for n, _, _ in seen])
"""

ASYNC = """
import asyncio, random
async def take(queue):
    return sum([await queue.get() for _ in range(50)])
async def give(queue):
    for _ in range(50):
        await asyncio.sleep(random.random() / 2000)
        await queue.put(random.randrange(99))
async def main():
    queue = asyncio.Queue()
    print(await asyncio.gather(take(queue), take(queue), give(queue), give(queue)))
asyncio.run(main())
"""

NODE = """
const crypto = require('crypto');
setTimeout(() => console.log(crypto.randomBytes(4).toString('hex'), Date.now()), 20);
require('fs').readFile('{here}/numbers', (error, data) => console.log(data.length));
crypto.pbkdf2('x', crypto.randomBytes(8), 1000, 8, 'sha1', (error, key) => console.log(key.toString('hex')));
"""

SQL = (
    "create table t(a, b);"
    "with recursive c(x) as (select 1 union all select x + 1 from c where x < 3000)"
    " insert into t select x, random() % 1000 from c;"
    "select sum(b), count(*), datetime('now') from t;"
)

NGINX = """
daemon off; master_process off; pid {here}/nginx.pid; error_log stderr; events {{ }}
http {{ access_log off; server {{ listen 127.0.0.1:{port}; root {here}; }} }}
"""

APACHE = """
ServerRoot {here}
PidFile {here}/apache.pid
Mutex pthread default
ServerName localhost
Listen 127.0.0.1:{port}
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
DocumentRoot {here}
ErrorLog {here}/apache.log
User www-data
"""

APPS: dict[str, App] = {
    "xz": App(("xz", "-T2", "-k", "-c", "--block-size=100KiB", "{here}/numbers"), "xz-utils", quick=True),
    "pigz": App(("pigz", "-p4", "-c", "{here}/numbers"), "pigz"),
    "pbzip2": App(("pbzip2", "-p4", "-b1", "-k", "-c", "{here}/numbers"), "pbzip2"),
    "zstd": App(("zstd", "-q", "-T4", "-c", "{here}/numbers"), "zstd"),
    "lz4": App(("lz4", "-q", "-c", "{here}/numbers"), "lz4"),
    "sort": App(("sort", "--parallel=4", "-S", "1M", "-R", "{here}/numbers"), "coreutils"),
    "python-threads": App((PYTHON, "-c", THREADS), "python3", quick=True),
    "python-asyncio": App((PYTHON, "-c", ASYNC), "python3", quick=True),
    "sqlite3": App(("sqlite3", "{here}/db", SQL), "sqlite3", quick=True),
    "node": App(("node", "-e", NODE), "nodejs"),
    "java": App(("java", "-version"), "default-jre-headless", order="serial"),
    "curl": App(("curl", "-s", "file://{here}/numbers"), "curl"),
    "git": App(("git", "-C", "{root}", "log", "--stat", "-n", "30"), "git"),
    "gcc": App(("gcc", "-O1", "-c", "{here}/hello.c", "-o", "{here}/hello.o"), "gcc", files={"hello.c": "int main;\n"}),
    "vim": App(("vim", "-es", "-c", "s/^/x/|w! {here}/written|q", "{here}/numbers"), "vim"),
    "redis": App(
        ("redis-server", "--port", "{port}", "--save", "", "--appendonly", "no"),
        "redis-server",
        port=17201,
        client="redis",
    ),
    "memcached": App(
        ("memcached", "-u", "root", "-l", "127.0.0.1", "-p", "{port}", "-t", "4"),
        "memcached",
        port=17202,
        client="memcached",
    ),
    "nginx": App(
        ("nginx", "-c", "{here}/nginx.conf"), "nginx-light", port=17203, client="http", files={"nginx.conf": NGINX}
    ),
    "apache": App(
        ("apache2", "-X", "-f", "{here}/apache.conf"),
        "apache2",
        order="serial",  # its queue of connections is made of atomics
        port=17204,
        client="http",
        files={"apache.conf": APACHE},
    ),
}
