"""What a demo must bring along to be replayed elsewhere: program, libraries, engine, and what the loader was told.

Runs in: `gdbrr pack`. May call: errors, abi, demo, launch; the file system; the launcher, which writes down what the
loader asks while a replay of the demo starts.
Owns: the manifest's `carried`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from gdbrr.abi import lib
from gdbrr.demo.format import MAX_CARRIED, MAX_CARRIED_BYTES
from gdbrr.demo.reader import Demo
from gdbrr.errors import GdbrrError
from gdbrr.files import regular
from gdbrr.launch import engine as engines
from gdbrr.launch import host, inputs, replay, scratch

_OPENS = ("2", "257")
_LIMIT = 60.0
_DEBUG = "/usr/lib/debug/.build-id"
_CHANGED = "record it again: what was recorded cannot be packed any more"


class Collected(NamedTuple):
    """For the packed demo."""

    carried: dict[str, Any]
    sources: Sequence[Path]
    bytes: int
    without_debug: Sequence[str]
    """Mapped files for which debug information was wanted and none is here."""


@dataclass
class _Bag:
    rows: list[dict[str, Any]] = field(default_factory=list)
    by_path: dict[str, int] = field(default_factory=dict)
    bytes: int = 0

    def put(self, name: str, kind: str) -> int:
        """The number of the file that is called NAME; -1 for what is no regular file."""
        path = os.path.realpath(name)
        number = self.by_path.get(path, -1)
        if number < 0:
            try:
                st = os.stat(path)
            except OSError as error:
                raise GdbrrError(f"{path} cannot be read: {error.strerror}", _CHANGED) from None
            if not stat.S_ISREG(st.st_mode):
                return -1
            number = self.by_path[path] = len(self.rows)
            self.bytes += st.st_size
            self.rows.append(
                {"path": path, "names": [], "size": st.st_size, "sha256": _hash(path), "build_id": host.build_id(path),
                 "kind": kind}
            )  # fmt: skip
            if len(self.rows) > MAX_CARRIED or self.bytes > MAX_CARRIED_BYTES:
                raise GdbrrError(
                    f"the program's files are more than {MAX_CARRIED} or {MAX_CARRIED_BYTES:,} bytes",
                    "send them in another way; a demo that is not packed replays where they are",
                )
        other = os.path.normpath(name)
        row = self.rows[number]
        if other.startswith("//"):
            other = other[1:]
        if other not in (path, *row["names"]):
            row["names"].append(other)
        return number


def collect(demo: Demo, debug: bool, trust: bool) -> Collected:
    """Everything for DEMO, whose program and libraries must be here as they were when it was recorded."""
    manifest = demo.manifest
    if "carried" in manifest:
        raise GdbrrError(f"{demo.path} is packed already", "send it as it is")
    _check_unchanged(manifest)
    program, argv = _executed(manifest)
    log = _loader_log(demo, trust)
    bag = _Bag()
    number = bag.put(program, "program")
    engine = engines.find()
    carries_engine = bag.put(str(engine.library), "engine")
    if min(number, carries_engine) < 0 or not host.interpreter(program):
        raise GdbrrError(f"{program} is no program that can be packed", "pack a demo of a dynamically linked one")
    bag.put(host.interpreter(program), "object")
    loader = []
    for verb, first, second, answer in log:
        if second == engine.preload():
            continue  # each machine's own name; the replay knows which file it is
        found = _answer(bag, first, _from(manifest["cwd"], second), answer) if verb == "path" else answer
        if found:
            loader.append([verb, first, second, found])
    for row in manifest.get("objects", ()):
        if os.path.isabs(row["path"]) and not row["path"].endswith(" (deleted)"):
            bag.put(row["path"], "object")
    without = _debug_information(bag) if debug else []
    carried = {
        "files": bag.rows, "loader": loader, "program": number, "engine": carries_engine, "argv": argv,
    }  # fmt: skip
    return Collected(carried, [Path(row["path"]) for row in bag.rows], bag.bytes, without)


def _check_unchanged(manifest: Mapping[str, Any]) -> None:
    for row in manifest.get("objects", ()):
        recorded = row.get("build_id", "")
        if recorded and host.build_id(row["path"]) != recorded:
            raise GdbrrError(f"{row['path']} is another file than when it was recorded", _CHANGED)
    paths = {row["path"] for row in manifest.get("objects", ())}
    for path, how in inputs.changed(manifest):
        if path in paths:
            raise GdbrrError(f"{path} is another file than when it was recorded: {how}", _CHANGED)


def _executed(manifest: Mapping[str, Any]) -> tuple[str, list[str]]:
    """(the file that the kernel loads, arguments as it leaves them): of a script, its interpreter."""
    path, argv = str(manifest["program"]), list(manifest["argv"])
    head = _head(path)
    if not head.startswith(b"#!"):
        return path, argv
    words = head[2:].split(b"\n")[0].strip(b" \t").split(None, 1)
    if not words or b"\n" not in head:
        raise GdbrrError(f"{path} names no interpreter", "pack a demo of a program or a script")
    interpreter = os.fsdecode(words[0])
    if _head(interpreter).startswith(b"#!"):
        raise GdbrrError(f"{path} is a script of a script", "pack a demo of a program")
    word = argv[0] if argv and "/" in argv[0] else path
    return interpreter, [interpreter, *(os.fsdecode(part.rstrip(b" \t")) for part in words[1:]), word, *argv[1:]]


def _head(path: str) -> bytes:
    """How the file that a demo names begins; it may be anything."""
    try:
        with regular(path) as file:
            return file.read(256)
    except OSError as error:
        raise GdbrrError(f"{path} cannot be read: {error.strerror}", _CHANGED) from None


def _loader_log(demo: Demo, trust: bool) -> list[tuple[str, str, str, str]]:
    """What the loader asks and is told before the engine starts."""
    with scratch.directory() as directory:
        log = directory / "loader"
        how = replay.start(demo, flags=lib.GR_SLOT_HOLD_END, stop_tick=0, trust=trust, loader_log=log)
        try:
            how.slot.wait((lib.GR_S_STANDING, lib.GR_S_ENDED), timeout=_LIMIT)
        finally:
            how.close()
        fields = [os.fsdecode(part) for part in log.read_bytes().split(b"\0")]
    return [(fields[at], fields[at + 1], fields[at + 2], fields[at + 3]) for at in range(0, len(fields) - 3, 4)]


def _answer(bag: _Bag, call: str, path: str, answer: str) -> str:
    """As the packed demo has it; empty where the kernel of each machine may answer by itself."""
    if answer != "+":
        return answer
    if path.startswith(("/proc/", "/sys/", "/dev/")) or not os.path.isabs(path):
        return ""
    if os.path.isdir(path):
        return "=/"
    kind = "data" if path.startswith("/etc/") else "object"
    number = bag.put(path, kind) if call in _OPENS or os.path.isfile(path) else -1
    return f"={number}" if number >= 0 else ""


def _from(cwd: str, path: str) -> str:
    """PATH as the program saw it where it was started: LD_LIBRARY_PATH and LD_PRELOAD may hold relative names."""
    return os.path.join(cwd, path) if path and not path.startswith("/") else path


def _debug_information(bag: _Bag) -> list[str]:
    """Put in what is installed beside the files; returns those that have none, neither inside nor beside."""
    without = []
    for row in list(bag.rows):
        build_id = row["build_id"]
        if not build_id or row["kind"] in ("engine", "data"):
            continue
        path = f"{_DEBUG}/{build_id[:2]}/{build_id[2:]}.debug"
        if os.path.isfile(path):
            bag.put(path, "debug")
        elif b".debug_info" not in _section_names(row["path"]):
            without.append(row["path"])
    return without


def _section_names(path: str) -> bytes:
    import struct

    with open(path, "rb") as file:
        head = file.read(64)
        if head[:5] != b"\x7fELF\x02":
            return b""
        start = struct.unpack_from("<Q", head, 40)[0]
        size, _, index = struct.unpack_from("<HHH", head, 58)
        file.seek(start + size * index)
        row = file.read(64)
        if len(row) < 40:
            return b""
        offset, length = struct.unpack_from("<QQ", row, 24)
        file.seek(offset)
        return file.read(min(length, 1 << 20))


def _hash(path: str) -> str:
    from hashlib import sha256

    seen = sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            seen.update(piece)
    return seen.hexdigest()
