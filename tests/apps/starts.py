"""How the programs of table.py are started: compiled where that is to be done, with a screen, a terminal or a client.

Runs in: pytest. May call: compilers, pkg-config, Xvfb, tmux, what table.py names.
Owns: the processes beside a program: they are ended with it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from apps.clients import TOOLS, drive, serving, wait_for
from apps.table import App
from harness import BUILD, ROOT
from harness.run import Result, run, surroundings

GDBRR = (sys.executable, "-m", "gdbrr")
PROGRAMS = Path(__file__).parent / "programs"
LIMIT = 300.0
_LOOK = 0.05


def missing(app: App) -> str:
    """What of an application is not installed; empty where all is there."""
    words = [*app.needs, *([] if app.source else [app.words[0]]), *(["pkg-config"] if app.libraries else [])]
    words += ["g++" if app.source.endswith(".cc") else "gcc"] if app.source else []
    words += [*app.before[:1], *([app.client] if app.client in TOOLS else [])]
    for word in words:
        if not shutil.which(_filled(word, {"cc1": cc1()})):
            return word
    if app.libraries and subprocess.run(["pkg-config", "--exists", app.libraries], check=False).returncode:
        return f"{app.libraries} for development"
    return ""


@functools.cache
def cc1() -> str:
    """The compiler itself, which gcc starts as its child."""
    return run("gcc", "-print-prog-name=cc1").out.strip() if shutil.which("gcc") else "cc1"


@functools.cache
def compiled(source: str, libraries: str, flags: Sequence[str]) -> Path:
    out = BUILD / "apps" / Path(source).stem
    out.parent.mkdir(parents=True, exist_ok=True)
    found = run("pkg-config", "--cflags", "--libs", libraries).out.split() if libraries else []
    compiler = ["g++", "-std=c++20"] if source.endswith(".cc") else ["gcc"]
    fresh = out.with_name(f"{out.name}.{os.getpid()}")
    run(*compiler, "-g", "-O0", "-pthread", "-o", fresh, PROGRAMS / source, *flags, *found).expect(0)
    fresh.replace(out)
    return out


def prepare(app: App, here: Path) -> list[str]:
    """The files that it needs, and its command line."""
    here.chmod(0o755)  # servers give up their rights
    (here / "numbers").write_text("".join(f"{i * 7919 % 10007}\n" for i in range(100000)))
    places = {"here": str(here), "root": str(ROOT), "port": str(app.port), "cc1": cc1()}
    if app.source:
        places["program"] = str(compiled(app.source, app.libraries, app.flags))
    for name, text in app.files.items():
        (here / name).write_text(text.format(**places))
    if app.before:
        run(*(_filled(word, places) for word in app.before), limit=LIMIT).expect(0)
    return [_filled(word, places) for word in app.words]


def _filled(word: str, places: Mapping[str, str]) -> str:
    for place, value in places.items():
        word = word.replace("{" + place + "}", value)
    return word


def recorder(app: App, demo: Path, sets: Sequence[str] = ()) -> list[str]:
    return [*GDBRR, "record", "--order", app.order, *(sets or app.sets), "-o", str(demo), "--"]


def start(app: App, words: Sequence[str], here: Path) -> Result:
    """Run WORDS, which are an application, recorded or by itself."""
    if app.client:
        return _serve(app, words, here)
    if app.fetches:
        with serving(here, app.port):
            return run(*words, limit=LIMIT)
    if "tmux" in app.needs:
        return _typed(app, words, here)
    with _screen(app) as env:
        return run(*words, limit=LIMIT, env={**app.env, **env})


def _serve(app: App, words: Sequence[str], here: Path) -> Result:
    """The output goes to files: nobody reads a pipe while the client asks. The time is the client's."""
    with (here / "out").open("wb+") as out, (here / "err").open("wb+") as err:
        with subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
        ) as server:
            try:
                wait_for(app.port)
                began = time.monotonic()
                drive(app.client, app.port)
                seconds = time.monotonic() - began
                server.send_signal(signal.SIGTERM)
                status = server.wait(LIMIT)
            finally:
                if server.poll() is None:
                    os.killpg(server.pid, signal.SIGKILL)
        out.seek(0)
        err.seek(0)
        texts = [file.read().decode(errors="replace") for file in (out, err)]
    return Result(words, status if status >= 0 else 128 - status, texts[0], texts[1], seconds)


@contextlib.contextmanager
def _screen(app: App) -> Iterator[Mapping[str, str]]:
    """An X server of its own, without memory shared with its clients, which nothing could record."""
    if "Xvfb" not in app.needs:
        yield {}
        return
    ours, theirs = os.pipe()
    options = ["-screen", "0", "320x240x24", "-extension", "MIT-SHM", "-nolisten", "tcp", "-displayfd", str(theirs)]
    with subprocess.Popen(
        ["Xvfb", *options], pass_fds=[theirs], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        os.close(theirs)
        try:
            with os.fdopen(ours) as told:
                number = told.readline().strip()
            assert number, "Xvfb did not start"
            yield {"DISPLAY": f":{number}"}
        finally:
            server.terminate()


def _typed(app: App, words: Sequence[str], here: Path) -> Result:
    """In a terminal of tmux, where keys are typed when it shows what it should."""
    name = f"gdbrr-{os.getpid()}"
    tmux = ["tmux", "-L", name, "-f", "/dev/null"]
    script = f"{shlex.join(words)} 2> {here}/err; echo $? > {here}/status.new; mv {here}/status.new {here}/status"
    status = here / "status"
    status.unlink(missing_ok=True)
    began, env = time.monotonic(), {**surroundings(), "PYTHONPATH": str(ROOT)}
    session = ["new-session", "-d", "-x", "80", "-y", "24", script]
    subprocess.run([*tmux, *session], check=True, env=env, stdin=subprocess.DEVNULL)
    try:
        shown = ""
        while app.shows not in shown and not status.exists():
            assert time.monotonic() < began + LIMIT, shown
            time.sleep(_LOOK)
            done = subprocess.run([*tmux, "capture-pane", "-p"], capture_output=True, text=True, check=False)
            shown = done.stdout
        keys = [_filled(key, {"here": str(here)}) for key in app.keys]
        for key in keys:
            subprocess.run([*tmux, "send-keys", key], check=False, capture_output=True)
        while not status.exists():
            assert time.monotonic() < began + LIMIT, (here / "err").read_text()
            time.sleep(_LOOK)
    finally:
        subprocess.run([*tmux, "kill-server"], capture_output=True, check=False)
    seconds = time.monotonic() - began
    return Result(words, int(status.read_text()), "", (here / "err").read_text(), seconds)
