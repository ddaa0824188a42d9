"""The words of a command line as a shell would see them, with what is left of the line at hand.

Runs in: GDB's Python, and without GDB in tests. May call: the standard library, a shell and gdbrr.errors; never gdb.
Owns: nothing.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

from gdbrr.errors import GdbrrError

_SPACE = " \t\n"


class Line:
    """A cursor over one line of arguments."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.literal = False
        """Options have ended: `--` was read."""
        self._skip_space()

    def _skip_space(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in _SPACE:
            self.at += 1

    @property
    def done(self) -> bool:
        return self.at >= len(self.text)

    def rest(self) -> str:
        """Everything that is left, as typed."""
        left = self.text[self.at :].strip()
        self.at = len(self.text)
        return left

    def peek(self) -> str:
        """The next word if it could be an option, else an empty string."""
        raw = self.peek_raw()
        return raw if raw.startswith("-") and not self.literal else ""

    def peek_raw(self) -> str:
        """The next word as typed, up to the next space."""
        stop = self.at
        while stop < len(self.text) and self.text[stop] not in _SPACE:
            stop += 1
        return self.text[self.at : stop]

    def skip(self, raw: str) -> None:
        self.at += len(raw)
        self._skip_space()

    def at_last_word(self, raw: str) -> bool:
        """Is RAW, the next word, still being typed?"""
        return self.at + len(raw) == len(self.text)

    def word(self) -> str:
        """The next word: quotes and backslashes join, `'...'` is verbatim."""
        out: list[str] = []
        quote = ""
        while self.at < len(self.text):
            char = self.text[self.at]
            self.at += 1
            if char == quote:
                quote = ""
            elif char == "\\" and quote != "'" and self.at < len(self.text):
                out.append(self.text[self.at])
                self.at += 1
            elif quote:
                out.append(char)
            elif char in "'\"":
                quote = char
            elif char in _SPACE:
                break
            else:
                out.append(char)
        if quote:
            raise GdbrrError(f"a quote {quote} is not closed", hint=f"end the word with {quote}")
        self._skip_space()
        return "".join(out)


def shell_operator(args: str) -> str:
    """The first redirection or other operator the shell would see in ARGS, or an empty string."""
    quote = previous = ""
    skip = False
    for char in args:
        if skip:
            skip = False
        elif char == quote:
            quote = ""
        elif char == "\\" and quote != "'":
            skip = True
        elif char in "'\"" and not quote:
            quote = char
        elif char in "<>|&;\n" and not quote and previous != "$":
            return char
        previous = char
    return ""


def shell_words(args: str, env: Mapping[str, str], folder: str) -> list[str]:
    """The words that GDB's `run` would hand the program: it lets the shell expand `set args`."""
    operator = shell_operator(args)
    if operator:
        raise GdbrrError(
            f"{operator!r} in the arguments is not supported by rr-start", hint="try: gdbrr record in a shell"
        )
    if not args.strip():
        return []
    shell = os.environ.get("SHELL") or "/bin/sh"
    # The first word is there so that arguments which expand to nothing do not print one empty word.
    done = subprocess.run(
        [shell, "-c", f"printf '%s\\0' x {args}"],
        env=dict(env),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=False,
    )
    if done.returncode:
        raise GdbrrError(f"{shell} cannot expand the arguments {args!r}", hint="try: show args")
    return [word.decode("utf-8", "surrogateescape") for word in done.stdout.split(b"\0")[1:-1]]


def plain_words(args: str, env: Mapping[str, str], folder: str) -> list[str]:
    """The same under `set startup-with-shell off`: quotes count, nothing is expanded."""
    line, found = Line(args), []
    while not line.done:
        found.append(line.word())
    return found
