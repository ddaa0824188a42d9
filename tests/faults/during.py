"""Faults while a program is being recorded.

Runs in: python -m faults, pytest. May call: gdbrr record; unshare, mount, losetup, prlimit, cgroups.
Owns: the mounts and control groups of one round.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from faults import checks
from faults.place import GDBRR, PATIENCE, Ended, Lost, Place, Running, running
from faults.subjects import Subject

MIB = 1 << 20
GROUPS = Path("/sys/fs/cgroup")
Act = Callable[[Place, Subject, random.Random], str]


@dataclass(frozen=True)
class Fault:
    name: str
    act: Act
    missing: Callable[[], str]
    """Why it cannot be tried on this machine; empty where it can."""


FAULTS: dict[str, Fault] = {}


def fault(name: str, missing: Callable[[], str] = lambda: "") -> Callable[[Act], Act]:
    def add(act: Act) -> Act:
        assert name not in FAULTS
        FAULTS[name] = Fault(name, act, missing)
        return act

    return add


def recording(place: Place, subject: Subject, before: Sequence[str | Path] = ()) -> tuple[Path, Running]:
    demo = place.kept / "x.demo"
    return demo, subject.recording(place, demo, before=before)


def some_time(rng: random.Random, subject: Subject) -> None:
    """Up to as long as the program takes; short times more often, because other load makes all of it longer."""
    time.sleep(rng.random() ** 2 * subject.seconds)


def kill(pid: int | None) -> bool:
    if pid is None:
        return False
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def gone(place: Place) -> None:
    """Waits for a program that goes on without its recorder."""
    limit = time.monotonic() + 60
    while place.processes():
        if time.monotonic() > limit:
            raise Lost(f"without its recorder the program does not end: {place.processes()}")
        time.sleep(0.01)


@fault("program killed")
def program_killed(place: Place, subject: Subject, rng: random.Random) -> str:
    demo, started = recording(place, subject)
    pid = place.program_of(subject.words[0], started)
    some_time(rng, subject)
    hit = kill(pid)
    what = checks.whole_or_said(place, subject, demo, started.wait())
    return what if hit else f"it had ended before; {what}"


@fault("recorder killed")
def recorder_killed(place: Place, subject: Subject, rng: random.Random) -> str:
    demo, started = recording(place, subject)
    if rng.random() < 0.8:  # else before there is a program
        place.program_of(subject.words[0], started)
    some_time(rng, subject)
    hit = started.process.poll() is None
    started.process.kill()
    ended = started.wait()
    gone(place)
    ended.out = started.output()  # the program went on behind its recorder's end
    if not hit:
        return f"it had ended before; {checks.whole_or_said(place, subject, demo, ended)}"
    left = demo.with_name(demo.name + ".recording")
    if not demo.exists() and not left.exists():
        if ended.out:
            raise Lost("the program has printed, and nothing is left of its recording")
        return "nothing had begun"
    return checks.whole_or_said(place, subject, demo, ended)


@fault("recorder stalled")
def recorder_stalled(place: Place, subject: Subject, rng: random.Random) -> str:
    """As where its disk, or the whole machine, stands still for a while."""
    demo, started = recording(place, subject)
    for _ in range(3):
        some_time(rng, subject)
        with contextlib.suppress(ProcessLookupError):
            os.kill(started.process.pid, signal.SIGSTOP)
            time.sleep(0.1)
            os.kill(started.process.pid, signal.SIGCONT)
    return whole(place, subject, demo, started)


def whole(place: Place, subject: Subject, demo: Path, started: Running) -> str:
    """What is only slow, or only strange, must cost nothing."""
    what = checks.whole_or_said(place, subject, demo, started.wait())
    if what != "whole":
        raise Lost(f"the recording is not whole: {what}")
    return what


# ---------------------------------------------------------------- disks
def no_mounts() -> str:
    words = ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return "" if done.returncode == 0 else "nobody may mount here"


NO_COPY, NO_DISK = 213, 214
"""Statuses of the scripts below that no program here ends with."""
SETS = f"NO_COPY={NO_COPY} NO_DISK={NO_DISK}\n"

ON_SMALL_DISK = (
    SETS
    + """
