"""The terminal of a program that is being recorded: what it prints goes to GDB's, and what is typed there comes to it.

Runs in: the server. May call: /proc of the program.
Owns: when a line that was typed is the program's: while it runs, and a thread of it waits for something from outside.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
from collections.abc import Callable

from gdbrr.config import tables
from gdbrr.rsp.live import Live

_AT_ONCE = 4096
_AGAIN = 0.1
_END = b"\x04"
"""What a person types at the end of an input."""
_WAITS = (
    "read readv poll ppoll select pselect6 epoll_wait epoll_pwait epoll_pwait2 pause wait4 waitid rt_sigsuspend"
).split()


class Terminal:
    def __init__(self, live: Live, show: Callable[[bytes], None]) -> None:
        self._live = live
        self._show = show
        self._given: set[tuple[str, str]] = set()
        """Who waited when the last line was handed over."""
        self._waits = {call.nr for call in tables.syscalls() if call.name in _WAITS}

    def watched(self, stops: int) -> dict[int, Callable[[], bool]]:
        """What to look at while the program runs; STOPS is readable when it stops."""
        found: dict[int, Callable[[], bool]] = {self._live.output_fd: self._print} if self._live.output_fd >= 0 else {}
        if found and self._live.keyboard_fd >= 0:
            found[self._live.keyboard_fd] = lambda: self._type(stops)
        return found

    def drain(self) -> None:
        """What it printed before it stopped."""
        output = self._live.output_fd
        while output >= 0 and select.select([output], [], [], 0)[0] and self._print():
            continue

    def _print(self) -> bool:
        try:
            data = os.read(self._live.output_fd, _AT_ONCE)
        except OSError:  # a terminal whose other side is closed
            return False
        if data:
            self._show(data)
        return bool(data)

    def _type(self, stops: int) -> bool:
        """INVARIANT(typed-ahead-is-gdbs): a line for which the program does not wait may be GDB's next command, and
        stays where it is. Whether it is asked for later can only be found by asking again."""
        try:
            waiting = self._waiting()
            if not waiting - self._given or self._live.unread:
                select.select([stops, self._live.output_fd], [], [], _AGAIN)
                return True
            data = os.read(self._live.keyboard_fd, _AT_ONCE)
            if not data and not os.isatty(self._live.keyboard_fd):
                return False
            os.write(self._live.output_fd, data or _END)
        except BlockingIOError:
            return True
        except OSError:  # the program is gone, or one of the two terminals
            return False
        self._given = waiting
        return True

    def _waiting(self) -> set[tuple[str, str]]:
        """The threads that wait, each with how often it has: a line is on its way until its reader was awake."""
        threads, found = f"/proc/{self._live.pid}/task", set()
        for thread in os.listdir(threads):
            with contextlib.suppress(OSError), open(f"{threads}/{thread}/syscall", encoding="ascii") as call:
                number = call.read().split()[0]
                with open(f"{threads}/{thread}/status", encoding="utf-8", errors="replace") as status:
                    times = re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status.read(), re.MULTILINE)
                if number.isdigit() and int(number) in self._waits and times:
                    found.add((thread, times[1]))
        return found
