"""GDB itself, as much as gdbrr needs of it, and every difference between its versions.

Runs in: GDB's Python (importing it elsewhere fails). May call: gdb and the standard library.
Owns: nothing; GDB owns what it shows.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gdbrr.errors import GdbrrError, harmless
from gdbrr.ingdb.registry import Command, run

if TYPE_CHECKING:
    from gdbrr.ingdb.session import Session

gdb: Any = importlib.import_module("gdb")

OLDEST = (12, 0)
_KINDS = {"running": gdb.COMMAND_RUNNING, "status": gdb.COMMAND_STATUS, "files": gdb.COMMAND_FILES}
_FRAMES, _ROWS = 8, 64
_COMPLETERS = {"expression": "print", "location": "break"}

ERRORS: tuple[type[Exception], ...] = (gdb.error,)


def version() -> tuple[int, int]:
    found = re.search(r"(\d+)\.(\d+)", gdb.VERSION)
    return (int(found[1]), int(found[2])) if found else (0, 0)


# ---------------------------------------------------------------- commands


def install(command: Command, session: Session) -> None:
    """Make COMMAND known to GDB, working on SESSION."""

    class Bound(gdb.Command):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(command.name, _KINDS[command.kind])

        def invoke(self, text: str, from_tty: bool) -> None:
            if not command.repeats:
                self.dont_repeat()
            session.began = time.monotonic()
            try:
                try:
                    run(command, session, text or "")
                except KeyboardInterrupt:
                    raise GdbrrError("interrupted") from None
            except (GdbrrError, gdb.error) as error:
                with contextlib.suppress(GdbrrError, gdb.error):
                    session.be_seen()
                if session.settings.verbose:
                    write_error(traceback.format_exc())
                session.say_complaints()
                raise failure(command.name, error) from None

        def complete(self, text: str, word: str | None) -> Sequence[str]:
            return [] if word is None else complete(command, text, word, session)

    Bound.__doc__ = command.help()
    Bound()


def complete(command: Command, text: str, word: str, session: Session) -> list[str]:
    """What WORD, the end of TEXT, could become."""
    kind, tail = command.completion(text)
    if kind == "file":
        tail = tail.rpartition(" ")[2]
    head = text[: len(text) - len(tail)]
    if kind == "option":
        found = [each.flag for each in command.options]
    elif kind in _COMPLETERS:
        found = ask_completer(_COMPLETERS[kind], tail)
    elif kind == "file":
        found = files(tail)
    elif kind == "moment":
        found = ["start", "end", *session.known_marks()]
    elif kind == "mark":
        found = session.known_marks()
    else:
        found = kind.split()
    keep = len(text) - len(word)
    return [(head + each)[keep:] for each in found if each.startswith(tail)]


def ask_completer(verb: str, text: str) -> list[str]:
    """What GDB itself would make of TEXT behind its command VERB."""
    lines = gdb.execute(f"complete {verb} {text}", to_string=True).splitlines()
    return [line[len(verb) + 1 :] for line in lines if line.startswith(verb + " ") and "***" not in line]


def files(text: str) -> list[str]:
    folder, _, start = text.rpartition("/")
    shown = folder + "/" if "/" in text else ""
    try:
        with os.scandir(os.path.expanduser(shown or ".")) as entries:
            return sorted(shown + each.name + "/" * each.is_dir() for each in entries if each.name.startswith(start))
    except OSError:
        return []


def failure(name: str, error: object) -> Exception:
    """What GDB prints as one line without a traceback."""
    raised: Exception = gdb.GdbError(f"{name}: {error}")
    return raised


def write(text: str) -> None:
    gdb.write(harmless(text) + "\n")


def write_error(text: str) -> None:
    """Whole lines for GDB's standard error."""
    if text:
        gdb.write(harmless(text), gdb.STDERR)


# ---------------------------------------------------------------- the connection


def connect(path: str) -> Any:
    """Connect the current inferior to the server's socket; what GDB says about it is not shown."""
    verb = f"target extended-remote {path}"
    # to_string does not catch the announcement of the stop.
    quietly(f"with suppress-cli-notifications on -- {verb}")
    return gdb.selected_inferior().connection


def quietly(command: str) -> str:
    """What GDB says to COMMAND, which is not shown; nothing where that is no text, as behind `set debug remote on`."""
    try:
        return str(gdb.execute(command, to_string=True))
    except UnicodeDecodeError:
        return ""


def attach(pid: int) -> None:
    """Take the server's process as the current inferior's; where it stands is shown."""
    gdb.execute(f"attach {pid}")


def disconnect() -> None:
    gdb.execute("disconnect", to_string=True)