mount -t tmpfs -o "size=$1" none "$2" || exit $NO_DISK
cd "$2" && recovered=$3 && shift 3
"$@"
status=$?
if [ -e x.demo ]; then cp x.demo "$recovered" || exit $NO_COPY
elif [ -e x.demo.recording ]; then $GDBRR_COMMAND recover -o "$recovered" x.demo.recording >&2; fi
exit $status
"""
)


@fault("disk full", no_mounts)
def disk_full(place: Place, subject: Subject, rng: random.Random) -> str:
    disk, demo = place.kept / "disk", place.kept / "x.demo"
    disk.mkdir()
    size = int(256 * 1024 * 2 ** (rng.random() * 5))
    script = ON_SMALL_DISK.replace("$GDBRR_COMMAND", " ".join(f"'{word}'" for word in GDBRR))
    before: list[str | Path] = ["unshare", "-m", "sh", "-c", script, "sh", str(size), disk, demo]
    when_full = f"limits.when_full={rng.choice(('stop', 'go_on'))}"
    ended = subject.recording(place, "x.demo", "--set", when_full, before=before).wait()
    if ended.status in (NO_COPY, NO_DISK):
        raise Lost(f"the disk could not be made: {ended.err}")
    return checks.whole_or_said(place, subject, demo, ended)


def no_slow_disk() -> str:
    if no_mounts():
        return no_mounts()
    if not (GROUPS / "blkio" / "blkio.throttle.write_bps_device").exists():
        return "disks cannot be slowed down here (no control group for them)"
    if not all(shutil.which(tool) for tool in ("losetup", "mkfs.ext4")):
        return "losetup or mkfs.ext4 is not installed"
    done = subprocess.run(["losetup", "-f"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return "" if done.returncode == 0 else "there are no loop devices here"


@contextlib.contextmanager
def group(kind: str, **values: str) -> Iterator[Path]:
    """A control group of version 1, gone behind the round."""
    path = GROUPS / kind / f"gdbrr-faults-{os.getpid()}"
    path.mkdir()
    try:
        for name, value in values.items():
            (path / name.replace("__", ".")).write_text(value)
        yield path
    finally:
        for _ in range(500):
            with contextlib.suppress(OSError):
                path.rmdir()
                break
            time.sleep(0.02)


ON_SLOW_DISK = (
    SETS
    + """
