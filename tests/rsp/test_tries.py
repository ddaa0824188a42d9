"""The engine's instructions that may fault in the program's memory are known to the server by their bytes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gdbrr.launch import engine
from gdbrr.rsp.process.threads import TRIES
from harness.run import run

COPY = Path(__file__).resolve().parents[2] / "preload" / "core" / "copy.c"
RECOVERED = re.findall(r"\*rip == \(greg_t\)(\w+)", COPY.read_text(encoding="utf-8"))
LOADED = re.compile(r"^ +LOAD +0x(\w+) 0x(\w+) 0x\w+ 0x(\w+)", re.MULTILINE)


@pytest.mark.parametrize("name", RECOVERED)
def test_what_the_handler_recovers_from_is_no_fault_for_gdb(name: str) -> None:
    library = engine.find().library
    place = next(int(row.split()[0], 16) for row in run("nm", library).out.splitlines() if row.split()[-1] == name)
    parts = [[int(number, 16) for number in row] for row in LOADED.findall(run("readelf", "-lW", library).out)]
    at = next(place - start + offset for offset, start, size in parts if start <= place < start + size)
    text = library.read_bytes()
    assert any(text[at - before :].startswith(code) for code, before in TRIES)
    assert "gr_copy_load" in RECOVERED
