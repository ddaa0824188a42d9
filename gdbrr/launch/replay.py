"""Replaying: a demo's program started again with the recorded layout, on the image of its log.

Runs in: commands outside GDB and the server. May call: errors, abi, config, demo, ctl, launch.
Owns: the temporary files of a replay; what of a demo may decide anything on this machine.
"""

from __future__ import annotations

import os
import time

from gdbrr import abi
from gdbrr.abi import lib
from gdbrr.config.profiles import Profile
from gdbrr.ctl import crowd
from gdbrr.ctl.control import FOREVER, Control, Panic, Patience, ProcessEnded, Slot, Soft, is_child
from gdbrr.demo import carried, image
from gdbrr.errors import EXIT_DESYNC, EXIT_ERROR, GdbrrError
from gdbrr.launch import engine as engines
from gdbrr.launch import own, scratch, settings, spawn
from gdbrr.launch.shown import Shown
from gdbrr.quick.rows import TYPE_CHECKING, Any, NamedTuple
from gdbrr.quick.scopes import contextmanager, suppress
from gdbrr.quick.signals import name_of, signal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from gdbrr.demo.reader import Demo
    from gdbrr.launch.carried.place import Placed
    from gdbrr.launch.watchdog import Overdue
    from gdbrr.quick.paths import Path

_REAP_LIMIT = 5.0
_REAP_PAUSE = 0.0002
_LOOK = 0.02
_NOT_OWN = "was recorded by another user or on another machine, or was changed since"
INSIST = "GDBRR_WITHOUT_LANDLOCK"
"""Replay other people's demos on a kernel without it."""
_END_LIMIT = 30.0
"""Seconds that a process may take from its last operation to its end."""
_MOST_CACHE_PAGES = 1 << 16
_END_KINDS = {"unknown": 0, "exit": 1, "signal": 2}


class Untrusted(GdbrrError):
    """The demo comes from somebody else."""


class Replay:
    """A started replay: slot 0 is its first process. `close` ends that one only; copies are their maker's."""

    def __init__(self, demo: Demo, control: Control, slot: Slot, pid: int, profile: Profile) -> None:
        self.demo = demo
        self.control = control
        self.slot = slot
        self.pid = pid
        self.profile = profile

    def close(self) -> None:
        if self.pid:
            end_process(self.pid)
        self.control.close()


class Outcome(NamedTuple):
    """How a replay without a debugger ended."""

    status: int
    ticks: int
    panic: Panic | None
    problem: str = ""
    """Why it counts as desynchronised when no panic says so."""
    started: bool = True
    """Whether the engine came to work at all."""
    soft: Soft | None = None
    overdue: Overdue | None = None
    echo_error: int = 0
    """The errno for which the program's output, and with it the replay, was given up."""
    seconds: float = 0.0
    program_status: int = EXIT_DESYNC
    """As a shell shows it, when the program came to its end."""

    @property
    def kept(self) -> bool:
        """Whether every constraint of the demo was kept."""
        return self.panic is None and not self.problem and not self.echo_error

    @property
    def synchronised(self) -> bool:
        return self.kept and self.soft is None


def check_trust(demo: Demo, profile: Profile) -> None:
    """Refuse to run what somebody else recorded: a demo names a program and its arguments."""
    manifest, brought = demo.manifest, carried.files(demo.manifest)
    if own.made(demo) and not brought:
        return
    native = ", ".join(sorted(native_classes(profile))) or "none"
    why = "brings programs along" if brought else _NOT_OWN
    files = "".join(
        f"  it would run:      {file.path!r}, build-id {file.build_id or 'none'}, SHA-256 {file.sha256}\n"
        for file in brought
        if file.kind in ("program", "engine", "object")
    )
    raise Untrusted(
        f"{demo.path} {why}.\n"
        f"{_program_shown(manifest)}"
        f"  arguments:         {' '.join(map(repr, manifest['argv'][1:])) or 'none'}\n"
        f"{files}"
        f"{engines.shown(manifest)}"
        f"  executed natively: {native}",
        "if you trust it, add --trust",
    )


