"""Which files a replay reads for its demo's references, decided before it starts.

Runs in: commands outside GDB and the server. May call: errors, abi, demo, launch.
Owns: INVARIANT(own-references): a demo's word that a file of this machine belongs to it is believed of this user's own
demos only, whose seal fits. Contents that a demo holds come from it, whoever made it, through a private directory.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from gdbrr.abi import Ctl, ffi, lib
from gdbrr.demo import referred
from gdbrr.errors import GdbrrError
from gdbrr.launch import own, scratch
from gdbrr.quick.paths import Path
from gdbrr.quick.rows import TYPE_CHECKING

if TYPE_CHECKING:
    from gdbrr.demo.reader import Demo
    from gdbrr.demo.referred import Referred

_FOREIGN = "let whoever recorded it send what `gdbrr pack` makes of it"
_CHANGED = "put it back as it was, or record the program again; `gdbrr pack` keeps such files in the demo"


def place(demo: Demo, page: Ctl) -> None:
    """Tell the engine where the contents of each file are."""
    if not demo.files:
        return
    at = 0
    for number, path, row in _places(demo):
        name = os.fsencode(path) + b"\0"
        if at + len(name) > lib.GR_INPUTS:
            raise GdbrrError(f"{demo.path} refers to files with very long names", "record it where they are shorter")
        ffi.memmove(ffi.addressof(page.c, "inputs")[0] + at, name, len(name))
        file = page.c.file[number]
        file.device, file.inode, file.size = row.device, row.inode, row.size
        file.mtime, file.ctime = row.mtime, row.ctime
        file.path, file.state = at, lib.GR_FILE_REFERRED
        at += len(name)
    page.c.files = len(demo.files)


def check(demo: Demo) -> None:
    """Refuse a demo whose contents cannot be had."""
    for row in referred.missing(demo):
        if not own.made(demo):
            there = f"a file of the machine where it was recorded, {row.path!r}, and does not hold it"
            raise GdbrrError(f"{demo.path} refers to {there}", _FOREIGN)
        if how := referred.changed(row):
            raise GdbrrError(f"{row.path!r}, which {demo.path} refers to, changed since the recording: {how}", _CHANGED)


@contextlib.contextmanager
def expanded(demo: Demo) -> Iterator[Demo]:
    """DEMO as if it referred to nothing, under its own name: for whoever looks at what was read, or changes it."""
    from gdbrr.demo import reader, seal

    if not demo.files:
        yield demo
        return
    check(demo)
    with scratch.directory() as directory:
        out = directory / "expanded.demo"
        referred.expand(demo, out)
        key = own.key() if own.made(demo) else None
        if key:
            with open(out, "r+b") as file:
                seal.put(file, key)
        with reader.Demo.open(out) as found:
            found.path = demo.path
            yield found


def _places(demo: Demo) -> list[tuple[int, str, Referred]]:
    """(number, path, what the file there is): files of the user's where they are, what the demo holds where it is."""
    check(demo)
    held = [number for number in range(len(demo.files)) if referred.held(demo, number)]
    if held and not demo.taken_out:
        demo.taken_out = _take_out(demo, held)
    return [(n, *(demo.taken_out.get(n) or _own(row))) for n, row in enumerate(demo.files)]


def _own(row: Referred) -> tuple[str, Referred]:
    """A file of the user's, which check() has looked at, with the number of its file system now."""
    try:
        return row.path, row._replace(device=os.lstat(row.path).st_dev)
    except OSError:
        return row.path, row  # gone since: the engine says so


def _take_out(demo: Demo, held: list[int]) -> dict[int, tuple[str, Referred]]:
    directory = demo.at_close.enter_context(scratch.directory())
    need = sum(demo.files[number].end - demo.files[number].start for number in held)
    free = os.statvfs(directory)
    if need > (free.f_bavail - free.f_blocks // 20) * free.f_frsize:
        raise GdbrrError(f"{directory.parent} has no room for {need:,} bytes", "make room, or set TMPDIR")
    found: dict[int, tuple[str, Referred]] = {}
    for number in held:
        path = Path(directory) / str(number)
        try:
            with open(path, "xb", opener=lambda name, flags: os.open(name, flags | os.O_CLOEXEC, 0o600)) as file:
                referred.take_out(demo, number, file)
                os.fchmod(file.fileno(), 0o400)
                st = os.fstat(file.fileno())
        except OSError as error:
            place = directory.parent
            raise GdbrrError(f"{place} cannot be written: {error.strerror}", "make room, or set TMPDIR") from None
        as_put = demo.files[number]._replace(
            device=st.st_dev, inode=st.st_ino, mtime=st.st_mtime_ns, ctime=st.st_ctime_ns
        )
        found[number] = (str(path), as_put)
    return found
