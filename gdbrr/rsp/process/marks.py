"""Bookmarks: moments with names, kept in a file beside the demo.

Runs in: the server. May call: gdbrr.timeline.model.
Owns: DEMO.marks, which another session on the same demo may have open as well.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from pathlib import Path

from gdbrr import files
from gdbrr.errors import GdbrrError
from gdbrr.timeline.model import Moment

SUFFIX = ".marks"
_NAME = re.compile(r"[A-Za-z_][\w.-]{0,63}\Z")
_TAKEN = re.compile(r"(start|end|live|e\d+)\Z")
_LARGEST = 1 << 20


class Marks:
    """The bookmarks of one demo. Those of a recording have no file until it is saved; then they are kept there."""

    def __init__(self, demo: Path | None = None) -> None:
        self._path = None if demo is None else demo.with_name(demo.name + SUFFIX)
        self._moves = demo is None
        self._marks: dict[str, Moment] = {}

    def all(self) -> dict[str, Moment]:
        """What the file says now; a file that is none of gdbrr's says nothing."""
        if self._path is not None:
            self._marks = _read(self._path)
        return dict(self._marks)

    def find(self, name: str) -> Moment:
        found = self.all().get(name)
        if found is None:
            known = ", ".join(sorted(self._marks))
            hint = f"known are: {known}" if known else "see: help rr-mark"
            raise GdbrrError(f"there is no bookmark {name}", hint=hint)
        return found

    def add(self, name: str, moment: Moment) -> None:
        if _TAKEN.match(name):
            raise GdbrrError(f"{name} has a meaning already", hint="use another name")
        if not _NAME.match(name):
            how = "use up to 64 letters, digits, '_', '-' and '.', and begin with a letter"
            raise GdbrrError(f"{name!r} cannot be a bookmark's name", hint=how)
        self._keep({**self.all(), name: moment})

    def remove(self, name: str) -> None:
        self.find(name)
        self._keep({key: moment for key, moment in self._marks.items() if key != name})

    def copy_beside(self, demo: Path) -> None:
        """The same bookmarks for another file of the same demo; none leave no file, nor the one that was there."""
        marks, path = self.all(), demo.with_name(demo.name + SUFFIX)
        if marks:
            _write(path, marks)
        else:
            path.unlink(missing_ok=True)
        if self._moves:
            self._path = path

    def _keep(self, marks: dict[str, Moment]) -> None:
        if self._path is not None:
            _write(self._path, marks)
        self._marks = marks


def _read(path: Path) -> dict[str, Moment]:
    """Whoever made the demo may have made this file as well, so nothing in it is believed that has another shape."""
    marks: dict[str, Moment] = {}
    with contextlib.suppress(OSError, ValueError, RecursionError):
        rows = json.loads(files.content(path, _LARGEST))
        for name, text in rows.items() if isinstance(rows, dict) else ():
            with contextlib.suppress(GdbrrError, TypeError):
                if _NAME.match(name) and not _TAKEN.match(name):
                    marks[name] = Moment.parse(text)
    return marks


def _write(path: Path, marks: Mapping[str, Moment]) -> None:
    try:
        files.write(path, json.dumps({name: str(moment) for name, moment in sorted(marks.items())}, indent=1) + "\n")
    except GdbrrError as error:
        raise GdbrrError(error.message, hint="copy the demo to where you may write") from None