def executed(manifest: Mapping[str, Any]) -> str:
    """The name that is handed to execve: what was typed, if that has a directory in it."""
    word = manifest["argv"][0] if manifest["argv"] else ""
    return word if "/" in word else str(manifest["program"])


def _program_shown(manifest: Mapping[str, Any]) -> str:
    """The file that would be executed and the name it would be told; both, where they differ."""
    file = os.path.join(manifest["cwd"], executed(manifest))
    word = manifest["argv"][0] if manifest["argv"] else ""
    rows = [("program", file)]
    if os.path.normpath(file) != os.path.normpath(manifest["program"]):
        rows.append(("recorded as", manifest["program"]))
    if word != file:
        rows.append(("under the name", word))
    return "".join(f"  {what + ':':<18} {name!r}\n" for what, name in rows)


def check_landlock(demo: Demo) -> None:
    """Refuse a demo of somebody else where nothing keeps files, terminals and other processes from being read."""
    from gdbrr.launch import probes

    if own.made(demo) or os.environ.get(INSIST) or probes.landlock():
        return
    raise Untrusted(
        f"{demo.path} is somebody else's, and this kernel has no Landlock: its replay could read what you type and the"
        " memory of your other processes",
        f"replay it on a kernel with Landlock (gdbrr doctor), or insist with {INSIST}=1",
    )


def native_classes(profile: Profile) -> list[str]:
    from gdbrr.config import tables

    _, actions = profile.actions()
    made = {call.cls for call in tables.syscalls()}  # an instruction asks nobody for anything
    native = (number for number in range(len(tables.classes())) if actions[number] == lib.GR_ACT_NATIVE)
    found = [name for number in native if (name := tables.classes()[number].name) in made]
    return found + [key.partition(".")[2] for key, value in profile.values.items() if is_native_rule(key, value.value)]


def is_native_rule(key: str, mode: object) -> bool:
    return key.startswith(("paths.", "descriptors.")) and mode != "record"


def _signals(manifest: dict[str, Any]) -> tuple[int, int]:
    found = manifest.get("signals", {})
    ignored, blocked = (found.get(key, 0) for key in ("ignored", "blocked")) if isinstance(found, dict) else (0, 0)
    if not all(isinstance(bits, int) and 0 <= bits < 1 << 64 for bits in (ignored, blocked)):
        raise GdbrrError("the manifest's 'signals' is not valid", "record the program again")
    return ignored, blocked


def check_program(manifest: dict[str, Any]) -> None:
    if "carried" not in manifest and not os.path.exists(manifest["program"]):
        known = {str(row.get("path")): str(row.get("build_id", "")) for row in manifest.get("objects", [])}
        wanted = known.get(manifest["program"])
        hint = f"put it back: that of build-id {wanted}" if wanted else "put it back"
        raise GdbrrError(f"{manifest['program']}, which the demo was recorded from, is not here", hint, 1)


