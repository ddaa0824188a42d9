"""Faults while a demo is replayed, searched and debugged: the demo stays what it was, and nothing stays behind.

Runs in: python -m faults, pytest. May call: gdbrr replay, gdb with gdbinit.py, the Python interface.
Owns: the random moves of a debugger.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

from faults import checks
from faults.during import MIB, fault, kill, no_mounts, recording, some_time
from faults.place import GDBRR, Ended, Lost, Place, Running, command, running
from faults.subjects import Subject
from harness import ROOT

MOVES = (
    "rr-goto {percent}%", "rr-goto start", "rr-goto end", "rr-back", "rr-when", "rr-epochs", "reverse-stepi", "stepi",
    "reverse-step", "step", "reverse-next", "info threads", "bt 5",
)  # fmt: skip
ALARMS = ("internal-error", "Python Exception", "Traceback (most recent")

EXPLORE = """
import os, random, signal, sys
import gdbrr
from gdbrr.errors import GdbrrError
def descriptors():
    return len(os.listdir("/proc/self/fd"))
rng = random.Random(int(sys.argv[2]))
before = descriptors()
for opened in range(2):
    with gdbrr.open(sys.argv[1]) as timeline:
        for number in range(6):
            tick = rng.randrange(timeline.end.tick + 1)
            leaf = timeline.seek(gdbrr.Moment.parse(str(tick)))
            if rng.random() < 0.4:
                os.kill(leaf.pid, signal.SIGKILL)
            try:
                leaf.threads()
            except GdbrrError as error:
                print("gdbrr:", error, file=sys.stderr)
            leaf.drop()
    if not opened:
        before = descriptors()  # what is opened once for a process
if descriptors() > before:
    sys.exit(f"{descriptors()} descriptors, {before} before")
"""


def a_demo(place: Place, subject: Subject) -> tuple[Path, bytes, str]:
    demo, started = recording(place, subject)
    ended = started.wait()
    if not demo.exists() or ended.status != subject.status:
        raise Lost(f"without a fault the recording fails: {ended.err}")
    return demo, ended.out, checks.digest_of(demo)


@fault("replay killed")
def replay_killed(place: Place, subject: Subject, rng: random.Random) -> str:
    demo, out, digest = a_demo(place, subject)
    started = place.start(*GDBRR, "replay", demo)
    whom = rng.choice(("controller", "program"))
    some_time(rng, subject)
    some = place.processes()
    victims = [pid for pid in some if (pid == started.process.pid) == (whom == "controller")]
    hit = bool(victims) and kill(rng.choice(victims))
    ended = started.wait()
    left(place)
    if hit and whom == "program" and not (ended.said() or ended.status == subject.status):
        raise Lost(f"its program was killed, and the replay says nothing: status {ended.status}, {ended.err!r}")
    checks.sound(place, subject, demo, out, digest)
    return f"its {whom} killed: the demo is sound" if hit else "it had ended before"


@fault("no room for a replay", no_mounts)
def no_room(place: Place, subject: Subject, rng: random.Random) -> str:
    demo, out, digest = a_demo(place, subject)
    script = 'mount -t tmpfs -o "size=$1" none "$TMPDIR" || exit 99; shift; "$@"'
    size = int(16 * 1024 * 2 ** (rng.random() * 10))
    ended = place.run(*GDBRR, "replay", demo, before=["unshare", "-m", "sh", "-c", script, "sh", str(size)])
    return limited_replay(place, subject, demo, out, digest, ended)


@fault("replay with few descriptors")
def few_descriptors(place: Place, subject: Subject, rng: random.Random) -> str:
    demo, out, digest = a_demo(place, subject)
    ended = place.run(*GDBRR, "replay", demo, before=["prlimit", f"--nofile={rng.randrange(5, 40)}"])
    return limited_replay(place, subject, demo, out, digest, ended)


@fault("replay with little address space")
def little_address_space(place: Place, subject: Subject, rng: random.Random) -> str:
    demo, out, digest = a_demo(place, subject)
    ended = place.run(*GDBRR, "replay", demo, before=["prlimit", f"--as={int(32 * MIB * 2 ** (rng.random() * 14))}"])
    return limited_replay(place, subject, demo, out, digest, ended)


def limited_replay(place: Place, subject: Subject, demo: Path, out: bytes, digest: str, ended: Ended) -> str:
    left(place)
    whole = ended.status == subject.status and (ended.out == out or not subject.says_all)
    if not whole and not ended.said():
        raise Lost(f"it neither replays nor says why not: status {ended.status}, {ended.err!r}")
    checks.sound(place, subject, demo, out, digest)
    return "whole" if whole else f"said: {checks.plain(ended.said())}"


def session(place: Place, subject: Subject, demo: Path, rng: random.Random, moves: int) -> Running:
    words = ["gdb", "-nx", "-batch"]
    lines = ["set pagination off", "set confirm off", "set width 0", f"source {ROOT / 'gdbinit.py'}"]
    lines += [f"file {subject.words[0]}", f"rr-replay {demo}"]
    lines += [rng.choice(MOVES).format(percent=rng.randrange(101)) for _ in range(moves)]
    for line in lines:
        words += ["-ex", line]
    return place.start(*words)


def complain(text: str) -> None:
    for alarm in ALARMS:
        if alarm in text:
            raise Lost(f"{alarm} in a session:\n{text[-3000:]}")


@fault("a session without one")
def wander(place: Place, subject: Subject, rng: random.Random) -> str:
    demo, out, digest = a_demo(place, subject)
    ended = session(place, subject, demo, rng, 10).wait(subject.patience(10))
    complain(ended.out.decode(errors="replace") + ended.err)
    left(place)
    checks.sound(place, subject, demo, out, digest)
    return "ten moves, the demo is sound"


@fault("session: somebody is killed")
def session_killed(place: Place, subject: Subject, rng: random.Random) -> str:
    demo, out, digest = a_demo(place, subject)
    started = session(place, subject, demo, rng, 10)
    whom = rng.choice(("gdb", "server", "gdbserver", "leaf"))
    victims: list[int] = []
    while not victims and started.process.poll() is None:
        time.sleep(rng.random() * 0.2)
        victims = [pid for pid in place.processes() if is_one(pid, whom, subject, started)]
    time.sleep(rng.random() ** 2)
    hit = bool(victims) and kill(rng.choice(victims))
    ended = started.wait(subject.patience(10))
    complain(ended.out.decode(errors="replace") + ended.err)
    left(place)
    checks.sound(place, subject, demo, out, digest)
    return f"{whom} killed: the demo is sound" if hit else "nobody was there to be killed"


def is_one(pid: int, whom: str, subject: Subject, started: Running) -> bool:
    if whom == "gdb":
        return pid == started.process.pid
    if whom == "leaf":
        return running(pid, Path(subject.words[0]))
    words = command(pid).split(" ")
    return any(Path(word).name == ("serve" if whom == "server" else "gdbserver") for word in words)


@fault("script: leaves are killed")
def explore(place: Place, subject: Subject, rng: random.Random) -> str:
    demo, out, digest = a_demo(place, subject)
    ended = place.run(sys.executable, "-c", EXPLORE, demo, str(rng.randrange(1 << 30)), patience=subject.patience(12))
    if ended.status and not ended.said():
        raise Lost(f"status {ended.status}: {ended.err}")
    left(place)
    checks.sound(place, subject, demo, out, digest)
    return "the demo is sound, no descriptor is left open"


def left(place: Place) -> None:
    found = place.left()
    if found:
        raise Lost("left behind: " + ", ".join(found[:10]))
