"""Putting what a packed demo brings along where a replay finds it, and away again.

Runs in: commands outside GDB and the server. May call: errors, demo, launch.
Owns: the directory, private to this user, gone with the open demo; the table that the launcher answers the loader from.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from gdbrr.demo import carried
from gdbrr.demo.carried import CarriedFile
from gdbrr.demo.manifest import carried_path
from gdbrr.demo.reader import Demo
from gdbrr.errors import GdbrrError
from gdbrr.launch import scratch
from gdbrr.launch.carried.names import PREFIX, PROGRAM, ROOT, RUN
from gdbrr.launch.engine import Engine

_OPENAT = 257
_PT_INTERP = 3
_PAGE = 4096
_TABLE = "table"
_ENGINE_NAME = re.compile(r"/[^ :$]*/libgdbrr\.so")
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_ROW = struct.Struct("<IIQQQQQQ")


class Placed(NamedTuple):
    """What a replay is started with."""

    base: Path
    exe: str
    """Relative to where the launcher goes; as long as the recorded name, because its length moves the stack."""
    argv: Sequence[str]
    table: Path
    cwd: str
    engine: Engine
    """By its recorded name, which stands in the program's memory; the table says which file is meant."""


def is_packed(demo: Demo) -> bool:
    return "carried" in demo.manifest


_placed: dict[int, Placed] = {}


def place(demo: Demo, shown: str, engine: Engine) -> Placed:
    """The files of DEMO, whose program was executed as SHOWN; once for each open demo."""
    found = _placed.get(id(demo))
    if found is None:
        with contextlib.ExitStack() as stack:
            base = stack.enter_context(_directory(sum(file.size for file in carried.files(demo.manifest))))
            found = _placed[id(demo)] = _fill(demo, base, os.fsencode(shown), engine)
            stack.callback(_placed.pop, id(demo))
            demo.at_close.push(stack.pop_all())
    return found


@contextlib.contextmanager
def _directory(size: int) -> Iterator[Path]:
    path = Path(_executable_place(size)) / f"{PREFIX}{os.urandom(8).hex()}"
    path.mkdir(mode=0o700)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _executable_place(size: int) -> str:
    """A directory with room for SIZE bytes twice, from which programs may be run."""
    home = os.environ.get("XDG_RUNTIME_DIR", "")
    reason = ""
    for path in (scratch.place(), "/var/tmp", "/dev/shm", home):
        if not os.path.isabs(path) or not os.access(path, os.W_OK | os.X_OK):
            continue
        facts = os.statvfs(path)
        if facts.f_flag & os.ST_NOEXEC:
            reason = reason or f"{path} allows no programs to be run from it"
        elif facts.f_bavail * facts.f_frsize < 2 * size:
            reason = reason or f"{path} has no room for {size:,} bytes twice"
        else:
            return path
    raise GdbrrError(f"the demo's files cannot be put anywhere: {reason}", "name another directory in TMPDIR")


def _fill(demo: Demo, base: Path, shown: bytes, engine: Engine) -> Placed:
    manifest, files = demo.manifest["carried"], carried.files(demo.manifest)
    if manifest["program"] >= len(files) or manifest["engine"] >= len(files):
        raise _contradicts(demo)
    recorded = _recorded_engine(demo, engine)
    for name in (ROOT, RUN, "empty"):
        (base / name).mkdir(mode=0o700)
    where = [_below(base, file.path) for file in files]
    try:
        for file, path in zip(files, where, strict=True):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            carried.take_out(demo, file, path)
        for file, path in zip(files, where, strict=True):
            for name in file.names:
                other = _below(base, name)
                other.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                os.link(path, other)
        named = _below(base, str(recorded.library))
        if not named.exists():  # where a debugger looks for it, because the loader names it so
            named.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.link(where[manifest["engine"]], named)
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        raise _contradicts(demo) from None
    except OSError as error:
        raise GdbrrError(f"{base} cannot be written: {error.strerror}", "make room, or set TMPDIR") from None
    program = files[manifest["program"]]
    (base / PROGRAM).write_bytes(os.fsencode(program.path))
    word, exe = _name_for(shown)
    interp = _with_loader(demo, where[program.number], base / RUN / os.fsdecode(word), base / ROOT, files)
    rows = [(b"exec", os.fsencode(base / RUN), shown, b"-"), (b"interp", b"%d" % interp[0], b"%d" % interp[1], b"-")]
    preload = where[manifest["engine"]]
    rows.append((b"path", b"%d" % _OPENAT, os.fsencode(recorded.preload()), b"=" + os.fsencode(preload)))
    for verb, first, second, third in manifest["loader"]:
        rows.append((verb.encode(), first.encode(), os.fsencode(second), _answer(demo, third, where, base)))
    table = base / _TABLE
    table.write_bytes(b"".join(field + b"\0" for row in rows for field in row))
    cwd = demo.manifest["cwd"]
    here = cwd if os.path.isdir(cwd) else str(base / "empty")
    return Placed(base, os.fsdecode(exe), manifest["argv"], table, here, recorded)


