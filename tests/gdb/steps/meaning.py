"""A random walk in time, the same in each of GDB's ways to go back. Sourced by GDB.

Runs in: GDB's Python, with gdbrr's commands or without. May call: gdb.
Owns: nothing.
"""

from __future__ import annotations

import json
import os
import random

import gdb

PLACES = os.environ["MEANING_PLACES"].split()
"""Functions and lines of the program."""
VALUES = "first", "second", "row[2]", "nodes[1].sum"
CONDITIONS = "", " if first > 2", " if second % 2 == 1", " if row[2] != 3", " if nodes[1].sum == 99"
WAYS = {
    "record full": ("tbreak *prog", "run", "record full", "set can-use-hw-watchpoints 0", "tbreak beyond", "continue"),
    "rr-replay": (f"rr-replay {os.environ['MEANING_DEMO']}",),
    "rr-start": ("tbreak beyond", "rr-start"),
}
"""How to come behind `done`. In its own recording GDB (13.1) misses changes that it does not step for."""
BACK = "reverse-step", "reverse-next", "reverse-stepi", "reverse-nexti", "reverse-finish", *["reverse-continue"] * 4
FORTH = "step", "next", "stepi", "nexti", "finish", "until", *["continue"] * 2


def frames():
    found, each = [], gdb.newest_frame()
    while each is not None:
        found.append(each)
        each = each.older()
    return found


def points():
    return sorted((each for each in gdb.breakpoints() if each.number > 0), key=lambda each: each.number)


def do(command):
    try:
        return gdb.execute(command, to_string=True)
    except gdb.error as error:
        return str(error)


def command(chance, others, at_end):
    """The next one, with the breakpoint of OTHERS that it is about."""
    line = gdb.newest_frame().find_sal().line
    place, count = chance.choice([*PLACES, *[str(line + 1)] * 9]), chance.choice(["", "", "", " 2", " 5"])
    kind = chance.randrange(10 if others else 8)
    if kind < 4 or (kind < 6 and at_end):
        step = chance.choice(BACK)
        return step + (count if step.endswith(("step", "next", "i")) else ""), None
    if kind < 6:
        step = chance.choice([*FORTH, f"until {place}", f"advance {place}"])
        return step + (count if step.endswith(("step", "next", "i")) else ""), None
    if kind < 7:
        return chance.choice(["break ", "tbreak "]) + place + chance.choice(CONDITIONS), None
    if kind < 8:
        return "watch " + chance.choice(["", "-l "]) + chance.choice(VALUES), None
    changes = ["delete #"] if len(others) > 4 else ["delete #", "ignore # 2", "enable once #", "disable #", "enable #"]
    return chance.choice(changes), chance.choice(others)


def state(offset):
    at = [(each.name(), each.find_sal().line, each.type() == gdb.INLINE_FRAME) for each in frames()]
    held = [(each.number - offset, each.location or each.expression, each.enabled, each.hit_count) for each in points()]
    return [gdb.newest_frame().pc(), at, [str(gdb.parse_and_eval(each)) for each in VALUES], held]


def walk(way, seed, most):
    chance = random.Random(seed)
    for each in WAYS[way]:
        do(each)
    end = gdb.Breakpoint("done")
    do("reverse-continue")
    begin = int(gdb.parse_and_eval("(long) &prog"))
    for _ in range(most):
        others = [each.number for each in points() if each.number != end.number]
        asked, about = command(chance, others, gdb.newest_frame().name() == "done")
        do(asked.replace("#", str(about)))
        # A recording of GDB's begins there, others before that.
        if gdb.newest_frame().pc() == begin or "prog" not in [each.name() for each in frames()]:
            now = "EDGE"
            for number in others:
                do(f"delete {number}")
            do("continue")
        else:
            now = state(end.number)
        print("MEANING", json.dumps([asked.replace("#", f"#{about and about - end.number}"), now]))
    print("MEANING end")