def start(
    demo: Demo,
    *,
    flags: int,
    stop_tick: int = FOREVER,
    stdio: tuple[int, int, int] | None = None,
    trust: bool = False,
    final_thread: int = 0xFFFFFFFF,
    no_terminal: bool = False,
    loader_log: Path | None = None,
    grows: tuple[int, int] | None = None,
) -> Replay:
    """Start the demo's program; it stands in front of STOP_TICK when slot 0 answers.

    Without STDIO nothing is read or shown.

    GROWS is the image of a recording that goes on, as a descriptor and its size, where DEMO is of its beginning.
    """
    manifest = demo.manifest
    engine = engines.find()
    if manifest["abi"] != abi.ABI_VERSION:
        raise GdbrrError(
            f"the demo needs engine version {manifest['abi']}, this is {abi.ABI_VERSION}", "record it again"
        )
    profile = Profile.from_json(manifest.get("profile"))
    if not trust:
        check_trust(demo, profile)
    else:
        check_landlock(demo)
    check_program(manifest)
    env = engines.environment(manifest)
    with scratch.file() as image_fd, abi.made_ctl() as (page, page_fd), Shown(wanted=False) as nothing:
        data_fd, size = grows or (image_fd, image.write_image(demo, spawn.file_of(image_fd)).bytes)
        page.c.mode = lib.GR_MODE_REPLAY
        page.c.data_size = size
        page.c.end_kind = _END_KINDS[demo.end.kind]
        page.c.end_value = demo.end.value & 0xFFFFFFFF
        page.c.tasks_most = crowd.most(len(demo.threads), lib.GR_SLOTS)
        settings.fill(page, profile)
        if demo.files:
            from gdbrr.launch import files

            files.place(demo, page)
        control = Control(page)
        slot = control.slot(0)
        slot.clear(flags, final_thread)
        slot.stop_at(stop_tick)
        signals = _signals(manifest)
        exe = executed(manifest)
        placed = _place(demo, exe, engine) if "carried" in manifest else None
        program = spawn.Start(
            exe=placed.exe if placed else exe,
            argv=placed.argv if placed else manifest["argv"],
            env=[*env, f"LD_PRELOAD={(placed.engine if placed else engine).preload(engines.preloaded(manifest))}"],
            cwd=placed.cwd if placed else manifest["cwd"],
            random=bytes.fromhex(manifest["random"]),
            stack_limit=manifest.get("limits", {}).get("stack", [spawn.stack_limit()])[0],
            die_with_parent=True,
            no_core=True,
            no_terminal=no_terminal,
            stdio=stdio or nothing.stdio,
            ignored=signals[0],
            blocked=signals[1],
            carried=placed.table if placed else None,
            loader_log=loader_log,
            cache_pages=None if placed or loader_log else _cache_pages(manifest),
        )
        try:
            ctl, data = spawn.file_of(page_fd), spawn.file_of(data_fd)
            pid = spawn.launch(engine, program, page, ctl, data, _meanwhile)
        except BaseException:
            control.close()
            raise
        control.crowd.is_led_by(pid)
    return Replay(demo, control, slot, pid, profile)


def _meanwhile() -> None:
    from gdbrr.launch import inputs, watchdog  # noqa: F401


def _place(demo: Demo, exe: str, engine: engines.Engine) -> Placed:
    from gdbrr.launch.carried import place  # few demos bring files along

    return place.place(demo, exe, engine)


def _cache_pages(manifest: Mapping[str, Any]) -> int | None:
    """Of the loader's cache in the recording: where it has others when it is mapped, libraries would lie elsewhere."""
    recorded = manifest.get("host", {}).get("cache_pages")
    return recorded if isinstance(recorded, int) and 0 <= recorded < _MOST_CACHE_PAGES else None


def end_process(pid: int) -> None:
    """End a child, whatever it is doing, and reap it; with the first process of a timeline goes its whole group.

    One that is still traced cannot be reaped before its tracer lets go, which is not waited for without limit.
    """
    if not is_child(pid):
        return
    group = False
    with suppress(ProcessLookupError):
        group = os.getpgid(pid) == pid  # the fence keeps every copy in it, also those that nobody asked for
        (os.killpg if group else os.kill)(pid, signal.SIGKILL)
    deadline = time.monotonic() + _REAP_LIMIT
    with suppress(ChildProcessError):
        while time.monotonic() < deadline:
            reaped = os.waitpid(-pid if group else pid, os.WNOHANG)[0]
            if reaped and not group:
                return
            if not reaped:
                time.sleep(_REAP_PAUSE)


def run(
    demo: Demo,
    echo: bool = True,
    trust: bool = False,
    poll: Callable[[int], None] | None = None,
    inspect: Callable[[Replay, Outcome], None] | None = None,
) -> Outcome:
    """Replay the whole demo without a debugger. INSPECT may look at a process that could not go on before it dies."""
    flags = lib.GR_SLOT_HOLD_PANIC | (lib.GR_SLOT_ECHO if echo else 0)
    began = time.monotonic()
    with Shown(echo, tame=echo and not own.made(demo)) as shown:
        replay = start(demo, flags=flags, stdio=shown.stdio, trust=trust, no_terminal=True)
        try:
            shown.follow(replay.pid)
            outcome = _await_end(replay, shown, poll)
            outcome = outcome._replace(seconds=time.monotonic() - began)
            if inspect and replay.pid:
                inspect(replay, outcome)
            return outcome
        finally:
            replay.close()


