"""Looking at a place below the stack does not make the stack grow, as it does under a debugger alone."""

from __future__ import annotations

import re

import pytest

from harness import programs

from .session import whole

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")
LOOK = (
    r"python import re; print('STACK', [line.split()[0] for pid in re.findall(r'^(?:leaf|process): +(\d+)',"
    r" gdb.execute('info gdbrr', to_string=True), re.MULTILINE)"
    r" for line in open(f'/proc/{pid}/maps') if '[stack]' in line])"
)
READS = (
    "python gdb.selected_inferior().read_memory(int(gdb.parse_and_eval('$sp')) - 0x80000, 0x40000)",
    "python gdb.selected_inferior().read_memory(int(gdb.parse_and_eval('$sp')) & -4096, 64)",
    "output *(long *) ($sp - 0x40000)",
)


@pytest.mark.parametrize("read", READS)
def test_a_read_leaves_the_stack_as_it_is(read: str) -> None:
    """In the process that is recorded, and in its past; whether there is something to be read, or not."""
    tried = f"python\ntry: gdb.execute({read!r})\nexcept gdb.error as error: print(error)"
    script = [line for way in ("echo LIVE\\n", "reverse-stepi") for line in (way, LOOK, tried, LOOK)]
    out = whole(programs.build("spine"), "break puts_total", "rr-start", *script)
    seen = re.findall(r"^STACK (.*)$", out, re.MULTILINE)
    assert len(seen) == 4 and seen[0] == seen[1] and seen[2] == seen[3] and "-" in seen[0] and "-" in seen[2], out
