"""The signals of a terminal, while a program of ours has it.

Runs in: `gdbrr record`. May call: nothing of gdbrr.
Owns: the handlers of this process, until the program is gone.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def terminal_signals(forward: Callable[[int], None], last: Callable[[int], object] = int) -> Iterator[int]:
    """Leave the terminal's signals to the program and outlive them; yields what becomes readable at any signal.

    INVARIANT(no-signal-is-lost): LAST is called with that once more, when no further one is outlived.
    """

    def outlive(number: int, frame: object) -> None:
        pass

    def hand_on(number: int, frame: object) -> None:
        forward(number)

    # Handlers, not SIG_IGN, which the program would inherit; and what is ignored already stays so for both.
    wanted: list[tuple[int, Callable[[int, object], None]]] = [
        (signal.SIGINT, outlive),
        (signal.SIGQUIT, outlive),
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
