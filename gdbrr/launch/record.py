"""Recording: the directory a run is logged into, the run itself, and packing it into a demo.

Runs in: commands outside GDB and the server. May call: errors, abi, config, demo, ctl, launch.
Owns: NAME.demo.recording/ with its files ctl, log, drained and manifest.json; the keys of the manifest.
"""

from __future__ import annotations

import errno
import os
import resource
import select
import time
from _thread import allocate_lock, start_new_thread

import gdbrr
from gdbrr import abi, files
from gdbrr.abi import lib
from gdbrr.errors import GdbrrError
from gdbrr.launch import engine as engines
from gdbrr.launch import host, own, scratch, settings, spawn
from gdbrr.launch.ends.errors import InTheWay, Kept, NotBegun, before_it_runs, refusal
from gdbrr.launch.signals import terminal_signals
from gdbrr.quick import texts
from gdbrr.quick.paths import Path
from gdbrr.quick.rows import TYPE_CHECKING, Any, NamedTuple
from gdbrr.quick.scopes import suppress
from gdbrr.quick.signals import signal

if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable, Sequence

    from gdbrr.config.profiles import Profile
    from gdbrr.ctl.control import Panic
    from gdbrr.demo.manifest import SavedAt
    from gdbrr.demo.pack import Summary

SUFFIX = ".recording"
_FIRST_LOOK = 0.001
_SLOWEST_LOOK = 0.5


class Request(NamedTuple):
    """What to record."""

    argv: Sequence[str]
    env: dict[str, str]
    cwd: str
    profile: Profile
    engine: engines.Engine

    def program(self) -> tuple[str, str]:
        """(as execve takes it, absolute path)."""
        return spawn.find_program(self.argv[0], self.env, self.cwd)


class Ending(NamedTuple):
    """How a run ended, and what it left."""

    code: int
    """The exit status, or -N for signal N."""
    demo: Path | None
    """None where none was wanted."""
    summary: Summary | None
    panic: Panic | None
    guess: str = ""
    """The order that was chosen for the program, and why."""
    risk: str = ""
    """Why the replay may differ, where nobody chose the order."""

    @property
    def status(self) -> int:
        """As a shell shows it."""
        return self.code if self.code >= 0 else 128 - self.code


def free_name(program: str, directory: Path) -> Path:
    """PROGRAM-N.demo with the first N that is free."""
    number = 1
    while True:
        path = directory / f"{Path(program).name}-{number}.demo"
        if not recording_of(path).exists() and not path.exists():  # in this order: the one becomes the other
            return path
        number += 1


def recording_of(demo: Path) -> Path:
    return demo.with_name(demo.name + SUFFIX)


def _meanwhile() -> None:
    """What is needed behind the start takes as long to import as a short program runs."""
    from gdbrr.ctl import ahead, control  # noqa: F401
    from gdbrr.demo import pack  # noqa: F401
    from gdbrr.launch import inputs  # noqa: F401


def _pack(directory: Path, demo: Path, knobs: dict[str, int], key: bytes | None, stop: SavedAt | None) -> Summary:
    from gdbrr.demo import pack

    try:
        ticks, size = knobs["epoch_ticks"], knobs["epoch_bytes"]
        return pack.pack(directory, demo, stop=stop, keep=True, epoch_ticks=ticks, epoch_bytes=size, key=key)
    except GdbrrError as error:
        raise Kept(error.message, str(directory), error.hint) from None