def _await_end(replay: Replay, shown: Shown, poll: Callable[[int], None] | None) -> Outcome:
    """How it ended, or why it is not waited for any longer."""
    from gdbrr.launch.watchdog import Watchdog

    demo, slot = replay.demo, replay.slot
    watchdog, patience = Watchdog(demo, replay.pid), Patience()
    ended_at: float | None = None
    due = 0.0
    while True:
        state, now = slot.state, time.monotonic()
        ended, status = os.waitpid(replay.pid, os.WNOHANG)
        shown.show()  # all of it, if it has ended
        panic, tick, soft = slot.panic, slot.tick, slot.soft
        if state == lib.GR_S_PANIC and panic:
            return Outcome(EXIT_DESYNC, tick, panic, soft=soft)
        if shown.error or slot.echo_error:
            return Outcome(EXIT_ERROR, tick, None, soft=soft, echo_error=shown.error or slot.echo_error)
        if ended:
            replay.pid = 0  # reaped: the number may be somebody else's by now
            code = os.waitstatus_to_exitcode(status)
            problem = _problem(replay, demo, code)
            status = EXIT_DESYNC if problem or soft else _shell_status(code)
            started = replay.control.started
            return Outcome(status, tick, None, problem, started, soft, program_status=_shell_status(code))
        overdue = watchdog.look(tick, now)
        if overdue:
            problem = (
                f"thread {overdue.thread} has run {overdue.spent:.1f} s behind tick {overdue.tick} without coming"
                f" to its next operation; while recording that took {overdue.recorded:.2f} s"
            )
            return Outcome(EXIT_DESYNC, tick, None, problem, soft=soft, overdue=overdue)
        if now >= due:  # a program that prints much comes by here more often
            due = now + _LOOK
            patience.look(replay.pid, replay.control.started)
            replay.control.crowd.look()
        if state == lib.GR_S_ENDED:
            ended_at = ended_at or now
            if now - ended_at > _END_LIMIT:
                raise ProcessEnded(f"process {replay.pid} of the replay has ended and stays", "do not trust this demo")
        if poll:
            poll(tick)
        shown.wait(_LOOK)


@contextmanager
def standing_at(demo: Demo, tick: int, trust: bool, limit: float) -> Iterator[Replay | None]:
    """A replay that stands in front of TICK, or None when it did not get there within LIMIT seconds."""
    flags = lib.GR_SLOT_HOLD_PANIC | lib.GR_SLOT_HOLD_END
    replay = start(demo, flags=flags, stop_tick=tick, trust=trust, no_terminal=True)
    try:
        try:
            state = replay.slot.wait((lib.GR_S_STANDING, lib.GR_S_ENDED), timeout=limit)
        except ProcessEnded:
            state = lib.GR_S_EMPTY
        yield replay if state in (lib.GR_S_STANDING, lib.GR_S_ENDED) else None
    finally:
        replay.close()


def _shell_status(code: int) -> int:
    return code if code >= 0 else 128 - code


def _problem(replay: Replay, demo: Demo, code: int) -> str:
    if not replay.control.started:
        ignored = engines.ignored(demo.manifest)
        why = f"; {', '.join(ignored)}, set while recording, is not honoured from a demo" if ignored else ""
        return f"the program {_how(code)} before the engine started{why}"
    if replay.slot.tick < demo.ticks or replay.slot.state != lib.GR_S_ENDED:
        return f"the program {_how(code)} at tick {replay.slot.tick} of {demo.ticks}, where the recording went on"
    expected = {"exit": demo.end.value, "signal": -demo.end.value}.get(demo.end.kind, code)
    return "" if code == expected else f"the program {_how(code)}, but the recording {_how(expected)}"


def _how(code: int) -> str:
    if code >= 0:
        return f"exited with {code}"
    return f"was killed by {name_of(-code) or f'signal {-code}'}"
