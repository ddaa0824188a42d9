"""The order `auto`: what a program's files say about how it orders its threads.

Runs in: commands outside GDB and the server. May call: errors, abi, the program's loader (which lists its libraries).
Owns: which order is chosen, and why.

On x86 a load that acquires and a store that releases are plain instructions: that there is no atomic instruction proves
nothing. So a choice is a guess until the demo was replayed once.
"""

from __future__ import annotations

import mmap
import os

from gdbrr.abi import ffi, lib
from gdbrr.quick.rows import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_NAMED = "libc libm libdl librt libpthread libresolv libutil libanl libgcc_s libstdc++ libmvec"
_RUNTIME = (
    *("ld-linux", "libnss_", "libgdbrr"),
    *(f"ld-{digit}" for digit in range(10)),
    *(name + sign for name in _NAMED.split() for sign in ".-"),
)
"""Libraries of the language: what they order by atomics of their own (the counters of shared strings and locales) is
seen by nobody, or an operation."""
_ATOMICS_LIBRARY = ("libatomic.", "libatomic-")
_MAKES_THREADS = (b"pthread_create", b"thrd_create", b"_ZNSt6thread15_M_start_thread")
_LOADS_CODE = (b"\0dlopen\0",)
"""Said by a program or by a library of its own, as java's launcher has one. Shared libraries that may are many."""
_SCRIPTS = 4
"""How many `#!` in a row are followed."""


class Guess(NamedTuple):
    order: str
    why: str


def order_for(program: str, env: Mapping[str, str]) -> Guess:
    """How to record PROGRAM, an absolute path."""
    every = _files(os.path.realpath(_binary(program)), env)
    files = [path for path in every if not _is_runtime(path)]
    if any(os.path.basename(path).startswith(_ATOMICS_LIBRARY) for path in files):
        return Guess("serial", "it uses libatomic")
    threads = False
    for path in files:
        try:
            code = _look(path)
        except (OSError, ValueError):
            continue
        threads |= code.makes_threads
        if code.atomics or code.pauses:
            found = "an atomic instruction" if code.atomics == 1 else f"{code.atomics} atomic instructions"
            found = f"at least {found}" if code.more else found
            found = found if code.atomics else "a loop that waits"
            reason = f"{os.path.basename(path)} has {found} of its own"
            break
    else:
        reason = ""
    if not (threads or any(_has_name(path) for path in files)):
        return Guess("parallel", "it makes no threads")
    if reason:
        return Guess("serial", reason)
    shared = {os.path.dirname(os.path.realpath(path)) for path in every if _is_runtime(path)}
    for path in files:
        if os.path.dirname(os.path.realpath(path)) not in shared and _has_name(path, _LOADS_CODE):
            name = os.path.basename(path)
            return Guess("serial", f"{name} loads more code while it runs, which nobody has looked at")
    looked = "the program has" if len(files) == 1 else "the program and its library have"
    looked = looked if len(files) < 3 else f"the program and its {len(files) - 1} libraries have"
    return Guess("parallel", f"{looked} no atomic instructions")


def _binary(program: str) -> str:
    """PROGRAM, or what interprets it."""
    for _ in range(_SCRIPTS):
        try:
            with open(program, "rb") as file:
                head = file.readline(256)
        except OSError:
            break
        words = head[2:].split()
        if head[:2] != b"#!" or not words:
            break
        program = os.fsdecode(words[0])
    return program


def loaded(program: str, env: Mapping[str, str], cwd: str) -> list[str]:
    """What the loader of PROGRAM, an absolute path, maps for it when it is started in CWD: real names."""
    return [os.path.realpath(os.path.join(cwd, path)) for path in _files(_binary(program), env, cwd)]


def _files(program: str, env: Mapping[str, str], cwd: str | None = None) -> list[str]:
    """The program and the libraries that its loader finds for it."""
    try:
        loader = _look(program).loader
        if not loader:
            return [program]
        said = _said_by([loader, "--list", program], env, cwd)
    except (OSError, ValueError):
        return [program]
    return [program, *dict.fromkeys(path for path in _listed(said) if path != program)]


def _said_by(words: list[str], env: Mapping[str, str], cwd: str | None) -> str:
    """What a command writes on standard output, without the module that knows all ways to start one. A shell knows one
    way to another directory."""
    ours, theirs = os.pipe2(os.O_CLOEXEC)
    with open(ours, "rb") as said:
        try:
            silent = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 2)]
            actions = [*silent, (os.POSIX_SPAWN_DUP2, theirs, 1)]
            if cwd:
                words = ["/bin/sh", "-c", 'cd -- "$1" && shift && exec "$@"', "sh", cwd, *words]
            pid = os.posix_spawn(words[0], words, dict(env), file_actions=actions)
        finally:
            os.close(theirs)
        try:
            return said.read().decode(errors="surrogateescape")
        finally:
            os.waitpid(pid, 0)


def _listed(said: str) -> Iterator[str]:
    """The files in a loader's list: `	NAME => PATH (0x...)`, or without a name."""
    for line in said.splitlines():
        path, mark, _ = line.rpartition(" (0x")
        path = path.rpartition(" => ")[2].strip()
        if mark and line[:1].isspace() and "/" in path:
            yield path


def _is_runtime(path: str) -> bool:
    return os.path.basename(path).startswith(_RUNTIME)


class _Code(NamedTuple):
    """What a file says about itself."""

    makes_threads: bool
    atomics: int
    more: bool
    """It was not looked for more of them."""
    pauses: int
    loader: str


def _look(path: str) -> _Code:
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        found = ffi.new("struct gr_atomics *")
        lib.gr_atomics_find(ffi.from_buffer("uint8_t[]", view), len(view), found)
        loader = os.fsdecode(ffi.string(found.loader))
        return _Code(_names(view, _MAKES_THREADS), found.atomics, bool(found.more), found.pauses, loader)


def _has_name(path: str, names: tuple[bytes, ...] = _MAKES_THREADS) -> bool:
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
            return _names(view, names)
    except (OSError, ValueError):
        return False


def _names(view: mmap.mmap, names: tuple[bytes, ...]) -> bool:
    return any(view.find(name) >= 0 for name in names)
