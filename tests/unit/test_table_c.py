"""The C side of the tables: compiled as the engine compiles it, sizes proven, and equal to what Python reads."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from gdbrr.config import tables
from harness import ROOT

CC = os.environ.get("CC", "gcc")
STRICT = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-Ipreload"]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)


def compile_program(source: str, out: Path, table: Path | str = "preload/syscall/table.c") -> None:
    done = run(CC, *STRICT, source, str(table), "-o", str(out))
    assert done.returncode == 0, done.stderr


def enum_values(header: str, prefix: str) -> dict[str, int]:
    """The enum whose names begin with PREFIX, by name without it."""
    names = re.findall(rf"\b{prefix}(\w+)\b", re.search(rf"{{\s*({prefix}[^}}]*)}}", header)[1])  # type: ignore[index]
    return {name: number for number, name in enumerate(names)}


@pytest.mark.parametrize("name", ["table", "ioctl"])
def test_sizes_agree_with_headers(name: str, tmp_path: Path) -> None:
    compile_program(f"tests/native/{name}_test.c", tmp_path / name)
    done = run(str(tmp_path / name))
    assert (done.returncode, done.stdout) == (0, "")


def test_size_check_sees_wrong_size(tmp_path: Path) -> None:
    tree = tmp_path / "preload"
    (tree / "syscall").mkdir(parents=True)
    (tree / "tables").mkdir()
    for part in ("abi.h", "syscall/effects.h", "syscall/table.c", "tables/classes.def", "tables/ioctls.def"):
        (tree / part).write_bytes((ROOT / "preload" / part).read_bytes())
    text = (ROOT / "preload/tables/syscalls.def").read_text()
    wrong = text.replace(
        "SYS(99, sysinfo, proc, 0, 1, OUT(1, BYTES(112)))", "SYS(99, sysinfo, proc, 0, 1, OUT(1, BYTES(64)))"
    )
    assert wrong != text
    (tree / "tables/syscalls.def").write_text(wrong)
    compile_program("tests/native/table_test.c", tmp_path / "test", tree / "syscall/table.c")
    done = run(str(tmp_path / "test"))
    assert done.returncode == 1
    assert done.stdout == "sysinfo: argument 1 has 64 bytes in the table, 112 in the headers\n"


def test_engine_flags_compile_it_without_libc(tmp_path: Path) -> None:
    engine = ["-fPIC", "-mgeneral-regs-only", "-ffreestanding"]
    done = run(CC, *STRICT, *engine, "-c", "preload/syscall/table.c", "-o", str(tmp_path / "table.o"))
    assert done.returncode == 0, done.stderr
    assert run("nm", "--undefined-only", str(tmp_path / "table.o")).stdout == ""


def test_c_and_python_read_the_same(tmp_path: Path) -> None:
    compile_program("tests/native/table_test.c", tmp_path / "table")
    effects = (ROOT / "preload/syscall/effects.h").read_text()
    kinds, lengths = enum_values(effects, "GR_FX_"), enum_values(effects, "GR_LEN_")
    flags = {name: int(value) for name, value in re.findall(r"#define GR_SF_(\w+) (\d+)", effects)}
    flags["IRREV"] = flags["IRREVOCABLE"]
    same_kind = {"MAKES_IF": "MAKES"}
    same_length = {"ARGX": "ARG", "RETX": "RET", "RET_TO": "RET", "RETX_TO": "RET", "RET_PLUS_TO": "RET_PLUS"}
    classes = [cls.name for cls in tables.classes()]
    expected = []
    for call in tables.syscalls():
        words = [str(call.nr), call.name, str(classes.index(call.cls)), str(sum(flags[flag] for flag in call.flags))]
        words.append(str(call.nargs))
        for effect in call.effects:
            kind = kinds[same_kind.get(effect.word, effect.word)]
            length = lengths[same_length.get(effect.length.word, effect.length.word)] if effect.length else 0
            words.append(f"{kind}:{(*effect.numbers, 0)[0]}:{length}")
        expected.append(" ".join(words))
    assert run(str(tmp_path / "table"), "dump").stdout.splitlines() == expected


def test_every_call_of_the_headers_is_in_the_table() -> None:
    done = run(CC, "-E", "-dM", "-include", "asm/unistd_64.h", "-x", "c", "/dev/null")
    numbers = {name: int(nr) for name, nr in re.findall(r"#define __NR_(\w+) (\d+)$", done.stdout, re.MULTILINE)}
    assert len(numbers) > 300
    known = {call.name: call.nr for call in tables.syscalls()}
    assert {name: known.get(name) for name in numbers} == numbers
