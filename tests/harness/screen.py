"""A command in a terminal of tmux, for those that draw on all of it: keys go in, what a person would see comes out.

Runs in: pytest. May call: tmux.
Owns: one server of tmux and what runs in it; `close` ends both.
"""

from __future__ import annotations

import itertools
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from harness.run import LIMIT, TooSlow, surroundings

_LOOK = 0.05
_numbers = itertools.count()


class Screen:
    """Starts COMMAND at once, on a terminal of its own."""

    def __init__(
        self, command: Sequence[str | Path], size: tuple[int, int] = (40, 100), env: Mapping[str, str] | None = None,
        limit: float = LIMIT,
    ) -> None:  # fmt: skip
        self._limit = limit
        self._tmux = ["tmux", "-u", "-L", f"gdbrr-{os.getpid()}-{next(_numbers)}", "-f", "/dev/null"]
        rows, columns = size
        # Behind its end the last screen stays, for whoever wants to know why it ended.
        stays = ("start-server", ";", "set-option", "-g", "remain-on-exit", "on", ";")
        begins = ("new-session", "-d", "-x", str(columns), "-y", str(rows), shlex.join(map(str, command)))
        self._do(*stays, *begins, env={**surroundings(), "LC_ALL": "C.UTF-8", **(env or {})})

    def type(self, text: str) -> None:
        """TEXT, and the key that ends a line."""
        self._do("send-keys", "-l", text, ";", "send-keys", "Enter")

    def shown(self) -> str:
        return self._do("capture-pane", "-p")

    def wait_for(self, seen: Callable[[str], object]) -> str:
        """The screen of which SEEN is true."""
        deadline = time.monotonic() + self._limit
        while True:
            shown = self.shown()
            if seen(shown):
                return shown
            if time.monotonic() > deadline:
                raise TooSlow(f"this is not what was waited for:\n{shown}")
            time.sleep(_LOOK)

    def close(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False)

    def _do(self, *words: str, env: Mapping[str, str] | None = None) -> str:
        done = subprocess.run(
            [*self._tmux, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, env=env, check=False
        )
        if done.returncode:
            raise RuntimeError(f"tmux {' '.join(words)}: {done.stderr}")
        return done.stdout

    def __enter__(self) -> Screen:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
