"""A command whose reader has gone (`| head -1`) ends without a word; where nobody reads its messages, nothing changes.

Runs in: pytest. May call: gdbrr with closed pipes.
Owns: nothing.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness import ROOT
from harness.run import gdbrr

SEEN_ENOUGH = 128 + signal.SIGPIPE
WORDS = {
    "info": ("info", "{demo}"),
    "info-json": ("info", "--json", "{demo}"),
    "events": ("events", "{demo}"),
    "events-json": ("events", "--json", "{demo}"),
    "replay": ("replay", "{demo}"),
    "replay-json": ("replay", "--quiet", "--json", "{demo}"),
    "profiles": ("profiles",),
    "doctor": ("doctor",),
    "record": ("record", "-o", "{new}", "/bin/ls", "/"),
}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("demo") / "x.demo"
    gdbrr("record", "-o", path, "/bin/sh", "-c", "echo out; /bin/true").expect(0)
    return path


def closed(stream: str, *words: str) -> subprocess.CompletedProcess[bytes]:
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as pipe:
        command = [sys.executable, "-m", "gdbrr", *words]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: pipe}
        return subprocess.run(command, stdin=subprocess.DEVNULL, cwd=ROOT, timeout=60, check=False, **streams)


@pytest.mark.parametrize("name", WORDS)
def test_reader_of_the_output_is_gone(name: str, demo: Path, tmp_path: Path) -> None:
    words = [word.format(demo=demo, new=tmp_path / "new.demo") for word in WORDS[name]]
    done = closed("stdout", *words)
    said = b"gdbrr: recorded " if name == "record" else b""  # the program is ended by SIGPIPE as without gdbrr
    assert done.returncode == SEEN_ENOUGH and done.stderr.startswith(said) and bool(done.stderr) == bool(said)


@pytest.mark.parametrize("name", [*WORDS, "wrong"])
def test_reader_of_the_messages_is_gone(name: str, demo: Path, tmp_path: Path) -> None:
    words = [word.format(demo=demo, new=tmp_path / "new.demo") for word in WORDS.get(name, ("recrod",))]
    done = closed("stderr", *words)
    assert done.returncode == (2 if name == "wrong" else 0)
    assert bool(done.stdout) == (name != "wrong")
