"""The programs whose state must be the recording's at every digest: command lines, and what must lie where they run.

Runs in: pytest. May call: nothing.
Owns: the list. A program that is not installed is left out; the suite says how many there must be at least.
"""

from __future__ import annotations

import gzip
import shutil
import tarfile
from pathlib import Path

PYTHON = "/usr/bin/python3"  # on PATH there may be a shim that executes another program
LEAST = 30

# Name: words. {here} is a directory with the files that `prepare` makes.
COMMANDS: dict[str, tuple[str, ...]] = {
    "awk": ("awk", "BEGIN { srand(); print rand() } { s += $1 } END { print s }", "{here}/numbers"),
    "bash": ("bash", "-c", "for i in 1 2 3; do echo $RANDOM $i $$; done"),
    "bc": ("bc", "-l", "{here}/sum.bc"),
    "bzip2": ("bzip2", "-c", "{here}/numbers"),
    "curl": ("curl", "-s", "file://{here}/words"),
    "curl-refused": ("curl", "-s", "http://127.0.0.1:9/"),
    "dash": ("dash", "-c", "echo $$; read x < {here}/words; echo $x"),
    "date": ("date", "+%s.%N"),
    "df": ("df", "{here}"),
    "diff": ("diff", "{here}/words", "{here}/numbers"),
    "du": ("du", "-a", "{here}"),
    "env": ("env",),
    "expr": ("expr", "3", "+", "4"),
    "file": ("file", "/bin/ls"),
    "find": ("find", "{here}", "-name", "n*", "-printf", "%f %i %T@\n"),
    "perl-time": ("perl", "-e", "print localtime() . $/"),
    "getent": ("getent", "passwd", "root"),
    "git": ("git", "-C", "{root}", "log", "--oneline", "-n", "5"),
    "grep": ("grep", "-c", "1", "{here}/numbers"),
    "gzip": ("gzip", "-c", "{here}/numbers"),
    "gunzip": ("gzip", "-dc", "{here}/numbers.gz"),
    "id": ("id",),
    "iconv": ("iconv", "-f", "utf8", "-t", "utf16", "{here}/words"),
    "ls": ("ls", "-lR", "{here}"),
    "objdump": ("objdump", "-h", "/bin/ls"),
    "od": ("od", "-An", "-N16", "-x", "/dev/urandom"),
    "openssl": ("openssl", "rand", "-hex", "8"),
    "perl": ("perl", "-e", 'my %h = map { $_ => 1 } 1 .. 50; print rand(), " $$ ", join(",", keys %h), "\\n"'),
    "ps": ("ps", "-e"),
    "python": (PYTHON, "-c", "import os, random, time; print(random.random(), time.time(), os.getpid(), hash('x'))"),
    "readelf": ("readelf", "-a", "/bin/true"),
    "sed": ("sed", "-n", "s/1/x/p", "{here}/numbers"),
    "sha256sum": ("sha256sum", "/bin/ls"),
    "shuf": ("shuf", "-n", "5", "{here}/numbers"),
    "sort": ("sort", "{here}/numbers"),
    "sort-random": ("sort", "-R", "{here}/words"),
    "sqlite3": ("sqlite3", ":memory:", "create table t(a); insert into t values (random()); select *, time() from t;"),
    "stat": ("stat", "{here}/words"),
    "tar": ("tar", "tvf", "{here}/files.tar"),
    "tar-make": ("tar", "cf", "-", "-C", "{here}", "words"),
    "uname": ("uname", "-a"),
    "xz": ("xz", "-T1", "-c", "{here}/numbers", "{here}/numbers"),  # with one file it shuts off /proc (5.8)
    "zstd": ("zstd", "-q", "--single-thread", "-c", "{here}/numbers"),
}

# Of tests/programs. In order `parallel` they are compared while there is one thread.
OWN = (
    *("spine", "moments", "two_threads", "identity_stack", "identity_locks", "identity_beside", "identity_unjoined"),
    *("identity_first_calls",),
)

# Long runs get fewer digests.
EVERY = {"python": 50, "ps": 25, "sqlite3": 5, "find": 5, "moments": 50, "spine": 5}


def prepare(here: Path) -> None:
    (here / "words").write_text("b 2\na 1\nc 3\n")
    (here / "numbers").write_text("".join(f"{n}\n" for n in range(1, 2001)))
    (here / "sum.bc").write_text("scale=20\n4*a(1)\nquit\n")
    (here / "numbers.gz").write_bytes(gzip.compress((here / "numbers").read_bytes()))
    with tarfile.open(here / "files.tar", "w") as tar:
        tar.add(here / "words", "words")


def installed() -> dict[str, tuple[str, ...]]:
    return {name: words for name, words in COMMANDS.items() if shutil.which(words[0])}
