"""Running a program without recording it, where it cannot be recorded and must run all the same.

Runs in: `gdbrr record --save-on`. May call: errors, gdbrr.launch.spawn; execve.
Owns: nothing.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING

from gdbrr.errors import GdbrrError
from gdbrr.launch import spawn
from gdbrr.launch.signals import terminal_signals

if TYPE_CHECKING:
    from gdbrr.launch.record import Request


def run(request: Request) -> int:
    """The program's exit status, or -N for signal N. It has the terminal, and its signals, as if it were alone."""
    exe, _ = request.program()
    pid = 0

    def hand_on(number: int) -> None:
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        else:
            early.append(number)

    early: list[int] = []
    with terminal_signals(hand_on):
        try:
            # Python ignores these two by itself, and what is ignored is inherited.
            pid = os.posix_spawn(exe, list(request.argv), request.env, setsigdef=[signal.SIGPIPE, signal.SIGXFSZ])
        except OSError as error:
            status = spawn.NOT_FOUND if isinstance(error, FileNotFoundError) else spawn.NOT_EXECUTABLE
            raise GdbrrError(f"{exe} cannot be run: {error.strerror}", "see execve(2)", status) from None
        for number in early:
            hand_on(number)
        while True:
            status = os.waitpid(pid, os.WUNTRACED)[1]
            if not os.WIFSTOPPED(status):
                return os.waitstatus_to_exitcode(status)
            os.kill(os.getpid(), signal.SIGSTOP)
            os.kill(pid, signal.SIGCONT)
