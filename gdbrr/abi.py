"""preload/abi.h as Python sees it: constants, structures, the control page as a mapping.

Runs in: the controller and the server (never in GDB's Python). May call: gdbrr/_native (cffi).
Owns: nothing; the numbers come from the headers through gdbrr/demo/native_build.py.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import stat

from gdbrr.errors import GdbrrError
from gdbrr.quick.paths import Path
from gdbrr.quick.rows import TYPE_CHECKING, Any
from gdbrr.quick.scopes import contextmanager

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

try:
    from gdbrr import _native
except ImportError as error:
    raise GdbrrError(f"gdbrr's native module cannot be loaded ({error})", hint="build it with: make build") from None

ffi: Any = _native.ffi
lib: Any = _native.lib
"""Every GR_ constant, enum value and function: lib.GR_CMD_RUN, lib.GR_OP_MUTEX_LOCK ..."""

ABI_VERSION: int = lib.GR_ABI_VERSION
CTL_MAGIC = b"gdbrrctl"
CTL_SIZE: int = ffi.sizeof("struct gr_ctl")


def enum_names(enum: str, prefix: str) -> dict[int, str]:
    """The names of an enum without their prefix: enum_names("enum gr_slot_state", "GR_S_")[1] == "STARTING"."""
    elements: dict[int, str] = ffi.typeof(enum).elements
    return {value: name[len(prefix) :] for value, name in sorted(elements.items())}


OPS = enum_names("enum gr_op", "GR_OP_")
"""Kind of operation by wire number."""


def text(field: Any) -> str:
    """A char array of a structure up to its NUL, whatever bytes are in it."""
    return bytes(ffi.buffer(field)).split(b"\0", 1)[0].decode("utf-8", "backslashreplace")


class Ctl:
    """The control page, shared with every process of a recording or replay. `c` is the struct gr_ctl itself."""

    def __init__(self, mapping: mmap.mmap) -> None:
        self._mapping = mapping
        self.c: Any = ffi.from_buffer("struct gr_ctl *", mapping)

    def slot(self, index: int) -> Any:
        return self.c.slot[index]

    def close(self) -> None:
        if not self._mapping.closed:
            ffi.release(self.c)
            self._mapping.close()

    def __enter__(self) -> Ctl:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _reserve(fd: int) -> None:
    """Disk space for what a recording uses of the control page: all but digests, traces and the slots of copies.

    INVARIANT(space-before-touch), as for the log: on a full disk even reading a page without a place is a SIGBUS.
    """
    digest, slots, inputs = (ffi.offsetof("struct gr_ctl", name) for name in ("digest", "slot", "inputs_used"))
    for start, size in ((0, digest), (slots, ffi.sizeof("struct gr_slot")), (inputs, CTL_SIZE - inputs)):
        os.posix_fallocate(fd, start, size)


def _new_ctl(fd: int) -> Ctl:
    mapping = mmap.mmap(fd, CTL_SIZE)
    mapping.madvise(mmap.MADV_RANDOM)  # see open_pages in preload/init.c
    ctl = Ctl(mapping)
    ffi.memmove(ctl.c.magic, CTL_MAGIC, len(CTL_MAGIC))
    ctl.c.abi = ABI_VERSION
    return ctl


@contextmanager
def made_ctl() -> Iterator[tuple[Ctl, int]]:
    """A control page that is in no directory, and the descriptor by which a child finds it until this is left.

    A replay's: nobody needs it behind its end, and on a full disk each page touched first would be a SIGBUS.
    INVARIANT(page-stays-whole): its size is sealed, or a look at a page that was cut off would be
    a SIGBUS, too.
    """
    fd = os.memfd_create("gdbrr-ctl", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        try:
            os.ftruncate(fd, CTL_SIZE)
        except OSError as error:
            what = f"this machine refuses {CTL_SIZE} bytes for what a replay says: {error.strerror}"
            raise GdbrrError(what, "raise the limit of files (`ulimit -f unlimited`)") from None
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        yield _new_ctl(fd), fd
    finally:
        os.close(fd)


def _copy(fd: int) -> mmap.mmap:
    """What is in somebody else's file, who could cut it off under our eyes."""
    mapping = mmap.mmap(-1, CTL_SIZE)
    os.preadv(fd, [mapping], 0)
    return mapping


def map_ctl(path: Path, create: bool = False, write: bool = True, reserve: bool = False) -> Ctl:
    """Map the control page file at `path`; `create` makes it, zero but for its magic and version.

    `reserve` takes the disk space that a recording needs of it, or raises OSError.
    """
    flags = (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        fd = os.open(path, flags | (os.O_CREAT | os.O_EXCL if create else 0), 0o600)
    except OSError as error:
        raise GdbrrError(f"{path} cannot be opened: {error.strerror}", hint="name a recording directory") from None
    try:
        if create:
            os.ftruncate(fd, CTL_SIZE)
        if reserve:
            _reserve(fd)
        if create:
            return _new_ctl(fd)
        st = os.fstat(fd)
        if not stat.S_ISREG(st.st_mode) or st.st_size < CTL_SIZE:
            raise GdbrrError(f"{path} is not a control page of this version", hint="record again with this gdbrr")
        mapping = _copy(fd) if st.st_uid != os.geteuid() else None
        mapping = mapping or mmap.mmap(fd, CTL_SIZE, prot=mmap.PROT_READ | (mmap.PROT_WRITE if write else 0))
    finally:
        os.close(fd)
    ctl = Ctl(mapping)
    if bytes(ffi.buffer(ctl.c.magic)) != CTL_MAGIC or ctl.c.abi != ABI_VERSION:
        found = ctl.c.abi
        ctl.close()
        raise GdbrrError(
            f"{path} has ABI version {found}, this gdbrr has {ABI_VERSION}", hint="use the gdbrr that made it"
        )
    return ctl
