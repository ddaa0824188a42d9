"""The engine's length decoder against objdump: equal lengths for every instruction of real libraries."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import ROOT

CC = os.environ.get("CC", "gcc")
SECTION = re.compile(r"^\s*\d+ (\S+)\s+[0-9a-f]+\s+([0-9a-f]+)\s+[0-9a-f]+\s+([0-9a-f]+)")
# objdump prints a prefix that means nothing where it stands as an instruction of its own.
LONE_PREFIX = re.compile(r"^((rex(\.\w+)?|data16|addr32|rep[nz]*|lock|[cdefgs]s|bnd|notrack|xacquire|xrelease) ?)+$")
# Constants between functions, read as code: 16-bit jumps, on which processors differ, and prefixes or fwait in places
# where objdump counts them otherwise than a processor. No compiler makes them.
NOT_CODE = re.compile(r"^(66 e[89]|4. 66|4. 9b|9b 4)")
FILES = {
    "libc": "/lib/x86_64-linux-gnu/libc.so.6",
    "ld.so": "/lib64/ld-linux-x86-64.so.2",
    "libm": "/lib/x86_64-linux-gnu/libm.so.6",
    "libstdc++": "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
    "libcrypto": "/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
}


def tool(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    return done.stdout


def instructions(file: str) -> Iterator[tuple[int, int]]:
    """(offset in the file, length) of everything that objdump takes for an instruction."""
    shift = {}
    for line in tool("objdump", "-h", file).splitlines():
        if row := SECTION.match(line):
            shift[row[1]] = int(row[3], 16) - int(row[2], 16)
    offset, start, length, was_prefix = 0, 0, 0, False
    for line in tool("objdump", "-d", "-w", "-z", file).splitlines():
        if line.startswith("Disassembly of section "):
            offset = shift[line.split()[-1].rstrip(":")]
        words = line.split("\t")
        if len(words) < 2 or not words[0].endswith(":"):
            length = 0
            continue
        if not length:
            start = int(words[0].rstrip(":"), 16)
        length += len(words[1].split())
        text = words[2].strip() if len(words) > 2 else ""
        if LONE_PREFIX.match(text):
            was_prefix = words[1].startswith("4")
            continue
        # fwait belongs to what follows for objdump, not for the processor.
        fwait = words[1].startswith("9b ") and len(words[1].split()) > 1
        if "(bad)" not in text and ".byte" not in text and not (was_prefix or NOT_CODE.match(words[1])):
            if fwait:
                yield start + offset, 1
            yield start + offset + fwait, length - fwait
        was_prefix = False
        length = 0


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("decode") / "decode"
    sources = ["tests/native/decode_test.c", "preload/patch/decode.c"]
    words = [CC, "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-Ipreload", *sources, "-o", str(out)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    return out


def differences(program: Path, file: str, lines: str) -> tuple[list[str], int]:
    done = subprocess.run([program, file], input=lines, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    *found, last = done.stdout.splitlines()
    return found, int(last.split()[0])


@pytest.mark.parametrize("name", FILES)
def test_every_length_is_objdumps(program: Path, name: str) -> None:
    file = FILES[name]
    if not Path(file).exists():
        assert name not in ("libc", "ld.so")
        return
    lines = "\n".join(f"{start} {length}" for start, length in instructions(file))
    found, count = differences(program, file, lines)
    assert found == []
    assert count > 10_000


def test_wrong_length_is_seen(program: Path, tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.write_bytes(bytes.fromhex("0f05 b83c000000 c3"))
    assert differences(program, str(code), "0 2\n2 5\n7 1\n") == ([], 3)
    assert differences(program, str(code), "0 3\n2 5\n7 1\n")[0] == ["0: 2, not 3: 0f 05 b8"]
