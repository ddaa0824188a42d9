"""Real programs are recorded, servers with clients that ask them, and replayed with nobody there: the same output.

Runs in: pytest; GDBRR_APPS=all (make apps) tries all of table.py and
leaves figures in build/apps.json. May call: what table.py names.
Owns: nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from apps.clients import drive, wait_for
from apps.table import APPS, App
from harness import BUILD, ROOT
from harness.run import Result, run

GDBRR = (sys.executable, "-m", "gdbrr")
ALL = os.environ.get("GDBRR_APPS") == "all"
LIMIT = 300.0
REPORT = BUILD / "apps.json"


def chosen() -> list[str]:
    return [name for name, app in APPS.items() if ALL or (app.quick and shutil.which(app.words[0]))]


def prepare(app: App, here: Path) -> list[str]:
    here.chmod(0o755)  # servers give up their rights
    (here / "numbers").write_text("".join(f"{i * 7919 % 10007}\n" for i in range(100000)))
    places = {"here": str(here), "root": str(ROOT), "port": str(app.port)}
    for name, text in app.files.items():
        (here / name).write_text(text.format(**places))
    words = []
    for word in app.words:
        for place, value in places.items():
            word = word.replace("{" + place + "}", value)
        words.append(word)
    return words


def serve(app: App, words: list[str], demo: Path) -> Result:
    """The output goes to files: nobody reads a pipe while the client asks."""
    command = [*GDBRR, "record", "--order", app.order, "-o", str(demo), "--", *words]
    start = time.monotonic()
    with (demo.parent / "out").open("wb+") as out, (demo.parent / "err").open("wb+") as err:
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
        ) as server:
            try:
                wait_for(app.port)
                drive(app.client, app.port)
                server.send_signal(signal.SIGTERM)
                status = server.wait(LIMIT)
            finally:
                if server.poll() is None:
                    os.killpg(server.pid, signal.SIGKILL)
        out.seek(0)
        err.seek(0)
        texts = [file.read().decode(errors="replace") for file in (out, err)]
    return Result(command, status, texts[0], texts[1], time.monotonic() - start)


@pytest.mark.limit(900)
@pytest.mark.parametrize("name", chosen())
def test_a_real_program_replays_alone(name: str, tmp_path: Path) -> None:
    app, demo = APPS[name], tmp_path / "x.demo"
    if not shutil.which(app.words[0]):
        pytest.skip(f"{app.words[0]} is not installed: apt-get install {app.package}")
    words = prepare(app, tmp_path)
    if app.port:
        first = serve(app, words, demo)
    else:
        first = run(*GDBRR, "record", "--order", app.order, "-o", demo, "--", *words, limit=LIMIT)
    assert demo.exists(), first.describe()
    again = run(*GDBRR, "replay", demo, limit=LIMIT)
    assert (again.status, again.out) == (first.status, first.out), again.describe()
    if ALL:
        note(name, app, first, again, demo)


def note(name: str, app: App, first: Result, again: Result, demo: Path) -> None:
    info = json.loads(run(*GDBRR, "info", "--json", demo).expect(0).out)
    row = {
        "name": name,
        "order": app.order,
        "status": first.status,
        "operations": info["operations"],
        "threads": len(info["threads"]),
        "bytes": demo.stat().st_size,
        "record_seconds": round(first.seconds, 2),
        "replay_seconds": round(again.seconds, 2),
    }
    REPORT.parent.mkdir(exist_ok=True)
    with REPORT.open("a") as file:
        file.write(json.dumps(row) + "\n")