def send_packet(connection: Any, packet: str) -> str:
    """The answer to a packet, over GDB's own connection."""
    if hasattr(connection, "send_packet"):
        answer = connection.send_packet(packet)
        return "" if answer is None else answer.decode("ascii", "replace")
    # Without gdb.RemoteTargetConnection the maintenance command is the only door.
    said = gdb.execute(f"maint packet {packet}", to_string=True)
    found = re.search(r'^received: "(.*)"$', said, re.MULTILINE)
    return found[1] if found else ""


def on_disconnect(call: Callable[[Any], None]) -> None:
    gdb.events.connection_removed.connect(lambda event: call(event.connection))


def on_stop(call: Callable[[], None]) -> None:
    gdb.events.stop.connect(lambda event: call())


def on_exit(call: Callable[[], None]) -> None:
    gdb.events.gdb_exiting.connect(lambda event: call())


def before_prompts(call: Callable[[], None]) -> None:
    """Call whenever GDB is about to read a command, in the middle of nothing.

    Not gdb.post_event: what it still holds when GDB quits crashes GDB 13."""
    gdb.events.before_prompt.connect(call)


def behind_exits(call: Callable[[], None]) -> None:
    """Call when a program has ended, for front ends, which are shown no prompts; but not when GDB ends it to quit."""

    def ended(event: Any) -> None:
        gdb.post_event(call)

    gdb.events.exited.connect(ended)
    gdb.events.gdb_exiting.connect(lambda event: gdb.events.exited.disconnect(ended))


def on_call(call: Callable[[], None]) -> None:
    """Call in front of each function of the program's that GDB is about to call."""
    before = gdb.InferiorCallPreEvent
    gdb.events.inferior_call.connect(lambda event: call() if isinstance(event, before) else None)


def draws() -> bool:
    """Whether GDB draws on the whole terminal."""
    try:
        return "not active" not in str(gdb.execute("info win", to_string=True))
    except gdb.error:  # a GDB without that
        return False


def confirms() -> bool:
    """Whether GDB asks before it does what cannot be undone."""
    return bool(gdb.parameter("confirm"))


def setting(name: str) -> str:
    value = gdb.parameter(name)
    return "unlimited" if value is None else str(value)


def change_setting(name: str, value: str) -> None:
    gdb.execute(f"set {name} {value}", to_string=True)


# ---------------------------------------------------------------- the process


def pid() -> int:
    """The process of the current inferior as GDB numbers it, 0 for none."""
    return int(gdb.selected_inferior().pid)


def has_process() -> bool:
    return pid() != 0


def kill() -> None:
    """End what is being debugged, if the user agrees: GDB asks."""
    gdb.execute("kill")


def forget_registers() -> None:
    """Make GDB ask for registers again, and so for frames."""
    gdb.execute("maintenance flush register-cache", to_string=True)


# ---------------------------------------------------------------- where it stands


@dataclass(frozen=True)
class Place:
    """Where GDB stands: its own number of the thread, the thread's name, and the code."""

    thread: int
    name: str
    code: str


def place(tid: int = 0) -> Place:
    """That of the thread with this id in the recording, where it is there, or of the selected one."""
    with selection():
        for thread in gdb.selected_inferior().threads():
            if thread.ptid[1] == tid:
                thread.switch()
        selected = gdb.selected_thread()
        return Place(selected.num, selected.name or "", _code()) if selected else Place(0, "", "")


def _code() -> str:
    try:
        frame = gdb.newest_frame()
        if (sal := frame.find_sal()).symtab is not None:
            return f"{os.path.basename(sal.symtab.filename)}:{sal.line}"
        library = gdb.solib_name(frame.pc())
        name = frame.name() or f"{frame.pc():#x}"
        return f"{name} in {os.path.basename(library)}" if library else name
    except gdb.error:
        return ""


@contextlib.contextmanager
def selection() -> Iterator[None]:
    """The user's thread and frame come back."""
    thread = gdb.selected_thread()
    frame = gdb.selected_frame() if thread is not None else None
    try:
        yield
    finally:
        if thread is not None and thread.is_valid():
            if gdb.selected_thread() != thread:
                thread.switch()
            if frame is not None and frame.is_valid():
                frame.select()


def selected() -> int:
    """The id in the recording of the selected thread, 0 if none is."""
    return int(thread.ptid[1]) if (thread := gdb.selected_thread()) else 0


def _of_line(sal: Any, function: range) -> tuple[int, int]:
    """A line may have several rows in the table; GDB steps over all of them."""
    start, end = int(sal.pc), int(sal.last) + 1
    for _ in range(_ROWS):
        behind = gdb.find_pc_line(end)
        if end not in function or behind.last is None or (behind.line, behind.symtab) != (sal.line, sal.symtab):
            break
        end = int(behind.last) + 1
    for _ in range(_ROWS):
        before = gdb.find_pc_line(start - 1)
        if start - 1 not in function or before.last is None or (before.line, before.symtab) != (sal.line, sal.symtab):
            break
        start = int(before.pc)
    return start, end


