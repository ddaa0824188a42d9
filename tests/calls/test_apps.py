"""Real programs: what they print, and how they end, is the same on replay.

Runs in: pytest. May call: gdbrr record, gdbrr replay, the programs.
Owns: the rows of docs/determinism.md that name it.
"""

from __future__ import annotations

import http.server
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from calls.test_programs import GDBRR, check, record
from harness import needs
from harness.run import run

PYTHON = "/usr/bin/python3"
NOISE = "import os, time, random, tempfile; print(os.getpid(), time.time(), random.random(), tempfile.mkdtemp())"
CHILDREN = (
    "import subprocess as s; print(s.run(['/bin/echo', 'x'], capture_output=True), s.getoutput('echo $$; date +%N'));"
    "print(s.call(['/nonexistent']))"
)
SQL = (
    "create table t(a, b); insert into t values(random(), datetime('now'));"
    "insert into t select random(), b from t; pragma journal_mode=wal;"
    "insert into t select random(), b from t; select * from t; select count(*), max(a) from t;"
)
APPS: dict[str, tuple[str, ...]] = {
    "ls": ("/bin/ls", "-lR", "/usr/lib/python3"),
    "proc": ("/bin/cat", "/proc/self/stat", "/proc/uptime", "/proc/self/maps"),
    "date": ("/bin/date", "+%s %N"),
    "python": (PYTHON, "-c", NOISE),
    "python-children": (PYTHON, "-c", CHILDREN),
    "sqlite": ("sqlite3", "base.db", SQL),
    "gzip": ("gzip", "-kc", "input"),
    "tar": ("tar", "cvzf", "out.tar.gz", "input"),
    "xz": ("xz", "-T1", "-kc", "input"),
    "awk": ("awk", 'BEGIN {srand(); print rand(), systime(); "date +%N; echo $$" | getline x; print x}'),
    "sort": ("sort", "-R", "input"),
    "git": ("git", "log", "--oneline", "--stat"),
    "git-commit": ("git", "commit", "-q", "--allow-empty", "-m", "another"),
}

CHANGES_ITS_INPUT = ("sqlite", "git-commit")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "place"
    path.mkdir()
    path.joinpath("input").write_text("".join(f"{number} a line of text\n" for number in range(2000)))
    monkeypatch.chdir(path)
    return path


def find(program: str) -> str:
    found = shutil.which(program)
    if not found:
        pytest.skip(needs.reason(program))
    return found


def make_repository() -> None:
    git = [find("git"), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    for key, value in (("user.name", "a"), ("user.email", "a@example.org"), ("gc.auto", "0")):
        subprocess.run([*git, "config", key, value], check=True)
    subprocess.run([*git, "add", "input"], check=True)
    subprocess.run([*git, "commit", "-qm", "first"], check=True)


@pytest.mark.parametrize("profile", ["default", "sparse"])
@pytest.mark.parametrize("name", APPS)
def test_app(name: str, profile: str, place: Path, tmp_path: Path) -> None:
    program, *arguments = APPS[name]
    if name.startswith("git"):
        make_repository()
    demo = tmp_path / "x.demo"
    first = record(demo, find(program), *arguments, profile=profile)
    assert first.out or name == "git-commit"
    if profile == "sparse" and name in CHANGES_ITS_INPUT:
        # What was read natively and changed afterwards is not what it was: said, or right all the same.
        again = run(*GDBRR, "replay", demo)
        assert again.out == first.out or "behind a native call" in again.err or "of a native call" in again.err
        return
    check(demo, first)


@pytest.fixture
def server() -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.date_time_string().encode() * 5000
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_address[1]}/"
        listening.shutdown()
        thread.join()


def test_curl(server: str, tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    first = record(demo, find("curl"), "-si", server)
    assert first.status == 0 and "200" in first.out
    check(demo, first)
