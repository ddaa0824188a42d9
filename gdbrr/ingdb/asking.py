"""Who would change the process that is being recorded is asked first: its recording ends there.

Runs in: GDB's Python. May call: gdb through gdbrr.ingdb.compat, the session.
Owns: what was answered, and what was refused, since the last prompt.
"""

from __future__ import annotations

import contextlib
import os
import re
import termios
from typing import TYPE_CHECKING

from gdbrr.errors import GdbrrError
from gdbrr.ingdb import compat

if TYPE_CHECKING:
    from gdbrr.ingdb.session import Session

REFUSED = "would make the recording false"
"""What the server says then."""
_CALL = "Calling a function in the process that is being recorded ends its recording here. Go on? (y or n) "
_WRITE = "Writing to the process that is being recorded ends its recording here. End it? (y or n) "


class Asking:
    """GDB tells of a called function in front of it, and of a write only when it has failed. So that one is asked about
    at the next prompt, and is to be repeated."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._refused = False
        self._answered = False
        compat.on_call(self._before_call)

    def heard(self, said: str) -> None:
        """SAID by the server."""
        self._refused |= REFUSED in said

    def at_prompt(self) -> None:
        refused, answered = self._refused, self._answered
        self._refused = self._answered = False
        if refused and not answered and self._may_end() and ask(_WRITE):
            self._session.end_recording()
            compat.write("Now it can be done: repeat the command.")

    def _before_call(self) -> None:
        if not self._may_end():
            return
        answer = ask(_CALL)
        self._answered = answer is not None
        if answer:
            self._session.end_recording()

    def _may_end(self) -> bool:
        try:
            status = self._session.status()
        except GdbrrError:
            return False
        return bool(status["live"]) and not status.get("unrecorded")


def ask(question: str) -> bool | None:
    """What the user says; None where nobody can be asked: in a script, behind a front end, with `set confirm off`."""
    if not compat.confirms() or not at_terminal():
        return None
    try:
        while (answer := input(question).strip().lower()[:1]) not in ("y", "n"):
            pass
    except (EOFError, KeyboardInterrupt):
        return False
    return answer == "y"


def speaks(languages: str) -> bool:
    """Whether GDB was started to speak one of them to a front end."""
    with open("/proc/self/cmdline", encoding="utf-8", errors="replace") as file:
        return bool(re.search(rf"\0--?i(?:nterpreter)?[=\0](?:{languages})", file.read()))


def telling() -> dict[str, str]:
    """Where the server may tell how far it is while GDB waits for it, and how (gdbrr.rsp.link.Manner); nothing where
    nobody looks."""
    if at_terminal() or _was_typed():
        return {"terminal": os.ttyname(1), "manner": "drawn" if compat.draws() else "line"}
    return {"terminal": f"/proc/{os.getpid()}/fd/1", "manner": "mi"} if speaks("mi") else {}


def _was_typed() -> bool:
    """Whether the command that runs was typed at GDB's own prompt, though a front end has a channel beside it: while
    one of that one's runs, the prompt waits for keys, and not for lines."""
    if speaks("mi|dap") or not (os.isatty(0) and os.isatty(1)):
        return False
    return bool(termios.tcgetattr(0)[3] & termios.ICANON)


def at_terminal() -> bool:
    """Whether who types is a person at GDB's own prompt, and no front end has a channel beside it."""
    return os.isatty(0) and os.isatty(1) and not has_front_end()


def is_input_shared() -> bool:
    """Whether a program may read where GDB does, as under `run`: with nobody at a terminal, and nobody who speaks to
    GDB there in another language."""
    try:
        os.fstat(0)
    except OSError:
        return False
    return not at_terminal() and not has_front_end()


def has_front_end() -> bool:
    """Whether somebody hears of GDB's stops in another way than by its prompt."""
    if speaks("mi|dap"):
        return True
    mine, names = {os.ttyname(fd) for fd in range(3) if os.isatty(fd)}, set()
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            names.add(os.readlink(f"/proc/self/fd/{fd}"))
    return bool({name for name in names if name.startswith(("/dev/pts/", "/dev/tty"))} - {*mine, "/dev/tty"})
