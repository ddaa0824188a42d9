"""Files that are written beside others' and read where others named them.

Runs in: everywhere outside GDB. May call: errors, the file system.
Owns: how a draft is made, and what is read of a file that a demo, or whoever could write beside one, has named.

INVARIANT(no-name-is-followed): what is written goes to a file that was made for it, under a name that nobody could
guess, and takes the place of a link instead of following it. What is read is a regular file: a FIFO would wait, a
device would do something.
"""

from __future__ import annotations

import errno
import os
import stat

from gdbrr.errors import GdbrrError
from gdbrr.quick.paths import Path
from gdbrr.quick.rows import TYPE_CHECKING
from gdbrr.quick.scopes import contextmanager, suppress

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO, BinaryIO

_DRAFT = 18
"""How much longer the name of a draft is."""
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def draft(out: Path, *, lasts: bool = True) -> Iterator[BinaryIO]:
    """A file that appears at OUT whole or not at all. Only its owner may read it: a demo holds the environment.

    With LASTS it is on the disk then, whatever becomes of the machine.
    """
    name = out.with_name(f".{out.name}.{os.urandom(8).hex()}")
    try:
        made = new(name)
    except OSError as error:
        raise GdbrrError(f"{out.parent} cannot be written: {error.strerror}", hint="choose another place") from None
    try:
        with made as file:
            yield file
            file.flush()
            if lasts:
                os.fsync(file.fileno())
        os.replace(name, out)
    except OSError as error:
        hint = "make room or choose another place"
        raise GdbrrError(f"{out} cannot be written: {error.strerror}", hint=hint) from None
    finally:
        with suppress(OSError):
            name.unlink(missing_ok=True)


def remove(out: Path) -> None:
    """The file OUT, if there is one, and drafts of it that somebody has left who was killed."""
    for name in os.listdir(out.parent):
        if name == out.name or (name.startswith(f".{out.name}.") and len(name) == len(out.name) + _DRAFT):
            (out.parent / name).unlink(missing_ok=True)


def new(path: Path) -> BinaryIO:
    """A file that nobody else may read, where there was none."""
    return os.fdopen(os.open(path, _NEW, 0o600), "w+b")


def write(out: Path, content: bytes | str) -> None:
    """All of a small file at OUT, or nothing."""
    with draft(out, lasts=False) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def regular(path: str | Path, *, follow: bool = True) -> IO[bytes]:
    """The file at PATH, to be read. Without FOLLOW PATH must not be a link."""

    def opener(name: str, flags: int) -> int:
        look = os.stat if follow else os.lstat
        if not stat.S_ISREG(look(name).st_mode):  # in front of the open, which does something to a device
            raise OSError(errno.EINVAL, "not a regular file", name)
        fd = os.open(name, flags | os.O_NONBLOCK | os.O_NOCTTY | (0 if follow else os.O_NOFOLLOW))
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(errno.EINVAL, "not a regular file", name)
        return fd

    return open(path, "rb", opener=opener)


def content(path: str | Path, most: int, *, follow: bool = True) -> bytes:
    """What is in the file at PATH, which has at most MOST bytes; an OSError where it has more."""
    with regular(path, follow=follow) as file:
        found = file.read(most + 1)
    if len(found) > most:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return found
