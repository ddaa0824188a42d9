"""Stacks at exchanges between heaps: as they are shown, and as GDB unwinds them through the engine. Sourced by GDB.

Runs in: GDB's Python, with gdbrr's commands. May call: gdb.
Owns: nothing.
"""

from __future__ import annotations

import gdb

KEPT = "rbx rbp rsp r12 r13 r14 r15".split()


def frames():
    """Function, and registers that a called function gives back, of each frame outside of the engine."""
    found, each = [], gdb.newest_frame()
    inside = False
    while each is not None:
        if "libgdbrr" in (gdb.solib_name(each.pc()) or ""):
            inside = True
        elif each.type() != gdb.INLINE_FRAME:
            found.append((each.name(), [int(each.read_register(name)) for name in KEPT]))
        each = each.older()
    return found, inside


def compare(ticks):
    for tick in ticks:
        gdb.execute(f"rr-goto {tick}", to_string=True)
        shown, inside = frames()
        gdb.execute("set gdbrr engine-frames on", to_string=True)
        real, _ = frames()
        gdb.execute("set gdbrr engine-frames off", to_string=True)
        same = shown == real and len(shown) > 1
        creates = any(name and "pthread_create" in name for name, _ in shown)  # these have a frame of the engine's
        print("STACK", tick, same, "engine" if inside and not creates else "program", flush=True)
