"""Directories for the files of a run, made and removed without the modules that Python has for it.

Runs in: commands outside GDB and the server. May call: the file system.
Owns: where the temporary files of a replay are. tempfile and shutil take longer to import than a short program runs.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from gdbrr.errors import GdbrrError


def remove(path: Path, known: tuple[str, ...] = ()) -> None:
    """Remove a directory that holds files only, as far as that is to be had.

    KNOWN are removed without a look at the directory, which takes a descriptor that need not be there.
    """
    for name in known:
        with contextlib.suppress(OSError):
            os.unlink(path / name)
    with contextlib.suppress(OSError):
        path.rmdir()
        return
    with contextlib.suppress(OSError):
        for name in os.listdir(path):
            os.unlink(path / name)
        path.rmdir()


def place() -> str:
    """Where temporary files go, as everywhere: TMPDIR and the like, else /tmp."""
    for found in (*map(os.environ.get, ("TMPDIR", "TEMP", "TMP")), "/tmp", "/var/tmp"):
        if found and os.path.isdir(found) and os.access(found, os.W_OK | os.X_OK):
            return os.path.abspath(found)
    raise GdbrrError("there is no directory for temporary files", "name one in TMPDIR")


@contextlib.contextmanager
def directory(*known: str) -> Iterator[Path]:
    """A private directory that is gone as soon as it is not needed any more, with the files KNOWN and others."""
    path = Path(place()) / f"gdbrr-{os.urandom(8).hex()}"
    try:
        path.mkdir(mode=0o700)
    except OSError as error:
        raise GdbrrError(f"{path.parent} cannot be written: {error.strerror}", "make room, or set TMPDIR") from None
    try:
        yield path
    finally:
        remove(path, known)
