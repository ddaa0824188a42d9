"""The program that GDB debugs: its file, how another one is loaded, and the environment that it gets.

Runs in: GDB's Python (importing it elsewhere fails). May call: gdb, through compat.
Owns: nothing; GDB owns what it debugs.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gdbrr.errors import GdbrrError
from gdbrr.ingdb import compat
from gdbrr.ingdb.compat import gdb
from gdbrr.ingdb.watched.locals import WATCHPOINTS

if TYPE_CHECKING:
    from gdbrr.ingdb.link import Link

_QUOTED = re.compile(r'[^"]*"(.*)"\.\n', re.DOTALL)
_GONE = re.compile(r"Watchpoint \d+ deleted because ")


def file() -> str:
    """The file that GDB runs, or an empty string.

    It is the name that GDB was given: a program that is linked under several names does what its name says. Where the
    symbols are from, which is what GDB's Python tells before version 16, is where the links lead.
    """
    inferior = gdb.selected_inferior()
    symbols: str = inferior.progspace.filename or ""
    head, _, row = gdb.execute(f"info inferiors {inferior.num}", to_string=True).partition("\n")
    shown: str = row[head.find("Executable") :].strip()
    return shown if shown and os.path.realpath(shown) == os.path.realpath(symbols) else symbols


def runs() -> bool:
    """Whether it has gone on by itself: where a breakpoint's commands end with `continue`, what GDB was told at its
    prompt comes back while it does."""
    thread = gdb.selected_thread()
    return thread is not None and bool(thread.is_running())


def load(path: str) -> None:
    """INVARIANT(names-are-no-commands): a demo names it, and GDB would take a second line for one."""
    if "\n" in path:
        raise GdbrrError(f"the program's path {path!r} has a line break in it", hint="load it by hand: file PROGRAM")
    quoted = path.replace("\\", "\\\\").replace('"', '\\"')
    gdb.execute(f'file "{quoted}"', to_string=True)


def arguments() -> str:
    """Those of `set args`, and of `gdb --args`, `run` and `start` as well."""
    return _shown("args")


def surroundings() -> tuple[dict[str, str], str]:
    """The environment and the folder that GDB would give the program. What else `run` would give it is refused, or said
    to be left out."""
    if wrapper := _shown("exec-wrapper"):
        hint = "try: unset exec-wrapper, and `set environment` for what it sets"
        raise GdbrrError(f"the exec-wrapper {wrapper!r} would be recorded in place of the program", hint)
    if terminal := _shown("inferior-tty"):
        compat.write(f"Note: the program's terminal is this one, and not {terminal} (set inferior-tty).")
    return environment(), _shown("cwd") or os.getcwd()


def _shown(name: str) -> str:
    """The setting NAME of the selected inferior. Before GDB 14 Python has what the last `set` gave to any inferior."""
    found = _QUOTED.fullmatch(_said(f"show {name}"))
    return found.group(1) if found else ""


def environment() -> dict[str, str]:
    """The environment GDB would give the program."""
    listing = _said("show environment")
    found: dict[str, str] = {}
    # Values may hold newlines, so the listing is only good for candidates of names.
    for name in re.findall(r"^([^=\n]+)=", listing, re.MULTILINE):
        one = _said(f"show environment {name}")
        if one.startswith(name + " = "):
            found[name] = one[len(name) + 3 :].removesuffix("\n")
    return found


def _said(command: str) -> str:
    """What GDB says to COMMAND, of which some may be no text: then Python gets nothing of it, but a pipe does."""
    try:
        return str(gdb.execute(command, to_string=True))
    except UnicodeDecodeError:
        with tempfile.NamedTemporaryFile() as file:
            gdb.execute(f"pipe -d % {command} % cat >{file.name}", to_string=True)
            return os.fsdecode(file.read())


def follow_libraries(link: Callable[[], Link | None]) -> None:
    """Have GDB know at each stop what is loaded, while there is a LINK."""
    compat.on_stop(lambda: _see_libraries(link()))
    if hasattr(gdb.events, "free_objfile"):  # GDB 13
        gdb.events.free_objfile.connect(lambda event: _unwatch(event.objfile) if link() is not None else None)


def _unwatch(library: Any) -> None:
    """Delete watchpoints that name what is in LIBRARY, which goes: GDB would look for it in memory that it has freed,
    of which version 16 dies. Those for a location name nothing any more."""
    if not gdb.selected_inferior().pid or library.filename == gdb.current_progspace().filename:
        return
    for number, point in compat.points().items():
        if point.type not in WATCHPOINTS or point.expression.startswith("-location "):
            continue
        names = re.findall(r"[A-Za-z_]\w*", point.expression)
        if any(library.lookup_global_symbol(name) or library.lookup_static_symbol(name) for name in names):
            compat.write(
                f"Watchpoint {number} deleted because {os.path.basename(library.filename)} is not loaded here."
                f" Try: watch -l {point.expression}"
            )
            point.delete()


def _see_libraries(link: Link | None) -> None:
    """Have GDB look at what is loaded. It looks where the loader says so: on a move there is no such place, and
    backwards what it looks at there is what was loaded."""
    if link is None:
        return
    with contextlib.suppress(GdbrrError):  # a process that has just ended
        if link.request("libraries")["changed"]:
            known = gdb.newest_frame().name()
            look = "sharedlibrary" if gdb.parameter("auto-solib-add") else "info sharedlibrary"
            said = gdb.execute(look, to_string=True)
            for line in said.splitlines():
                if _GONE.match(line):
                    compat.write(line)
            if not known and gdb.newest_frame().name():
                compat.show_frame()  # the stop was told without names
