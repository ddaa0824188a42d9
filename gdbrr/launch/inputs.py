"""What of a run is not in its demo: files that were read, and which of them are others now; children; what nobody saw.

Runs in: commands outside GDB and the server. May call: errors, abi; the file system, never opening what a demo names.
Owns: the manifest's `inputs`, `notices`, `unknown` and `children`.
"""

from __future__ import annotations

import os

from gdbrr import abi
from gdbrr.abi import lib
from gdbrr.quick.rows import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_MADE_UP = ("/proc/", "/sys/", "/dev/")
"""What the kernel makes up at each reading has no size or time of its own."""


_DIGITS = 20
"""What 63 bits need, and one."""


_MANY = 1 << 34
"""Children that no recording has."""


_INT = 1 << 31


def noted(page: abi.Ctl) -> dict[str, Any]:
    """What the engine noted, for the manifest: the newest note of each file, sentences for the user, children."""
    used = min(int(page.c.inputs_used), lib.GR_INPUTS)
    found: dict[str, dict[str, Any]] = {}
    notices: list[str] = []
    unknown: list[int] = []
    written: dict[str, dict[str, Any]] = {}
    children = 0
    for text in bytes(abi.ffi.buffer(page.c.inputs, used)).split(b"\0"):
        first, _, rest = text.partition(b" ")
        mtime, _, name = rest.partition(b" ")
        path = name.decode("utf-8", "surrogateescape")
        if first == b"!":
            notices.append(rest.decode("utf-8", "surrogateescape"))
        elif first == b"?" and _is_number(rest.removeprefix(b"-")) and -_INT <= int(rest) < _INT:
            unknown.append(int(rest))
        elif first == b"&" and _is_number(rest) and int(rest) < _MANY:
            children = int(rest)
        elif first == b"~":
            number, _, name = name.partition(b" ")
            path = name.decode("utf-8", "surrogateescape")
            known = _is_number(mtime) and int(mtime) < lib.GR_MOST_THREADS and _is_number(number)
            if known and path not in written and not path.startswith(_MADE_UP):
                written[path] = {"path": path, "thread": int(mtime), "operation": int(number)}
        elif _is_number(first) and _is_number(mtime) and path and not path.startswith(_MADE_UP):
            found[path] = {"path": path, "size": int(first), "mtime": int(mtime)}
    return {
        "inputs": list(found.values()),
        "written": list(written.values()),
        "notices": list(dict.fromkeys(notices)),
        "unknown": unknown[:64],
        "children": children,
    }


def _is_number(raw: bytes) -> bool:
    """Of a note that the engine wrote whole. A page that was left behind by a killed recorder may hold anything."""
    return raw.isdigit() and len(raw) < _DIGITS


def changed(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(path, how it differs) of each input that is not as it was."""
    rows = [(row["path"], row["size"], row["mtime"]) for row in manifest.get("inputs", ())]
    # A program or library with a build-id is compared by that.
    for row in manifest.get("objects", ()) if "carried" not in manifest else ():
        if not row.get("build_id") and "size" in row and "mtime" in row:
            rows.append((row["path"], row["size"], row["mtime"]))
    return [(path, how) for path, size, mtime in rows if (how := _difference(path, size, mtime))]


def _difference(path: str, size: int, mtime: int) -> str:
    try:
        st = os.stat(path)
    except (OSError, ValueError):
        return "it is gone"
    if st.st_size != size:
        return f"it had {size:,} bytes and has {st.st_size:,}"
    if st.st_mtime_ns != mtime:
        return "it was written to"
    return ""


def own(manifest: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Files and directories that the program changed itself: (thread, number of its operation) that did so first."""
    return {row["path"]: (row["thread"], row["operation"]) for row in manifest.get("written", ())}


def sentences(manifest: Mapping[str, Any], most: int = 5) -> list[str]:
    """For people: one for each input that changed."""
    found, writes = changed(manifest), own(manifest)
    lines = [
        f"{path!r} changed since the recording began, which reads it: the program itself wrote to it afterwards"
        if path in writes
        else f"{path!r} changed since the recording, which reads it: {how}"
        for path, how in found[:most]
    ]
    more = len(found) - most
    return lines + ([f"{more} more files that the recording reads changed"] if more > 0 else [])


def absent(manifest: Mapping[str, Any]) -> str:
    """What a replay does not show because it happened in other processes; empty where there were none."""
    children = manifest.get("children", 0)
    if not children:
        return ""
    who, are = ("1 child of the program", "is") if children == 1 else (f"{children:,} children of the program", "are")
    return f"{who} ran for real while recording and {are} not in the demo: what was printed there is not shown"