def lines() -> list[tuple[int, int, int, int]]:
    """Of the innermost frames with line numbers: start and end of the line, and of its function."""
    found = []
    frame = gdb.newest_frame()
    for _ in range(_FRAMES):
        if frame is None:
            break
        with contextlib.suppress(gdb.error, RuntimeError):
            pc = max(0, frame.pc() - (frame.level() > 0))  # of a caller it is behind its call
            sal, function = gdb.find_pc_line(pc), gdb.block_for_pc(pc)
            while function is not None and function.function is None:
                function = function.superblock
            if sal.last is not None and function is not None and function.start <= sal.pc < function.end:
                whole = range(int(function.start), int(function.end))
                found.append((*_of_line(sal, whole), whole.start, whole.stop))
        frame = frame.older()
    return found


def level() -> int:
    """Of the selected frame; -1 where there is none."""
    return int(gdb.selected_frame().level()) if gdb.selected_thread() is not None else -1


def pc() -> int:
    return int(gdb.newest_frame().pc())


def memory(addr: int, length: int) -> bytes:
    """Empty where it cannot be read."""
    try:
        return bytes(gdb.selected_inferior().read_memory(addr, length))
    except gdb.error:
        return b""


def show_frame() -> None:
    if gdb.selected_thread() is not None:
        gdb.execute("frame")


def code_of(pc: int) -> str:
    """`withdraw at bug.c:29`, or what is known of it."""
    try:
        sal, block = gdb.find_pc_line(pc), gdb.block_for_pc(pc)
    except (gdb.error, RuntimeError):
        return f"{pc:#x}"
    while block is not None and block.function is None:
        block = block.superblock
    name = str(block.function) if block is not None else ""
    if not name:
        found = re.match(r"(\S+)(?: \+ \d+)? in section", gdb.execute(f"info symbol {pc:#x}", to_string=True))
        name = found[1] if found else f"{pc:#x}"
    if sal.symtab is None or not sal.line:
        return name
    return f"{name} at {os.path.basename(sal.symtab.filename)}:{sal.line}"


def points() -> dict[int, Any]:
    """The user's breakpoints and their like, by number. One that is no longer among these must not be touched: those of
    a thread GDB (13.1) deletes behind it, and leaves Python pointers to nothing, which call themselves valid."""
    users = [each for each in gdb.breakpoints() if each.number > 0]
    if any(each.thread for each in users):
        there = {None, *(thread.global_num for thread in gdb.selected_inferior().threads())}
        users = [each for each in users if each.thread in there]
    return {each.number: each for each in users}


def why_untested(condition: str) -> str:
    """Why CONDITION has no value here, if it has none."""
    try:
        bool(gdb.parse_and_eval(condition))
    except gdb.error as error:
        return str(error)
    return ""


def thread_id(number: str) -> int:
    """The id in the recording of the thread that GDB calls NUMBER."""
    inferior = gdb.selected_inferior()
    for thread in inferior.threads():
        if number in (str(thread.num), f"{inferior.num}.{thread.num}"):
            return int(thread.ptid[1])
    raise GdbrrError(f"there is no thread {number} here", hint="see: info threads")


@contextlib.contextmanager
def planted(location: str, condition: str) -> Iterator[Any]:
    """A breakpoint of which nobody sees anything. By it GDB tells what CONDITION is, as code, where it resumes, and
    counts where it is met. None without one."""
    if not condition:
        yield None
        return
    point = gdb.Breakpoint(location, internal=True)
    try:
        point.silent = True
        point.condition = condition
        yield point
    finally:
        point.delete()


def code_addresses(location: str, condition: str = "") -> list[int]:
    """Where `break LOCATION if CONDITION` would stop."""
    # Their errors are one line; a breakpoint would ask or print.
    if location.startswith("-"):
        gdb.execute(f"info line {location}", to_string=True)
    else:
        gdb.decode_line(location)
    probe = gdb.Breakpoint(location, internal=True)
    try:
        if condition:
            probe.condition = condition
        if hasattr(probe, "locations"):  # GDB 13
            found = [int(each.address) for each in probe.locations]
        else:
            # decode_line gives a function's entry, `break` the first line behind its prologue: ask for the latter.
            text = gdb.execute(f"maint info breakpoints {probe.number}", to_string=True)
            found = [int(each, 16) for each in re.findall(r"^ *-?\d+\.\d+\s.*?(0x[0-9a-f]+)", text, re.MULTILINE)]
    finally:
        probe.delete()
    if not found:
        raise GdbrrError(f"there is no code at {location}", hint="try a function or FILE:LINE")
    return sorted(set(found))
