"""The mappings of a process as a debugger shall see them: without the engine's; of large ones what was ever touched.

Runs in: the server. May call: abi, /proc of the process.
Owns: the temporary files that stand in for those of /proc.
"""

from __future__ import annotations

import os
import re
import tempfile

from gdbrr.abi import lib
from gdbrr.launch.carried import names

NAMES = (b"maps", b"smaps")
_HEAD = re.compile(rb"([0-9a-f]+)-([0-9a-f]+)( [rwxps-]{4} .*)")
_DATA = re.compile(rb" rw.*/libgdbrr\.so")
"""Variables of the engine; those that are 0 at first come right behind them, without a name."""
_LARGE = 1 << 20
"""Anonymous mappings from here on are looked at: heaps are reserved by the gigabyte, stacks by the megabyte."""
_PAGE = 4096
_CHUNK = 1 << 20
_FAR = 1 << 30
"""A mapping without a touched page over that length is taken to be at its end: heaps grow from their start."""
_PRESENT = bytes([0] * 0x40 + [1] * 0xC0)
"""Of the highest byte of a page's entry in pagemap: whether it is in memory, or swapped out."""
_RUN = re.compile(rb"\x01+(?:\x00{1,64}\x01+)*")
"""Touched pages, with small gaps."""


def written(pid: int, name: bytes) -> str:
    """A file that says what /proc/PID/NAME shall say. Whoever asked opens it, and it is removed behind that."""
    with open(f"/proc/{pid}/{name.decode()}", "rb") as file:
        text = shown(pid, file.read(), name == b"smaps")
    handle, path = tempfile.mkstemp(prefix="gdbrr-maps-")
    with open(handle, "wb") as out:
        out.write(text)
    return path


def shown(pid: int, text: bytes, touched: bool) -> bytes:
    """TEXT of maps or smaps without the engine's mappings. With TOUCHED, as for a core dump, large ones are cut into
    the pieces that were, and of the engine's library there is its code, which is in its file."""
    brought = names.of(pid)
    text = brought.recorded_in(text) if brought else text
    out: list[bytes] = []
    ranges: list[tuple[int, int]] = []
    tail = b""
    body: list[bytes] = []
    data_end = 0

    def finish() -> None:
        for start, end in ranges:
            out.append(b"%x-%x%b\n" % (start, end, tail))
            out.extend(body)

    for line in text.splitlines(keepends=True):
        head = _HEAD.match(line)
        if not head:
            body.append(line)
            continue
        finish()
        start, end, tail, body = int(head[1], 16), int(head[2], 16), head[3], []
        own = touched and (_DATA.fullmatch(tail) or (start == data_end and tail.split()[3:] == [b"0"]))
        data_end = end if own else data_end
        if own or lib.GR_ZONE <= start < lib.GR_ZONE_END:
            ranges = []
        elif touched and end - start >= _LARGE and line.split()[4] == b"0" and not line.rstrip().endswith(b"]"):
            ranges = used(pid, start, end)
        else:
            ranges = [(start, end)]
    finish()
    return b"".join(out)


def used(pid: int, start: int, end: int) -> list[tuple[int, int]]:
    """What was ever touched of a mapping."""
    found: list[tuple[int, int]] = []
    at, last = start, start
    with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as file:
        while at < end and at - last < _FAR:
            entries = os.pread(file.fileno(), min(_CHUNK, (end - at) // _PAGE * 8), at // _PAGE * 8)
            if not entries:
                return [(start, end)]
            for run in _RUN.finditer(entries[7::8].translate(_PRESENT)):
                last = at + run.end() * _PAGE
                found.append((at + run.start() * _PAGE, last))
            at += len(entries) // 8 * _PAGE
    return found
