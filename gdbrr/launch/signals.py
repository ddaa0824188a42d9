"""The signals of a terminal and of our group of processes, while a program of ours has it.

Runs in: `gdbrr record`. May call: nothing of gdbrr.
Owns: the handlers of this process, until the program is gone.
"""

from __future__ import annotations

import os

from gdbrr.quick.rows import TYPE_CHECKING, Any
from gdbrr.quick.scopes import contextmanager
from gdbrr.quick.signals import signal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGSYS}
_STOPPING = {signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGCONT}
_KEPT = {signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGURG, signal.SIGWINCH}
_OUTLIVED = sorted(signal.valid_signals() - _FAULTS - _STOPPING - _KEPT)
"""What ends a process that does nothing about it. The program may signal all of its group, which is ours.

One that stops the group stops us with it, and a fault of our own is none of the program's.
"""


@contextmanager
def terminal_signals(forward: Callable[[int], None], last: Callable[[int], object] = int) -> Iterator[int]:
    """Leave the signals of terminal and group to the program and outlive them; yields what any makes readable.

    INVARIANT(no-signal-is-lost): LAST is called with that once more, when no further one is outlived.
    """

    def outlive(number: int, frame: object) -> None:
        pass

    def hand_on(number: int, frame: object) -> None:
        forward(number)

    # Handlers, not SIG_IGN, which the program would inherit; and what is ignored already stays so for both.
    wanted: list[tuple[int, Callable[[int, object], None]]] = [
        *((number, outlive) for number in _OUTLIVED),
        (signal.SIGTERM, hand_on),
        (signal.SIGHUP, hand_on),
        (signal.SIGCHLD, outlive),
    ]
    ours, theirs = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    before: dict[int, Any] = {}
    wakeup = signal.set_wakeup_fd(theirs, warn_on_full_buffer=False)
    try:
        for number, handler in wanted:
            if number == signal.SIGCHLD or signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, handler)
        yield ours
    finally:
        for number, old in before.items():
            signal.signal(number, old)
        signal.set_wakeup_fd(wakeup)
        last(ours)
        os.close(ours)
        os.close(theirs)
