"""All stops at system calls, forwards or backwards, one line each. Sourced by GDB.

Runs in: GDB's Python, with gdbrr's commands. May call: gdb.
Owns: nothing.
"""

from __future__ import annotations

import re

import gdb


def caught(command):
    """Until COMMAND moves no more: where that is, by moment, thread and result. What it is GDB has said before."""
    before = ""
    while True:
        gdb.execute(command)
        when = re.search(r"^tick (\S+) of", gdb.execute("rr-when", to_string=True), re.MULTILINE)[1]
        if when == before:
            return
        print("AT", command, when, gdb.selected_thread().ptid[1], int(gdb.parse_and_eval("$rax")), flush=True)
        before = when
