"""How the threads and the code of one process are known to GDB.

Runs in: the server. May call: gdbrr.timeline.model, /proc of the process.
Owns: the ids that GDB sees.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence, Set

from gdbrr.rsp.reverse import SOFTWARE, Held
from gdbrr.rsp.stop import SIGNAL_SEGV, SIGNAL_SYS
from gdbrr.timeline.library import Library
from gdbrr.timeline.model import ThreadView

SYSCALL = b"\x0f\x05"
DOORS = (SIGNAL_SYS, SIGNAL_SEGV)
"""How a thread comes to the engine: by a system call; by a lock inside the C library; by reading the counter, where the
class tsc is recorded."""
_COUNTER = re.compile(rb"[\x26\x2e\x36\x3e\x64-\x67\xf2\xf3\x40-\x4f]*\x0f(?:\x31|\x01\xf9)")
_LONGEST_INSTRUCTION = 15

EXITS = (60, 231)
"""The calls by which a thread, or all of them, end."""
_SIGRETURN, _RIP_OF_FRAME = 15, 168
"""The call that leaves a handler, and where in its frame it says where to."""

_LAST_ID = 1 << 30
"""The greatest id that is taken from a demo: Linux gives none above 2^22, and GDB has 31 bits."""


ID_SIZE = 4
"""Bytes of one in memory."""


class NoThread(KeyError):
    """A thread that is not in the process at this moment."""


def ids_of(views: Sequence[ThreadView]) -> dict[int, int]:
    """The ids GDB sees, by kernel id: those of the recording, where they are ids.

    INVARIANT(ids-are-ids): a demo is not trusted, and GDB 13.1 aborts on a thread 0 or -1 and on two of one id. What
    is none, or another's already, is replaced by a number made of the thread's index alone, so that it never changes.
    """
    ids: dict[int, int] = {}
    taken: set[int] = set()
    for view in sorted(views, key=lambda view: view.index):
        wanted = view.recorded_tid
        if not 0 < wanted <= _LAST_ID or wanted in taken:
            wanted = _LAST_ID + 1 + view.index
        taken.add(wanted)
        ids[view.tid] = wanted
    return ids


def mapped(pid: int, wanted: Callable[[str, str], bool]) -> list[tuple[int, int]]:
    """Where memory is mapped that is WANTED for what is allowed there and the name of its file."""
    ranges = []
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            fields = line.rstrip("\n").split(None, 5)
            if wanted(fields[1], fields[5] if len(fields) == 6 else ""):
                start, end = fields[0].split("-")
                ranges.append((int(start, 16), int(end, 16)))
    return ranges


def gap_below_stack(pid: int) -> tuple[int, int]:
    """What is not mapped between the first thread's stack and what lies below it; empty where no such stack is."""
    end = 0
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            start, _, rest = line.partition("-")
            if line.rstrip("\n").endswith("[stack]"):
                return end, int(start, 16)
            end = int(rest.partition(" ")[0], 16)
    return 0, 0


def in_data(pid: int, fresh: Set[Held]) -> set[Held]:
    """Those of FRESH that would be an int3 in memory which nobody can execute.

    INVARIANT(data-stays-data): it would only change what the program reads there. GDB asks for some where it takes a
    word of the stack for a return address.
    """
    software = {held for held in fresh if held[0] == SOFTWARE}
    if not software:
        return software
    data = mapped(pid, lambda allowed, path: "x" not in allowed)
    return {held for held in software if any(start <= held[1] < end for start, end in data)}


def beyond_door(signal: int, pc: int, library: Library, code: Callable[[int], bytes]) -> int | None:
    """How far behind PC a thread goes on that comes to the engine by SIGNAL; None if the signal is the program's.

    SIGSYS comes behind the `syscall`, the faults in front of their instructions. CODE gives that many bytes there, or
    nothing where not so many can be read.
    """
    if signal == SIGNAL_SYS:
        return 0
    found = next((found for size in (_LONGEST_INSTRUCTION, 3, 2) if (found := code(size))), b"")
    counter = _COUNTER.match(found)
    return counter.end() if counter else library.beyond(pc, found)


def behind_call(regs: dict[str, int], memory: Callable[[int, int], bytes]) -> int:
    """Where a thread with these registers goes on behind the `syscall` that it stands at."""
    if regs["rax"] == _SIGRETURN:
        return int.from_bytes(memory(regs["rsp"] + _RIP_OF_FRAME, 8), "little")
    return regs["rip"] + 2


def place_of_id(tid: int, descriptor: bytes) -> int | None:
    """Where in the C library's DESCRIPTOR of a thread its kernel id stands.

    INVARIANT(id-is-no-pointer): only words at multiples of 8 are looked at, because the upper half of a pointer
    (0x7fff, 0x5555) is an id, too.
    """
    wanted = tid.to_bytes(ID_SIZE, "little")
    return next((at for at in range(0, len(descriptor), 8) if descriptor[at : at + ID_SIZE] == wanted), None)
