"""The files that a program read while it was recorded and that are not in the demo, and which of them are others now.

Runs in: commands outside GDB and the server. May call: errors, abi; the file system, never opening what a demo names.
Owns: the manifest's `inputs`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from gdbrr import abi
from gdbrr.abi import lib

_MADE_UP = ("/proc/", "/sys/", "/dev/")
"""What the kernel makes up at each reading has no size or time of its own."""


def noted(page: abi.Ctl) -> list[dict[str, Any]]:
    """What the engine noted, for the manifest: the newest note of each file."""
    used = min(int(page.c.inputs_used), lib.GR_INPUTS)
    found: dict[str, dict[str, Any]] = {}
    for text in bytes(abi.ffi.buffer(page.c.inputs, used)).split(b"\0"):
        size, _, rest = text.partition(b" ")
        mtime, _, name = rest.partition(b" ")
        path = name.decode("utf-8", "surrogateescape")
        if size.isdigit() and mtime.isdigit() and path and not path.startswith(_MADE_UP):
            found[path] = {"path": path, "size": int(size), "mtime": int(mtime)}
    return list(found.values())


def changed(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(path, how it differs) of each input that is not as it was."""
    rows = [(row["path"], row["size"], row["mtime"]) for row in manifest.get("inputs", ())]
    # A program or library with a build-id is compared by that.
    for row in manifest.get("objects", ()):
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


def sentences(manifest: Mapping[str, Any], most: int = 5) -> list[str]:
    """For people: one for each input that changed."""
    found = changed(manifest)
    lines = [f"{path!r} changed since the recording, which reads it: {how}" for path, how in found[:most]]
    more = len(found) - most
    return lines + ([f"{more} more files that the recording reads changed"] if more > 0 else [])
