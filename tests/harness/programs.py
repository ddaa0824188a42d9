"""Compiles the programs of tests/programs on demand.

Runs in: pytest, in several workers at once. May call: gcc and g++.
Owns: build/tests. A program is compiled again when its source, the compiler line or a header beside it changed.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from harness import BUILD, ROOT

SOURCES = ROOT / "tests" / "programs"
FLAGS = ("-g", "-O0", "-pthread", "-Wall", "-Wextra", "-Werror")
CXX_FLAGS = (*FLAGS, "-std=c++20")
COMPILE_LIMIT = 120.0


class CompileError(Exception):
    """The program does not compile; the text is the compiler's."""


def find(name: str, sources: Path = SOURCES) -> Path:
    for suffix in (".c", ".cc"):
        path = sources / f"{name}{suffix}"
        if path.exists():
            return path
    raise FileNotFoundError(f"there is no {name}.c or {name}.cc in {sources}")


def build(name: str, flags: Sequence[str] = (), sources: Path = SOURCES, out: Path = BUILD / "tests") -> Path:
    """The executable of tests/programs/NAME.c(c), compiled with FLAGS behind the usual ones."""
    source = find(name, sources)
    compiler, usual = ("g++", CXX_FLAGS) if source.suffix == ".cc" else ("gcc", FLAGS)
    options = [*usual, *flags]
    program = out / f"{name}-{fingerprint(source, [compiler, *options])}" / name
    if program.exists():
        if program.stat().st_mtime < source.stat().st_mtime:
            os.utime(program)  # else GDB warns of a newer source, which says the same
        return program
    program.parent.mkdir(parents=True, exist_ok=True)
    handle, fresh = tempfile.mkstemp(dir=program.parent)
    os.close(handle)
    # Libraries named in FLAGS must stand behind the source. The rename makes a race between workers harmless.
    command = [compiler, *usual, "-o", fresh, str(source), *flags]
    result = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMPILE_LIMIT, check=False
    )
    if result.returncode != 0:
        Path(fresh).unlink()
        raise CompileError(result.stderr)
    Path(fresh).chmod(0o755)  # mkstemp's is for one user only
    Path(fresh).replace(program)
    return program


def fingerprint(source: Path, command: Sequence[str]) -> str:
    digest = hashlib.sha256("\0".join(command).encode())
    for path in [source, *sorted(source.parent.glob("*.h"))]:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
