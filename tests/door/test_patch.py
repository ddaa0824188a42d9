"""Call sites are rewritten under running threads, and nothing but the cost of a call shows it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from gdbrr.config import profiles
from gdbrr.launch import live
from harness import programs
from harness.run import gdbrr, run

EXPECTED = {
    "number": "jump",
    "compared": "jump",
    "tested": "jump",
    "returned": "jump",
    "stored": "as built",  # what follows uses memory
    "entered": "as built",  # a branch ends behind the call
    "tabled": "as built",  # the function jumps through a register
    "flagged": "jump",
}
patched_and_trapped = pytest.mark.parametrize("patch", ["on", "off"], ids=["patched", "trapped"])


def there_and_back(demo: Path, patch: str, *command: str | Path, rounds: int = 1) -> str:
    recorded = gdbrr("record", "--set", f"engine.patch={patch}", "-o", demo, *command).expect(0)
    for _ in range(rounds):
        assert gdbrr("replay", demo).expect(0).out == recorded.out
    return recorded.out


@patched_and_trapped
def test_every_shape_of_site(patch: str, tmp_path: Path) -> None:
    program = programs.build("patched_sites")
    native = run(program).expect(0).out.splitlines()
    lines = there_and_back(tmp_path / "x.demo", patch, program).splitlines()
    results = [f"{name} 500 {0 if name == 'number' else 500}" for name in EXPECTED]
    assert native == [*(f"{text} as built" for text in results), f"child {len(EXPECTED)}"]
    shapes = {line.split()[0]: line.split(" ", 3)[3] for line in lines[:-1]}
    assert shapes == (EXPECTED if patch == "on" else dict.fromkeys(EXPECTED, "as built"))
    assert [" ".join(line.split()[:3]) for line in lines[:-1]] == results
    assert lines[-1] == native[-1]


@patched_and_trapped
def test_threads_meet_at_new_sites(patch: str, tmp_path: Path) -> None:
    program = programs.build("many_calls")
    for i in range(5):
        assert there_and_back(tmp_path / f"{i}.demo", patch, program, rounds=2) == "wrong 0\n"


@patched_and_trapped
@pytest.mark.parametrize("handler", [[], ["handler"]], ids=["default", "own-handler"])
def test_bad_pointers_are_the_kernels_business(patch: str, handler: list[str], tmp_path: Path) -> None:
    program = programs.build("bad_pointers")
    native = run(program, *handler).expect(0).out.splitlines()
    lines = there_and_back(tmp_path / "x.demo", patch, program, *handler).splitlines()
    assert lines[:-1] == native[:-1]
    assert lines[-1].startswith("faults 0,")


LIBRARY = """
__asm__(".globl site\\n.type site, @function\\nsite:\\n.cfi_startproc\\n"
	"mov %rdi, %rax\\nsyscall\\nadd ${}, %rax\\nret\\n"
	".cfi_endproc\\n.size site, .-site");
"""


@patched_and_trapped
def test_library_in_the_place_of_another(patch: str, tmp_path: Path) -> None:
    libraries = []
    for number in (1, 2):
        source, library = tmp_path / f"{number}.c", tmp_path / f"lib{number}.so"
        source.write_text(LIBRARY.format(number))
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True, timeout=60)
        libraries.append(library)
    out = there_and_back(tmp_path / "x.demo", patch, programs.build("library_sites"), *libraries, libraries[0])
    assert out.splitlines() == ["400", "800 again", "400 again"]


@pytest.mark.needs("gdb")
@patched_and_trapped
def test_backtrace_crosses_the_door(patch: str) -> None:
    """Unwinders find their way from the engine's stack to the program's."""
    theirs, ours = os.pipe()
    profile = profiles.resolve(None, None, [f"engine.patch={patch}"])
    with open(theirs, "rb") as said, open(os.devnull, "rb") as nothing:
        program = str(programs.build("waits_in_read"))
        recording = live.start([program], profile, stdio=(nothing.fileno(), ours, ours))
        os.close(ours)
        try:
            os.kill(recording.pid, signal.SIGCONT)
            assert said.readline() == b"patched\n"
            while Path(f"/proc/{recording.pid}/stat").read_text().rpartition(")")[2].split()[0] != "S":
                os.sched_yield()
            seen = run("gdb", "-nx", "-q", "-batch", "-p", str(recording.pid), "-ex", "bt", "-ex", "x/i getppid")
        finally:
            recording.close()
    names = re.findall(r"^#\d+ .*?(\w+) \(", seen.out, re.MULTILINE)
    assert names[0] == "gr_wait6", seen.describe()
    assert names[-3:] == ["innermost", "middle", "main"], seen.describe()
    assert "gr_door_c" in names


@patched_and_trapped
def test_calls_that_only_ask_keep_everything(patch: str, tmp_path: Path) -> None:
    program = programs.build("asking")
    native = run(program).expect(0).out.splitlines()
    lines = there_and_back(tmp_path / "x.demo", patch, program, rounds=2).splitlines()
    assert lines[:2] == native[:2] == ["registers: wrong 0", "addresses: 8000 errors of 8000"]
    assert lines[2:] != native[2:]
