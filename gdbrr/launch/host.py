"""Facts about this machine and about ELF files, as a demo's manifest keeps them.

Runs in: commands outside GDB and the server. May call: /proc, /etc, the file system.
Owns: what makes two hosts the same.
"""

from __future__ import annotations

import os
import struct

from gdbrr.files import regular
from gdbrr.quick.paths import Path
from gdbrr.quick.rows import TYPE_CHECKING, Any
from gdbrr.quick.scopes import suppress

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

_PT_INTERP = 3
_PT_NOTE = 4
_NT_GNU_BUILD_ID = 3
_NOTE_LIMIT = 1 << 16
_PAGE = 4096
_GONE = " (deleted)"
"""What the kernel puts behind the name of a file that is mapped and has that name no more."""


def host_id() -> str:
    """Names this user on this machine without giving the machine's id away."""
    try:
        machine = Path("/etc/machine-id").read_bytes().decode(errors="replace").strip()
    except OSError:
        machine = os.uname().nodename
    from gdbrr.quick.hashes import sha256

    return sha256(f"gdbrr {machine} {os.getuid()}".encode()).hexdigest()[:32]


def cache_pages() -> int:
    """Pages of the loader's cache of libraries. It is mapped while they are, so it decides where they lie."""
    try:
        return -(-os.stat("/etc/ld.so.cache").st_size // _PAGE)
    except OSError:
        return 0


def facts() -> dict[str, str | int]:
    system = os.uname()
    return {
        "cache_pages": cache_pages(),
        "kernel": system.release,
        "machine": system.machine,
        "cpu": _cpu(),
        "libc": os.confstr("CS_GNU_LIBC_VERSION") or "unknown",
        "id": host_id(),
    }


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return "unknown"


def build_id(path: str | Path) -> str:
    """The build-id of an ELF file in hexadecimal; empty where there is none or the file cannot be read."""
    try:
        with regular(path) as file:
            return _build_id(lambda size, offset: os.pread(file.fileno(), size, offset))
    except (OSError, struct.error):
        return ""


def _mapped_build_id(pid: int, base: int) -> str:
    """The same of one that PID has mapped at BASE, whatever has become of the file."""
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            return _build_id(lambda size, offset: os.pread(memory.fileno(), size, base + offset))
    except (OSError, struct.error):
        return ""


def _build_id(read: Callable[[int, int], bytes]) -> str:
    notes = [(size, offset) for kind, offset, size in _segments(read(4096, 0)) if kind == _PT_NOTE]
    return next(filter(None, (_note(read(min(size, _NOTE_LIMIT), offset)) for size, offset in notes)), "")


def other_objects(manifest: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """(path, recorded build-id, build-id here) of every file that a recording had mapped, the engine too, and that is
    another one here."""
    if "carried" in manifest:
        return []
    found = []
    for row in [*manifest.get("objects", ()), manifest.get("engine", {})]:
        path, recorded = row.get("path", ""), row.get("build_id", "")
        here = build_id(path) if recorded and os.path.isabs(path) else recorded
        if here != recorded:
            found.append((path, recorded, here))
    return found


def is_relocatable(path: str | Path) -> bool:
    """Whether an ELF file is loaded where there is room (PIE, libraries), so that its addresses are offsets."""
    try:
        with regular(path) as file:
            head = file.read(18)
    except OSError:
        return False
    return head[:4] == b"\x7fELF" and head[16:18] == b"\x03\0"


def interpreter(path: str | Path) -> str:
    """The loader that an ELF program names; empty for anything else."""
    try:
        with regular(path) as file:
            for kind, offset, size in _segments(file.read(4096)):
                if kind == _PT_INTERP:
                    file.seek(offset)
                    return file.read(min(size, 4096)).rstrip(b"\0").decode(errors="replace")
    except (OSError, struct.error):
        pass
    return ""


def _segments(head: bytes) -> list[tuple[int, int, int]]:
    """(kind, file offset, size) of each program header that the file's first bytes hold."""
    if head[:5] != b"\x7fELF\x02":
        return []
    start, entry, count = struct.unpack_from("<Q", head, 32)[0], *struct.unpack_from("<HH", head, 54)
    segments = []
    for at in range(start, min(start + entry * count, len(head) - 55), max(entry, 56)):
        kind, _, offset, _, _, size = struct.unpack_from("<IIQQQQ", head, at)
        segments.append((kind, offset, size))
    return segments


def _note(notes: bytes) -> str:
    at = 0
    while at + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from("<III", notes, at)
        name = at + 12
        value = name + (name_size + 3 & ~3)
        if kind == _NT_GNU_BUILD_ID and notes[name : name + name_size] == b"GNU\0":
            return notes[value : value + size].hex()
        at = value + (size + 3 & ~3)
    return ""


def mapped_objects(pid: int, known: Collection[str] = ()) -> list[dict[str, str | int]]:
    """Every file that PID has mapped executable and that is not KNOWN, with its build-id and the address of its first
    byte. Where another one has taken its name since, as one that was built anew, the build-id is that of what is
    mapped."""
    rows: list[dict[str, str | int]] = []
    for path, base in mapped_files(pid).items():
        name = path.removesuffix(_GONE)
        if name in known:
            continue
        mapped = _mapped_build_id(pid, base) if name != path and os.path.isfile(name) else ""
        rows.append({"path": name, "build_id": mapped, "base": base} if mapped else {**identity(path), "base": base})
    return rows


def mapped_files(pid: int) -> dict[str, int]:
    """The address of the first byte of every file that PID has mapped executable."""
    bases: dict[str, int] = {}
    code: set[str] = set()
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as maps:
            for line in maps:
                fields = line.split(None, 5)
                if len(fields) < 6 or not fields[5].startswith("/"):
                    continue
                path = fields[5].rstrip("\n")
                bases.setdefault(path, int(fields[0].split("-")[0], 16))
                if "x" in fields[1]:
                    code.add(path)
    except OSError:
        return {}
    return {path: base for path, base in bases.items() if path in code}


def identity(path: str) -> dict[str, str | int]:
    """What tells whether a file is the same one later: the build-id, and for files without one size and time."""
    row: dict[str, str | int] = {"path": path, "build_id": build_id(path)}
    with suppress(OSError):
        st = os.stat(path)
        row.update(size=st.st_size, mtime=st.st_mtime_ns)
    return row
