"""Directories for the files of a run, made and removed without the modules that Python has for it.

Runs in: commands outside GDB and the server. May call: the file system.
Owns: where the temporary files of a replay are. tempfile and shutil take longer to import than a short program runs.
"""

from __future__ import annotations

import os

from gdbrr.errors import GdbrrError
from gdbrr.quick.paths import Path
from gdbrr.quick.rows import TYPE_CHECKING
from gdbrr.quick.scopes import contextmanager, suppress

if TYPE_CHECKING:
    from collections.abc import Iterator


def remove(path: Path) -> None:
    """Remove a directory that holds files only, as far as that is to be had."""
    with suppress(OSError):
        for name in os.listdir(path):
            os.unlink(path / name)
        path.rmdir()


def place() -> str:
    """Where temporary files go, as everywhere: TMPDIR and the like, else /tmp."""
    for found in (*map(os.environ.get, ("TMPDIR", "TEMP", "TMP")), "/tmp", "/var/tmp"):
        if found and os.path.isdir(found) and os.access(found, os.W_OK | os.X_OK):
            return os.path.abspath(found)
    raise GdbrrError("there is no directory for temporary files", "name one in TMPDIR")


def _fresh() -> Path:
    return Path(place()) / f"gdbrr-{os.urandom(8).hex()}"


def _unwritable(path: Path, error: OSError) -> GdbrrError:
    return GdbrrError(f"{path.parent} cannot be written: {error.strerror}", "make room, or set TMPDIR")


@contextmanager
def directory() -> Iterator[Path]:
    """A private directory that is gone as soon as it is not needed any more, with the files in it."""
    path = _fresh()
    try:
        path.mkdir(mode=0o700)
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        yield path
    finally:
        remove(path)


def _nameless() -> int:
    flags = os.O_RDWR | os.O_CLOEXEC
    with suppress(OSError):  # some file systems know none
        return os.open(place(), flags | os.O_TMPFILE, 0o600)
    path = _fresh()
    try:
        fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise _unwritable(path, error) from None
    os.unlink(path)
    return fd


@contextmanager
def file() -> Iterator[int]:
    """A private file without a name: nothing of it stays, whatever becomes of us."""
    fd = _nameless()
    try:
        yield fd
    finally:
        os.close(fd)