losetup "$1" "$2" && mkfs.ext4 -q "$1" && mount -o sync,dirsync "$1" "$3" || { losetup -d "$1"; exit $NO_DISK; }
echo "$(cat /sys/class/block/${1#/dev/}/dev) $5" >"$4/blkio.throttle.write_bps_device"
echo $$ >"$4/cgroup.procs"
cd "$3" && demo=$6 && shift 6
"$@"
status=$?
[ ! -e x.demo ] || cp x.demo "$demo" || exit $NO_COPY
exit $status
"""
)


@fault("slow disk", no_slow_disk)
def slow_disk(place: Place, subject: Subject, rng: random.Random) -> str:
    """64 KB to 1 MB a second, and every write waits for it."""
    image, disk, demo = place.kept / "image", place.kept / "disk", place.kept / "x.demo"
    disk.mkdir()
    with image.open("wb") as file:
        file.truncate(512 * MIB)  # a server with 28 threads logs a hundred
    device = subprocess.run(["losetup", "-f"], capture_output=True, text=True, check=True).stdout.strip()
    with group("blkio") as slow:
        speed = int(64 * 1024 * 2 ** (rng.random() * 4))
        before: list[str | Path] = [
            "unshare",
            "-m",
            "sh",
            "-c",
            ON_SLOW_DISK,
            "sh",
            device,
            image,
            disk,
            slow,
            str(speed),
            demo,
        ]
        try:
            ended = subject.recording(place, "x.demo", before=before).wait(10 * PATIENCE)  # a server logs megabytes
        finally:
            place.end()
            for _ in range(100):  # the mount is gone with the last process of its namespace
                done = subprocess.run(["losetup", "-d", device], capture_output=True, check=False)
                if done.returncode == 0 and not Path(f"/sys/class/block/{Path(device).name}/loop").exists():
                    break
                time.sleep(0.05)
    if ended.status == NO_DISK:
        return "no such disk could be made"
    image.unlink()
    what = checks.whole_or_said(place, subject, demo, ended)
    if what != "whole":
        raise Lost(f"the recording is not whole: {what}")
    return what


# ---------------------------------------------------------------- clocks
def no_clock() -> str:
    done = subprocess.run(
        ["unshare", "-T", "--monotonic", "1000", "true"], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    return "" if done.returncode == 0 else "there are no namespaces for clocks here"


@fault("clock jumps between recording and replay", no_clock)
def clock_jumps(place: Place, subject: Subject, rng: random.Random) -> str:
    """Of the monotonic clock and the boot's, which a namespace may shift; that of the day is the whole machine's."""
    shifts = [str(rng.choice((1, 1000, 10_000_000)) * rng.randrange(1, 100)) for _ in range(2)]
    unshare = [["unshare", "-T", "--monotonic", shift, "--boottime", shift] for shift in shifts]
    demo, started = recording(place, subject, unshare[0])
    ended = started.wait()
    if not demo.exists():
        return checks.whole_or_said(place, subject, demo, ended)
    again = place.run(*GDBRR, "replay", demo, before=unshare[1])
    if again.status != ended.status or (subject.says_all and again.out != ended.out):
        raise Lost(f"at another time it replays with status {again.status}, not {ended.status}: {again.err}")
    return "whole"


CLOCK_OF_THE_DAY = "the clock of the day jumps"


def no_own_clock() -> str:
    return (
        ""
        if os.environ.get("GDBRR_OWN_CLOCK")
        else "it is the whole machine's: `make kernel` tries it in a virtual one"
    )


@fault(CLOCK_OF_THE_DAY, no_own_clock)
def day_jumps(place: Place, subject: Subject, rng: random.Random) -> str:
    """Forwards and back, by seconds to years, all the time that the program is recorded and replayed."""
    demo, started = recording(place, subject)
    jump_about(started, subject, rng)
    what = whole(place, subject, demo, started)
    again = place.start(*GDBRR, "replay", demo)
    jump_about(again, subject, rng)
    ended = again.wait()
    if ended.status != subject.status or (subject.says_all and ended.out != started.output()):
        raise Lost(f"while the clock jumps it replays with status {ended.status}, not {subject.status}: {ended.err}")
    return what


def jump_about(started: Running, subject: Subject, rng: random.Random) -> None:
    begun, day = time.monotonic(), time.time()
    try:
        while started.process.poll() is None and time.monotonic() < begun + PATIENCE:
            some_time(rng, subject)
            time.clock_settime(time.CLOCK_REALTIME, day + rng.choice((-1, 1)) * 10 ** rng.uniform(0, 8))
    finally:
        time.clock_settime(time.CLOCK_REALTIME, day + time.monotonic() - begun)


# ---------------------------------------------------------------- memory and descriptors
def limited(place: Place, subject: Subject, *limits: str) -> str:
    demo, started = recording(place, subject, ["prlimit", *limits])
    try:
        ended = started.wait()
    except Lost as lost:
        place.end()
        if str(lost).startswith("no end") and endless(place, subject, limits):
            return "with so little the program does not end by itself, either"
        raise
    return checks.whole_or_said(place, subject, demo, ended)


def endless(place: Place, subject: Subject, limits: Sequence[str]) -> bool:
    try:
        subject.start(place, *subject.words, before=["prlimit", *limits]).wait()
    except Lost:
        return True
    return False


@fault("little address space")
def little_address_space(place: Place, subject: Subject, rng: random.Random) -> str:
    return limited(place, subject, f"--as={int(32 * MIB * 2 ** (rng.random() * 14))}")


@fault("little data")
def little_data(place: Place, subject: Subject, rng: random.Random) -> str:
    """Not less than an interpreter of Python takes by itself."""
    return limited(place, subject, f"--data={int(32 * MIB * 2 ** (rng.random() * 4))}")


@fault("few descriptors")
def few_descriptors(place: Place, subject: Subject, rng: random.Random) -> str:
    return limited(place, subject, f"--nofile={rng.randrange(5, 40)}")


def no_memory_group() -> str:
    return "" if os.access(GROUPS / "memory" / "memory.limit_in_bytes", os.W_OK) or (
        (GROUPS / "memory" / "cgroup.procs").exists() and os.geteuid() == 0
    ) else "memory cannot be limited here (no control group for it)"  # fmt: skip


@fault("little memory", no_memory_group)
def little_memory(place: Place, subject: Subject, rng: random.Random) -> str:
    """The kernel kills whom it likes: the program, or its recorder."""
    size = int(12 * MIB * 2 ** (rng.random() * 4))
    with group("memory", memory__limit_in_bytes=str(size)) as small:
        before: list[str | Path] = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', small / "cgroup.procs"]
        demo, started = recording(place, subject, before)
        ended, slow = patiently(place, subject, started)
        gone(place)
        ended.out = started.output()
        left = demo.with_name(demo.name + ".recording")
        if ended.status == 128 + signal.SIGKILL and not demo.exists() and not left.exists():
            if ended.out:
                raise Lost("the program has printed, and nothing is left of its recording")
            return "nothing had begun"
    return slow + checks.whole_or_said(place, subject, demo, ended)


def patiently(place: Place, subject: Subject, started: Running) -> tuple[Ended, str]:
    """The end of a recording. A program that gets its own code from the disk again and again may never come to its own:
    then it is killed. One that does not come to its end for another reason is lost."""
    limit = time.monotonic() + PATIENCE
    while place.processes() and time.monotonic() < limit:
        time.sleep(0.02)
    slow = [pid for pid in place.processes() if running(pid, Path(subject.words[0])) and is_reading(pid)]
    what = "comes to no end, and is killed; " if any(kill(pid) for pid in slow) else ""
    return started.wait(), what


def is_reading(pid: int) -> bool:
    """Whether it waits for pages of its own, more and more of them."""
    before = pages_read(pid)
    time.sleep(2)
    return pages_read(pid) > before


def pages_read(pid: int) -> int:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[9])
    return 0
