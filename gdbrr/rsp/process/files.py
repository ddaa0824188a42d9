"""Files of this machine as GDB asks for them; what it takes for the process's own is the leaf's.

Runs in: the server. May call: gdbrr.rsp.process.threads.
Owns: nothing.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile

from gdbrr.launch.carried import names
from gdbrr.rsp.packet import to_hex
from gdbrr.rsp.process import maps
from gdbrr.rsp.process.threads import Attached
from gdbrr.rsp.request import HostFile
from gdbrr.rsp.upstream import Pool, Upstream

_STAND_IN = os.fsencode(os.path.join(tempfile.gettempdir(), "gdbrr-maps-"))


def answer(request: HostFile, current: Attached | None, virtual_pid: int, pool: Pool) -> bytes:
    payload = for_gdbserver(request, current, virtual_pid)
    if payload is None:
        return b"F-1,1e"  # EROFS
    try:
        return pool.files().request(payload)
    finally:
        forget(request, payload)


def for_gdbserver(request: HostFile, current: Attached | None, virtual_pid: int) -> bytes | None:
    """What to ask a gdbserver for REQUEST; None for what would change a file."""
    if request.operation == b"setfs":
        return b"vFile:setfs:0"
    if request.operation == b"open" and current is not None:
        path, comma, rest = request.arguments.partition(b",")
        name = _proc_path(current, virtual_pid, bytes.fromhex(path.decode("ascii", "replace")))
        return b"vFile:open:" + to_hex(_carried(current, _stand_in(current, name))) + comma + rest
    if request.operation in (b"readlink", b"stat", b"lstat") and current is not None:
        name = bytes.fromhex(request.arguments.decode("ascii", "replace"))
        asked = _carried(current, _proc_path(current, virtual_pid, name))
        return b"vFile:" + request.operation + b":" + to_hex(asked)
    return None if request.operation in (b"pwrite", b"unlink") else request.payload


def _carried(current: Attached, name: bytes) -> bytes:
    """Of a packed demo the files that it brings along, and of this machine's own at most debug information, which GDB
    compares by build-id: a library of the same name is another one here."""
    brought = names.of(current.pid)
    if brought is None or name.startswith((b"/proc/", _STAND_IN)):
        return name
    here = brought.here(name)
    return name if name.startswith(b"/usr/lib/debug/") and not os.path.exists(here) else here


def libraries(upstream: Upstream, annex: bytes) -> bytes:
    """What the loader has loaded. The engine's name without the slashes that make it one length in every folder."""
    return re.sub(rb'(?<=name=")/+', b"/", upstream.transfer("libraries-svr4", annex))


def program(pid: int) -> bytes:
    """The file that a process executes, as the recording has it."""
    brought = names.of(pid)
    return brought.program if brought else os.fsencode(os.readlink(f"/proc/{pid}/exe"))


def forget(request: HostFile, asked: bytes | None) -> None:
    """Behind the answer: what stood in for a file of /proc is open now, or never will be."""
    if request.operation == b"open" and asked is not None:
        name = bytes.fromhex(asked.split(b":")[2].partition(b",")[0].decode("ascii"))
        if name.startswith(_STAND_IN) and name != bytes.fromhex(request.arguments.partition(b",")[0].decode("ascii")):
            with contextlib.suppress(OSError):
                os.unlink(name)


def _stand_in(current: Attached, name: bytes) -> bytes:
    """The mappings are shown without those of the engine: the log alone would be gigabytes of a core file."""
    match = re.fullmatch(rb"/proc/(\d+)(?:/task/\d+)?/(\w+)", name)
    if not match or int(match[1]) != current.pid or match[2] not in maps.NAMES:
        return name
    return os.fsencode(maps.written(current.pid, match[2]))


def _proc_path(current: Attached, virtual_pid: int, name: bytes) -> bytes:
    """/proc/PID/... and /proc/PID/task/TID/... with the kernel's ids."""
    match = re.fullmatch(rb"/proc/(\d+)((?:/task/(\d+))?)(/.*)?", name)
    if not match or int(match[1]) != virtual_pid:
        return name
    task = b""
    if match[3]:
        try:
            task = b"/task/%d" % current.real(int(match[3]))
        except KeyError:
            task = match[2]
    return b"/proc/%d%b%b" % (current.pid, task, match[4] or b"")
