"""What GDB sees on its way forwards, against what it sees on its way back. Sourced by GDB.

Runs in: GDB's Python, with gdbrr's commands. May call: gdb.
Owns: nothing.
"""

from __future__ import annotations

import os
import random
import re

import gdb

# At the call of an operation, rax, rcx, r10 and r11 are what the engine found at its entry.
REGISTERS = "rbx rdx rsi rdi rbp rsp r8 r9 r12 r13 r14 r15 rip".split()
ENDS = ("No more reverse-execution history", "Reached end of recorded history")


def state():
    """Where one is: thread, registers, stack, and what the program computes."""
    frame = gdb.newest_frame()
    registers = tuple(int(frame.read_register(name)) for name in REGISTERS)
    pcs, each = [], frame
    while each is not None and len(pcs) < 12:
        if each.type() != gdb.INLINE_FRAME:  # whether one is in such a frame already is GDB's own idea
            pcs.append(each.pc())
        each = each.older()
    return gdb.selected_thread().ptid[1], registers, tuple(pcs), int(gdb.parse_and_eval(VALUE))


def in_linkage_table(pc):
    """By its code, because a stripped program has no name for it: endbr64, or nothing; jmp *ADDRESS(%rip)."""
    code = bytes(gdb.selected_inferior().read_memory(pc, 16)).removeprefix(b"\xf3\x0f\x1e\xfa").removeprefix(b"\xf2")
    return code.startswith(b"\xff\x25")


def do(command):
    """Whether COMMAND came to an ordinary stop, and not to an end of time."""
    stops = []
    gdb.events.stop.connect(stops.append)
    said = ""
    try:
        said = gdb.execute(command, to_string=True)
    finally:
        gdb.events.stop.disconnect(stops.append)
    if not stops or not gdb.selected_thread():
        raise gdb.GdbError(f"ORACLE: {command} did not stop: {said}")
    return stops[-1]


def moment():
    found = re.search(r"^tick (\S+) of", gdb.execute("rr-when", to_string=True), re.MULTILINE)
    if not found:
        raise gdb.GdbError("ORACLE: no moment")
    return found[1]


def tick():
    return moment().partition(":")[0]


def at_end(stop):
    return not isinstance(stop, (gdb.BreakpointEvent,)) and type(stop) is gdb.StopEvent


def same(what, forwards, backwards):
    if forwards != backwards:
        for place in range(min(len(forwards), len(backwards))):
            if forwards[place] != backwards[place]:
                raise gdb.GdbError(f"ORACLE: {what}: stop {place}:\n {forwards[place]}\n {backwards[place]}")
        raise gdb.GdbError(f"ORACLE: {what}: {len(forwards)} stops forwards, {len(backwards)} backwards")
    print(f"ORACLE: {what}: {len(forwards)} stops are the same")


def breakpoints(most):
    """To every execution of `here` forwards, and back again."""
    gdb.execute("rr-goto start", to_string=True)
    there = gdb.Breakpoint(HERE)
    forwards, moments = [], []
    while len(forwards) < most:
        stop = do("continue")
        if not isinstance(stop, gdb.BreakpointEvent):
            break
        forwards.append(state())
        moments.append(moment())
    if len(forwards) == most:
        do("continue")
    backwards = []
    while len(backwards) <= len(forwards):
        stop = do("reverse-continue")
        if not isinstance(stop, gdb.BreakpointEvent):
            break
        backwards.append(state())
    there.delete()
    if len(forwards) == most and len(backwards) > most:
        backwards = backwards[-most:]
    same("breakpoint", forwards, backwards[::-1][: len(forwards)])
    return moments, forwards


def watchpoints(most):
    """Every change of `value`: the value before one is the value behind the one before."""
    gdb.execute("rr-goto start", to_string=True)
    watch = gdb.Breakpoint(f"*(long *) {ADDRESS}", gdb.BP_WATCHPOINT)
    forwards = []
    while len(forwards) < most:
        before = int(gdb.parse_and_eval(VALUE))
        stop = do("continue")
        if not isinstance(stop, gdb.BreakpointEvent):
            break
        forwards.append((gdb.selected_thread().ptid[1], before, int(gdb.parse_and_eval(VALUE))))
    backwards = []
    while len(backwards) < len(forwards):
        behind = int(gdb.parse_and_eval(VALUE))
        stop = do("reverse-continue")
        if not isinstance(stop, gdb.BreakpointEvent):
            break
        backwards.append((gdb.selected_thread().ptid[1], int(gdb.parse_and_eval(VALUE)), behind))
    watch.delete()
    same("watchpoint", forwards, backwards[::-1])


def on_the_way_back(forwards):
    """
    FORWARDS, states and their ticks, without what is no step back: an operation is one, and with it the way to it
    through the linkage table. Of a table's other entries, and of the last one seen, every step is one.
    """
    behind = [tick for _, tick in forwards[1:]] + [forwards[-1][1]]
    kept, leads = [], False
    for (one, at), after in reversed(list(zip(forwards, behind, strict=True))):
        leads = in_linkage_table(one[1][-1]) and (at != after or leads)
        if not leads:
            kept.append(one)
    return kept[::-1]


def steps(where, most, forward="stepi", back="reverse-stepi"):
    """From a moment on by single steps, and back again."""
    gdb.execute(f"rr-goto {where}", to_string=True)
    forwards = [(state(), tick())]
    for _ in range(most):
        if "end" in str(do(forward)) or state() == forwards[-1][0]:
            break
        forwards.append((state(), tick()))
    expected = on_the_way_back(forwards)
    backwards = [state()]
    for _ in range(len(expected) - 1):
        do(back)
        backwards.append(state())
    same(f"{forward} from {where}", expected, backwards[::-1])


def wander(seed, most):
    """MOST random commands; every moment that comes again has to look as it did."""
    chance = random.Random(seed)
    known = {}
    there = gdb.Breakpoint(HERE)
    commands = ["stepi", "reverse-stepi", "step", "reverse-step", "next", "reverse-next", "continue"]
    commands += ["reverse-continue", "finish", "reverse-finish", "rr-back", "goto"]
    for count in range(most):
        command = chance.choice(commands)
        if command == "goto":
            command = f"rr-goto {chance.choice(sorted(known))}" if known else "rr-goto 50%"
        try:
            gdb.execute(command, to_string=True)
        except gdb.error as error:
            # What GDB itself refuses at a place is no difference: no outer frame, no line.
            if not re.search(r"outermost|bounds of current function|not meaningful|Cannot find", str(error)):
                raise
        where = moment()
        now = state()
        if known.setdefault(where, now) != now:
            raise gdb.GdbError(f"ORACLE: {where} differs behind {command} ({count}):\n {known[where]}\n {now}")
    there.delete()
    print(f"ORACLE: wandered {most} steps over {len(known)} moments")


HERE = os.environ["ORACLE_HERE"]
ADDRESS = os.environ["ORACLE_VALUE"]
VALUE = f"*(long *) {ADDRESS}"
