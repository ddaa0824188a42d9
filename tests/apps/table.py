"""Real programs: how each is started, what feeds it, and the order its threads need.

Runs in: pytest. May call: nothing.
Owns: the list. `make apps` tries all that are installed and says what is missing; the suite tries the quick ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

PYTHON = "/usr/bin/python3"  # on PATH there may be a shim that executes another program


@dataclass(frozen=True)
class Ask:
    """A question about the past, and how GDB is asked, standing at the end of the demo."""

    question: str
    commands: tuple[str, ...]
    answer: str
    """A pattern for what GDB prints; its first group is the answer."""


CALLER = r"\n#1 +(?:0x\w+ in )?([^\n(]+?) ?\("
TEXT = Ask("what did it write last?", ("rr-back -b write", "x/s $rsi"), r'0x\w+(?: <\S+>)?:\s+(".{1,36})')
COUNT = Ask("how many bytes did it write last?", ("rr-back -b write", "p $rdx"), r"\$1 = (\d+)")
SENT = Ask("on which descriptor did it answer last?", ("rr-back -b sendmsg", "p $rdi"), r"\$1 = (\d+)")
CHILD = Ask("at which tick did it start its last child?", ("rr-back -b vfork", "rr-when"), r"tick (\d+)")
VECTOR = Ask("which function called `writev` last?", ("rr-back -b writev", "bt 2"), CALLER)


@dataclass(frozen=True)
class App:
    words: tuple[str, ...]
    """{here} is a directory with the files of `INPUTS` and `files`, {program} what was compiled from `source`."""
    package: str
    order: str = "auto"
    """One that is said where the guess is known to be too hopeful."""
    quick: bool = False
    port: int = 0
    """Of a server, which gets SIGTERM when its client is done; or of who serves files to a `fetches`."""
    client: str = ""
    fetches: bool = False
    """It is a client itself: the files of {here} are served to it at {port} while it is recorded."""
    files: Mapping[str, str] = field(default_factory=dict)
    before: tuple[str, ...] = ()
    """A command that makes more of them."""
    source: str = ""
    """A program of tests/apps/programs."""
    flags: tuple[str, ...] = ()
    libraries: str = ""
    """What pkg-config knows them by."""
    env: Mapping[str, str] = field(default_factory=dict)
    sets: tuple[str, ...] = ()
    """Further options of the recording."""
    needs: tuple[str, ...] = ()
    """Further programs: `Xvfb`, whose screen it gets, or `tmux`, in whose terminal it runs."""
    keys: tuple[str, ...] = ()
    """What is typed in that terminal, once it shows `shows`."""
    shows: str = ""
    ask: Ask = TEXT


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

JAVA = """
import java.util.*;
import java.util.concurrent.*;
public class Work {{
    static long part(int n) {{
        long sum = 0;
        for (int i = 0; i < 50000; i++)
            sum = sum * 31 + (i ^ n);
        return sum;
    }}
    public static void main(String[] words) throws Exception {{
        ExecutorService pool = Executors.newFixedThreadPool(4);
        ConcurrentHashMap<String, Long> seen = new ConcurrentHashMap<>();
        for (int i = 0; i < 16; i++) {{
            final int n = i;
            pool.execute(() -> seen.put(Thread.currentThread().getName() + n, part(n)));
        }}
        pool.shutdown();
        pool.awaitTermination(60, TimeUnit.SECONDS);
        System.out.println(new TreeSet<>(seen.keySet()) + " " + System.nanoTime() + " " + new Random().nextInt());
    }}
}}
"""

COMPILED = """
#define ONE(n) static int f##n(int x) {{ for (int i = 0; i < x; i++) x ^= i * n; return x; }}
ONE(1) ONE(2) ONE(3) ONE(4) ONE(5) ONE(6) ONE(7) ONE(8)
int main(int argc, char **argv) {{ (void)argv; return f1(f2(f3(f4(f5(f6(f7(f8(argc)))))))); }}
"""

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
    "xz": App(("xz", "-T2", "-k", "-c", "--block-size=100KiB", "{here}/numbers"), "xz-utils", ask=COUNT, quick=True),
    "pigz": App(("pigz", "-p4", "-c", "{here}/numbers"), "pigz", ask=COUNT),
    "pbzip2": App(("pbzip2", "-p4", "-b1", "-k", "-c", "{here}/numbers"), "pbzip2", ask=COUNT),
    "zstd": App(("zstd", "-q", "-T4", "-c", "{here}/numbers"), "zstd", ask=COUNT),
    "lz4": App(("lz4", "-q", "-c", "{here}/numbers"), "lz4", ask=COUNT),
    "sort": App(("sort", "--parallel=4", "-S", "1M", "-R", "{here}/numbers"), "coreutils"),
    "python-threads": App((PYTHON, "-c", THREADS), "python3", quick=True),
    "python-asyncio": App((PYTHON, "-c", ASYNC), "python3", quick=True),
    "sqlite3": App(("sqlite3", "{here}/db", SQL), "sqlite3", quick=True),
    "node": App(("node", "-e", NODE), "nodejs"),
    "sqlite3-threads": App(
        ("{program}", "{here}/db"),
        "libsqlite3-dev",
        quick=True,
        source="database.c",
        libraries="sqlite3",
        ask=Ask("who wrote the last row?", ("rr-back -b wrote", "p writer"), r"\$1 = (\d+)"),
    ),
    "java": App(
        ("java", "-cp", "{here}", "Work"),
        "default-jdk-headless",
        files={"Work.java": JAVA},
        before=("javac", "-d", "{here}", "{here}/Work.java"),
    ),
    "curl": App(("curl", "-s", "http://127.0.0.1:{port}/numbers"), "curl", port=17205, fetches=True),
    "git": App(("git", "-C", "{root}", "log", "--stat", "-n", "30"), "git"),
    "gcc": App(
        ("gcc", "-O1", "-c", "{here}/hello.c", "-o", "{here}/hello.o"),
        "gcc",
        files={"hello.c": "int main;\n"},
        ask=CHILD,
    ),
    "cc1": App(
        ("{cc1}", "-quiet", "-O2", "{here}/work.c", "-o", "{here}/work.s"),
        "gcc",
        files={"work.c": COMPILED},
    ),
    "vim": App(("vim", "-i", "NONE", "-es", "-c", "s/^/x/|w! {here}/written|q", "{here}/numbers"), "vim"),
    "vim-terminal": App(
        ("vim", "-u", "NONE", "-i", "NONE", "-N", "{here}/numbers"),
        "vim tmux",
        quick=True,
        needs=("tmux",),
        shows="numbers",
        keys=("5j", "dd", "ihello", "Escape", ":w! {here}/written", "Enter", ":q!", "Enter"),
    ),
    "nano-terminal": App(
        ("nano", "-I", "{here}/hello.c"),
        "nano tmux",
        needs=("tmux",),
        files={"hello.c": "int main;\n"},
        shows="int main",
        keys=("hello", "C-x", "n"),
    ),
    "std::async": App(
        ("{program}",),
        "g++",
        quick=True,
        source="futures.cc",
        ask=Ask("which part was summed last?", ("rr-back -b part", "p number"), r"\$1 = (\d+)"),
    ),
    "openmp": App(
        ("{program}",),
        "gcc",
        quick=True,
        source="loops.c",
        flags=("-fopenmp",),
        ask=Ask(
            "where did the counter change last?", ("rr-back -w entered", "info symbol $pc"), r"\n(\S+) \+ \d+ in sec"
        ),
    ),
    "glib": App(
        ("{program}",),
        "libglib2.0-dev",
        source="mainloop.c",
        libraries="glib-2.0",
        ask=Ask("what did the last timer add?", ("rr-back -b on_tick", "p (char *)name"), r'\$1 = \S+ (".")'),
    ),
    "sdl-dummy": App(
        ("{program}",),
        "libsdl2-dev",
        source="game.c",
        libraries="sdl2",
        env={"SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy"},
        sets=("-p", "game"),
        ask=Ask("how often had it beeped?", ("rr-back -b beep", "p beeps.value"), r"\$1 = (\d+)"),
    ),
    "sdl-xvfb": App(
        ("{program}",),
        "libsdl2-dev xvfb",
        source="game.c",
        libraries="sdl2",
        env={"SDL_VIDEODRIVER": "x11", "SDL_AUDIODRIVER": "dummy", "MESA_SHADER_CACHE_DISABLE": "true"},
        sets=("-p", "game"),
        needs=("Xvfb",),
        ask=Ask("how often had it beeped?", ("rr-back -b beep", "p beeps.value"), r"\$1 = (\d+)"),
    ),
    "redis": App(
        ("redis-server", "--port", "{port}", "--save", "", "--appendonly", "no"),
        "redis",
        port=17201,
        client="redis-benchmark",
    ),
    "memcached": App(
        ("memcached", "-u", "root", "-l", "127.0.0.1", "-p", "{port}", "-t", "4"),
        "memcached libmemcached-tools",
        port=17202,
        client="memcslap",
        ask=SENT,
    ),
    "nginx": App(
        ("nginx", "-c", "{here}/nginx.conf"),
        "nginx-light",
        port=17203,
        client="http",
        files={"nginx.conf": NGINX},
        ask=VECTOR,
    ),
    "apache": App(
        ("apache2", "-X", "-f", "{here}/apache.conf"),
        "apache2 apache2-utils",
        port=17204,
        client="ab",
        files={"apache.conf": APACHE},
        ask=VECTOR,
    ),
}