def _recorded_engine(demo: Demo, engine: Engine) -> Engine:
    """ENGINE by the name that it had while recording.

    INVARIANT(named-not-loaded): the name is a text in memory; which file the loader gets for it, the table says. So it
    must be one name that the loader opens as it stands.
    """
    path = demo.manifest.get("engine", {}).get("path")
    if path is None:
        return engine
    if not _ENGINE_NAME.fullmatch(path) or not carried_path(path):
        raise _contradicts(demo)
    return engine._replace(library=Path(path))


def _below(base: Path, path: str) -> Path:
    """INVARIANT(files-stay-below): the manifest's check knows only paths without `.`, `..` and doubled slashes, and
    nothing below is a link."""
    return base / ROOT / path.lstrip("/")


def _answer(demo: Demo, answer: str, where: Sequence[Path], base: Path) -> bytes:
    if answer[0] != "=":
        return os.fsencode(answer)
    if answer == "=/":
        return b"=" + os.fsencode(base / ROOT)
    if int(answer[1:]) >= len(where):
        raise _contradicts(demo)
    return b"=" + os.fsencode(where[int(answer[1:])])


def _name_for(shown: bytes) -> tuple[bytes, bytes]:
    """(name of the file, path to execute): the path is as long as SHOWN, and ends in the same name, which is that of
    the program's first thread, too."""
    name = os.path.basename(shown)
    room = len(shown) - len(name)
    if name in (b"", b".", b"..") or len(name) > 255:
        raise GdbrrError(f"{os.fsdecode(shown)!r} is no name of a program", "let whoever sent the demo pack it again")
    return (name, b"." + b"/" * (room - 1) + name) if room > 1 else (b"x" + name, b"x" + name)


def _with_loader(demo: Demo, program: Path, out: Path, root: Path, files: Sequence[CarriedFile]) -> tuple[int, int]:
    """PROGRAM at OUT, with the demo's loader in place of this machine's; (offset, size) of what it said before.

    Behind its last page, so that nothing that is mapped differs.
    """
    raw = bytearray(program.read_bytes())
    try:
        header = _HEADER.unpack_from(raw)
        start, count = header[5], header[10]
        at = next(
            at for at in range(start, start + _ROW.size * count, _ROW.size)
            if struct.unpack_from("<I", raw, at)[0] == _PT_INTERP
        )  # fmt: skip
        row = list(_ROW.unpack_from(raw, at))
        offset, size = row[2], row[5]
        loader = bytes(raw[offset : offset + size]).rstrip(b"\0")
    except (struct.error, StopIteration):
        raise _contradicts(demo) from None
    known = {os.fsencode(name) for file in files for name in (file.path, *file.names)}
    if header[0][:5] != b"\x7fELF\x02" or header[9] != _ROW.size or loader not in known:
        raise _contradicts(demo)
    placed = os.path.join(os.fsencode(root), loader.lstrip(b"/")) + b"\0"
    raw += bytes(-len(raw) % _PAGE)
    row[2], row[5] = len(raw), len(placed)
    _ROW.pack_into(raw, at, *row)
    out.write_bytes(raw + placed)
    out.chmod(0o500)
    return offset, size


def _contradicts(demo: Demo) -> GdbrrError:
    return GdbrrError(
        f"what {demo.path} says of the files it brings along contradicts itself", "let whoever sent it pack it again"
    )
