"""Files of this machine as GDB asks for them; what it takes for the process's own is the leaf's.

Runs in: the server. May call: gdbrr.rsp.process.threads.
Owns: nothing.
"""

from __future__ import annotations

import re

from gdbrr.rsp.packet import to_hex
from gdbrr.rsp.process.threads import Attached
from gdbrr.rsp.request import HostFile


def for_gdbserver(request: HostFile, current: Attached | None, virtual_pid: int) -> bytes | None:
    """What to ask a gdbserver for REQUEST; None for what would change a file."""
    if request.operation == b"setfs":
        return b"vFile:setfs:0"
    if request.operation == b"open" and current is not None:
        path, comma, rest = request.arguments.partition(b",")
        name = bytes.fromhex(path.decode("ascii", "replace"))
        return b"vFile:open:" + to_hex(_proc_path(current, virtual_pid, name)) + comma + rest
    return None if request.operation in (b"pwrite", b"unlink") else request.payload


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