class Recording:
    """One recording directory and the process that writes to it."""

    def __init__(self, request: Request, directory: Path) -> None:
        self.directory = directory
        engines.refuse_audit(request.env)
        self.exe, self.program = request.program()
        self.request = request = request._replace(profile=_decided(request, self.program))
        self.random = os.urandom(16)
        self.stack_limit = spawn.stack_limit()
        self.manifest = self._manifest()
        self._key = own.key()
        self.pid = 0
        self.early: list[int] = []
        """Signals to hand on that came before there was a process."""
        try:
            directory.mkdir(mode=0o700)
        except FileExistsError:
            raise InTheWay(
                f"{directory} is in the way",
                "it is an unfinished recording: gdbrr recover makes a demo of it; or choose another -o",
            ) from None
        except OSError as error:
            place = directory.parent
            if not place.is_dir():
                import shlex

                way_out = f"make it with mkdir -p {shlex.quote(str(place))}"
                raise GdbrrError(f"there is no directory {place}", way_out) from None
            reason = error.strerror if error.errno != errno.ENOENT else "its file system makes no directories"
            raise GdbrrError(f"{place} cannot be written: {reason}", "choose another place with -o") from None
        try:
            self.page = self._make_page()
        except BaseException:
            scratch.remove(directory)
            raise

    def _manifest(self) -> dict[str, Any]:
        request = self.request
        limits = {name.lower()[7:]: list(resource.getrlimit(getattr(resource, name))) for name in _limit_names()}
        return {
            "gdbrr": gdbrr.__version__,
            "abi": abi.ABI_VERSION,
            "program": self.program,
            "argv": list(request.argv),
            "env": [f"{name}={value}" for name, value in request.env.items()],
            "cwd": request.cwd,
            "limits": limits,
            "profile": request.profile.to_json(),
            "order": request.profile.values["order"].value,
            "started": time.time(),
            "end": {"kind": "unknown", "value": 0},
            "random": self.random.hex(),
            "signals": {"ignored": 0, "blocked": 0},
            "engine": {"path": str(request.engine.library), "build_id": host.build_id(request.engine.library)},
            "objects": [],
            "host": host.facts(),
        }

    def _make_page(self) -> abi.Ctl:
        profile = self.request.profile
        try:
            page = abi.map_ctl(self.directory / "ctl", create=True, reserve=True)
        except OSError as error:
            place, way_out = self.directory.parent, "make room, or choose another place with -o"
            raise GdbrrError(f"{place} cannot be written: {error.strerror}", way_out) from None
        page.c.mode = lib.GR_MODE_RECORD
        settings.fill(page, profile)
        size = profile.knobs()["log_limit"] // lib.GR_UNIT * lib.GR_UNIT
        page.c.data_size = size
        with open(self.directory / "log", "xb") as log:
            os.truncate(log.fileno(), size)
        return page

    def _write_manifest(self) -> None:
        """In one step, because a controller that is killed leaves the directory to be packed."""
        manifest = own.sealed(self.manifest, self.directory / "log", self._key)
        files.write(self.directory / "manifest.json", texts.dumps(manifest))

    def inherit_signals(self) -> None:
        """Let the program start with the signals ignored and blocked that this process has so."""
        ignored, blocked = spawn.own_signals()
        self.manifest["signals"] = {"ignored": ignored, "blocked": blocked}

    def start(self, meanwhile: Callable[[], object] = int, **how: Any) -> int:
        """Start the program and return its process id; MEANWHILE see spawn.launch; HOW are further fields of Start."""
        self._write_manifest()
        request, signals = self.request, self.manifest["signals"]
        preload = request.engine.preload(request.env.get("LD_PRELOAD", ""))
        env = [entry for entry in self.manifest["env"] if not entry.startswith("LD_PRELOAD=")]
        start = spawn.Start(
            exe=self.exe,
            argv=request.argv,
            env=[*env, f"LD_PRELOAD={preload}"],
            cwd=request.cwd,
            random=self.random,
            stack_limit=self.stack_limit,
            ignored=signals["ignored"],
            blocked=signals["blocked"],
            cache_pages=self.manifest["host"]["cache_pages"],
            **how,
        )
        ctl, log = self.directory / "ctl", self.directory / "log"
        self.pid = spawn.launch(request.engine, start, self.page, ctl, log, meanwhile)
        return self.pid

    def signalled(self, number: int) -> None:
        # INVARIANT(no-signal-lost): the process may run before its id is known here.
        if self.pid:
            self.hand_on(number)
        else:
            self.early.append(number)

    def hand_on(self, number: int) -> None:
        """Send the program a signal that was meant for it."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def note_objects(self) -> None:
        """Remember what the program has mapped by now, if it still runs."""
        if not self.page.c.started:
            return
        known = {row["path"] for row in self.manifest["objects"]} | {str(self.request.engine.library)}
        new = host.mapped_objects(self.pid, known)
        if new:
            self.manifest["objects"] += new
            with suppress(GdbrrError):  # a full disk is the log's business; at the end it is written again
                self._write_manifest()

    def _note_unseen(self) -> None:
        """What surely was mapped, where the program ended before anybody could look."""
        objects, request = self.manifest["objects"], self.request
        found = engines.preloads(request.env)
        if not objects:
            found = [self.program, host.interpreter(self.program)]
            if engines.obeys(request.env):
                from gdbrr.demo import guess

                found += guess.loaded(self.program, request.env, request.cwd)
        seen = {row["path"] for row in objects}
        objects += [host.identity(file) for file in dict.fromkeys(found) if file and file not in seen]

    @property
    def panic(self) -> Panic | None:
        from gdbrr.ctl.control import read_panic

        raw = self.page.slot(0).panic
        return read_panic(raw) if raw.set else None

    @property
    def closed(self) -> bool:
        """Whether the log was full, and the program went on without it."""
        return bool(self.page.c.clock & lib.GR_CLOSED)

    def end(self, wait_status: int) -> int:
        """Note how the program ended; returns the status a shell would show. Raises Kept when there is no room to."""
        from gdbrr.launch import inputs

        code = os.waitstatus_to_exitcode(wait_status)
        kind, value = ("exit", code) if code >= 0 else ("signal", -code)
        if self.closed or self.panic:  # the demo ends before the program did, or the engine ended it
            kind, value = "unknown", 0
        self.page.c.end_kind = {"unknown": 0, "exit": 1, "signal": 2}[kind]
        self.page.c.end_value = value
        self.manifest["end"] = {"kind": kind, "value": value}
        self.manifest.update(inputs.noted(self.page))
        self._note_unseen()
        try:
            self._write_manifest()
        except GdbrrError as error:
            import shlex

            raise Kept(
                error.message,
                "it",
                f"make room, then: gdbrr recover {shlex.quote(str(self.directory))}",
            ) from None
        return code if code >= 0 else 128 - code

    def check_started(self, status: int = 1) -> None:
        if not self.page.c.started:
            raise GdbrrError(
                f"{self.program} ended with status {status} before the engine started, so nothing was recorded",
                "run it without gdbrr: either it cannot be loaded at all, or its loader ignores LD_PRELOAD",
                status or 1,
            )

    def pack(self, demo: Path, stop: SavedAt | None = None) -> Summary:
        return _pack(self.directory, demo, self.request.profile.knobs(), self._key, stop)

    def remove(self) -> None:
        self.page.close()
        scratch.remove(self.directory)


def _decided(request: Request, program: str) -> Profile:
    """The profile of the request, with what it leaves to us."""
    profile = request.profile
    if profile.values["order"].value == "auto":
        from gdbrr.demo import guess

        found = guess.order_for(program, request.env)
        profile = profile.with_order(found.order, found.why)
    return profile.with_seed()


def _limit_names() -> list[str]:
    return sorted(name for name in dir(resource) if name.startswith("RLIMIT_") and name != "RLIMIT_OFILE")


def run(request: Request, demo: Path, wanted: Callable[[int], bool] = lambda code: True) -> Ending:
    """Record the program on this terminal as if alone, and pack the demo if it is WANTED for how the program ended."""
    with before_it_runs():
        recording = Recording(request, recording_of(demo))
    risk = _Risk(recording)
    try:
        with terminal_signals(recording.signalled) as wake:
            recording.inherit_signals()
            with before_it_runs():
                recording.start(_meanwhile)
            for number in recording.early:
                recording.hand_on(number)
            ended = _await_end(recording, wake, risk.look)
        code = os.waitstatus_to_exitcode(ended)
        status = recording.end(ended)
        panic = recording.panic
        if panic and panic.refused and not recording.page.c.started:
            why = refusal(panic)
            raise NotBegun(why.message, why.hint)
        if not (panic and panic.refused):
            recording.check_started(status)
    except Kept as kept:
        kept.code = code
        raise
    except BaseException:
        recording.remove()
        raise
    if (panic and panic.refused) or not wanted(code):
        recording.remove()
        return Ending(code, None, None, panic)
    # From here on the directory stays when something fails: it holds the whole run.
    risk.look()
    try:
        summary = recording.pack(demo)
    except Kept as kept:
        kept.code = code
        raise
    recording.remove()
    profile = recording.request.profile
    guess = f"order {profile.values['order'].value}, because {profile.guessed}" if profile.guessed else ""
    return Ending(code, demo, summary, panic, guess, risk.found() if summary.threads > 1 else "")


class _Risk:
    """What speaks against the order that holds where none is asked for. The code of a program that has threads is
    looked at beside the program, or beside the packing: a megabyte of it takes milliseconds, in C."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._done: LockType | None = None
        self._found: str | BaseException = ""

    def look(self) -> None:
        """Begin where it is time to."""
        order = self._recording.request.profile.values["order"]
        if self._done or order.origin != "default" or order.value != "parallel" or self._recording.page.c.threads < 2:
            return
        self._done = allocate_lock()
        self._done.acquire()
        start_new_thread(self._find, ())

    def _find(self) -> None:
        assert self._done
        try:
            from gdbrr.demo import guess

            found = guess.order_for(self._recording.program, self._recording.request.env)
            self._found = found.why if found.order != "parallel" else ""
        except BaseException as error:
            self._found = error
        finally:
            self._done.release()

    def found(self) -> str:
        if self._done:
            self._done.acquire()
        if isinstance(self._found, BaseException):
            raise self._found
        return self._found


def _await_end(recording: Recording, wake: int, look_beside: Callable[[], None]) -> int:
    """Wait until the program is gone; stop with it when it is stopped, so that job control sees one program."""
    from gdbrr.ctl.ahead import Ahead

    look = pause = _FIRST_LOOK
    due = 0.0
    poll = select.poll()
    poll.register(wake, select.POLLIN)
    ahead = Ahead(recording.page, recording.directory / "log")
    while True:
        pid, status = os.waitpid(recording.pid, os.WNOHANG | os.WUNTRACED)
        if pid and os.WIFSTOPPED(status):
            os.kill(os.getpid(), signal.SIGSTOP)
            with suppress(ProcessLookupError):
                os.kill(recording.pid, signal.SIGCONT)
            continue
        if pid:
            ahead.end()
            return status
        now = time.monotonic()
        if now >= due:
            recording.note_objects()
            look_beside()
            due, look = now + look, min(look * 1.5, _SLOWEST_LOOK)
        pause = ahead.look(pause)
        if poll.poll(min(pause, due - now) * 1000):
            with suppress(BlockingIOError):
                os.read(wake, 4096)
