"""Starting one program through gdbrr-launch.

Runs in: commands outside GDB and the server; the program becomes a child of the calling *thread*, whose end would be
the end of a replay (PR_SET_PDEATHSIG): call it from a thread that stays.
May call: errors, abi, the launcher.
Owns: the launcher's command line, and how its refusals become errors.
"""

from __future__ import annotations

import os
import resource
import select

from gdbrr.abi import Ctl, lib
from gdbrr.errors import GdbrrError
from gdbrr.launch.engine import Engine
from gdbrr.quick.paths import Path
from gdbrr.quick.rows import TYPE_CHECKING, NamedTuple
from gdbrr.quick.scopes import suppress
from gdbrr.quick.signals import signal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

NOT_FOUND = 127
NOT_EXECUTABLE = 126
LAUNCHER_REFUSED = 1
LAUNCHER_BUSY = 75


class Busy(GdbrrError):
    """There is no process to be had now; a moment later there may be."""


class Start(NamedTuple):
    """What a program is started with. `exe` is handed to execve as it stands, because the program can see it."""

    exe: str
    argv: Sequence[str]
    env: Sequence[str]
    cwd: str | None
    random: bytes
    stack_limit: int
    stop: bool = False
    """Leave it stopped at its first instruction."""
    die_with_parent: bool = False
    session: bool = False
    """Give it a session of its own with descriptor 0 as its terminal."""
    no_terminal: bool = False
    """Keep it away from the signals of the terminal (Ctrl-C) whatever its descriptors are."""
    stdio: tuple[int, int, int] | None = None
    ignored: int = 0
    """Signals it starts with ignored, as bits from signal 1 on."""
    blocked: int = 0
    no_core: bool = False
    carried: Path | None = None
    """What answers the loader (gdbrr/launch/carried)."""
    loader_log: Path | None = None
    """Where to write down what it asks and is told."""
    cache_pages: int | None = None
    """Pages that the loader's cache shall take in the layout; None: as many as it has. The engine must be preloaded."""


def find_program(word: str, env: Mapping[str, str], cwd: str) -> tuple[str, str]:
    """(what to hand to execve, absolute path) for a command's first word, as a shell in CWD would find it."""
    if "/" in word:
        return word, os.path.abspath(os.path.join(cwd, word))
    found = None
    for directory in env.get("PATH", os.defpath).split(":"):
        path = os.path.join(directory or ".", word)
        where = os.path.abspath(os.path.join(cwd, path))
        if os.path.isfile(where):
            if os.access(where, os.X_OK):
                return path, where
            found = path
    if found:
        raise GdbrrError(f"{found}: permission denied", "make it executable with chmod +x", NOT_EXECUTABLE)
    here = os.path.join(cwd, word)
    hint = f"did you mean ./{word}?" if word and os.path.isfile(here) else "check its name and PATH"
    raise GdbrrError(f"{word}: no such program", hint, NOT_FOUND)


def stack_limit() -> int:
    """The soft limit of the stack, which moves every mapping; -1 is unlimited."""
    return resource.getrlimit(resource.RLIMIT_STACK)[0]


def own_signals() -> tuple[int, int]:
    """(ignored, blocked) of this process, which a program started from a shell would inherit."""
    found = {"SigIgn": 0, "SigBlk": 0}
    with open("/proc/self/status", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            name, _, value = line.partition(":")
            if name in found:
                found[name] = int(value, 16)
    # Python ignores these two by itself; what the shell had meant cannot be known.
    pythons = 1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1
    return found["SigIgn"] & ~pythons, found["SigBlk"]


def file_of(fd: int) -> Path:
    """How a child opens what DESCRIPTOR of this process leads to, a file of no name."""
    return Path(f"/proc/{os.getpid()}/fd/{fd}")


def launch(
    engine: Engine, start: Start, page: Ctl, ctl: Path, data: Path, meanwhile: Callable[[], object] = int
) -> int:
    """Start the program; returns its process id once it stands at its first instruction. It must be reaped.

    MEANWHILE is called while the launcher works, which has a processor of its own where there are several.
    """
    # The environment travels in a file of no name, because it may be larger than what a command line takes.
    env_fd = os.memfd_create("gdbrr-env")
    try:
        with open(env_fd, "wb", closefd=False) as file:
            file.write(b"".join(os.fsencode(entry) + b"\0" for entry in start.env))
        words = [str(engine.launcher), "--ctl", str(ctl), "--data", str(data)]
        words += ["--env-file", str(file_of(env_fd)), "--exe", start.exe, "--random", start.random.hex()]
        words += ["--stack-limit", "unlimited" if start.stack_limit < 0 else str(start.stack_limit)]
        words += ["--ignored", f"{start.ignored:x}", "--blocked", f"{start.blocked:x}"]
        words += [] if start.cache_pages is None else ["--cache-pages", str(start.cache_pages)]
        words += ["--cwd", start.cwd] if start.cwd else []
        words += ["--stop"] if start.stop else []
        words += ["--session"] if start.session else []
        words += ["--no-terminal"] if start.no_terminal else []
        words += ["--no-core"] if start.no_core else []
        words += ["--die-with-parent"] if start.die_with_parent else []
        words += ["--carried", str(start.carried)] if start.carried else []
        words += ["--log", str(start.loader_log)] if start.loader_log else []
        status = _run([*words, "--", *start.argv], start.stdio, meanwhile)
    except BaseException:  # Ctrl-C: nobody knows of the program yet, and it would go only with this process
        _end(int(page.slot(0).pid))
        raise
    finally:
        os.close(env_fd)
    from gdbrr.ctl import control  # MEANWHILE may have imported it

    slot = page.slot(0)
    pid = int(slot.pid)
    if status == 0:
        if not control.is_child(pid):
            raise GdbrrError(f"process {pid} was not started by gdbrr", "the program has tampered with its pages")
        return pid
    if pid:  # it was made, then refused and killed
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)
    if slot.panic.set and slot.panic.code == lib.GR_PANIC_REFUSED:
        panic = control.read_panic(slot.panic)
        raise (Busy if status == LAUNCHER_BUSY else GdbrrError)(panic.text, panic.hint, status)
    # What the launcher itself says is on standard error by now: the control page was not there yet.
    hint = "see what it says above" if status == LAUNCHER_REFUSED else "build gdbrr again"
    raise GdbrrError(f"gdbrr-launch ended with status {status}", hint)


def _run(words: list[str], stdio: tuple[int, int, int] | None, meanwhile: Callable[[], object]) -> int:
    actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(stdio or ())]
    try:
        pid = os.posix_spawn(words[0], words, {}, file_actions=actions)
    except BlockingIOError as error:
        raise Busy(
            f"this machine refuses another process (error {error.errno})", "raise `ulimit -u`, or end some"
        ) from None
    try:
        meanwhile()
        _await(pid)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except BaseException:
        _end(pid)  # and with it what it traces
        raise


def _await(pid: int) -> None:
    """Wait for the launcher. It follows a packed program up to its engine, and that may not want to come there."""
    from gdbrr.ctl import control

    process = os.pidfd_open(pid)
    try:
        ends = select.poll()
        ends.register(process, select.POLLIN)
        if not ends.poll(control.START_LIMIT * 1000):
            raise GdbrrError(f"the program did not start within {control.START_LIMIT:.0f} s", "see gdbrr doctor")
    finally:
        os.close(process)


def _end(pid: int) -> None:
    from gdbrr.ctl import control

    if pid and control.is_child(pid):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
