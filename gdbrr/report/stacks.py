"""Call stacks with source lines, of processes that will never run again.

Runs in: commands outside GDB. May call: ctl, launch, timeline; gdb and addr2line where they are installed.
Owns: what a frame looks like. Without gdb a stack is the one place that the engine knows.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gdbrr import files
from gdbrr.ctl import threads
from gdbrr.ctl.threads import Thread
from gdbrr.launch import host, own
from gdbrr.launch.carried import names
from gdbrr.report import corefile
from gdbrr.timeline.leaf import DemoLeaf

_PATIENCE = 30.0
_DEPTH = 32
_LARGEST_SOURCE = 8 << 20
_QUIET = ["-nx", "-nh", "-batch", "-iex", "set auto-load no", "-iex", "set debuginfod enabled off"]
_STYLE = ["set width 0", "set print frame-arguments scalars", "set print entry-values no"]
_FRAME = re.compile(
    r"#(?P<level>\d+)\s+(?:(?P<pc>0x[0-9a-f]+) in )?(?P<name>.+?) ?\((?P<arguments>.*?)\)"
    r"(?: at (?P<file>.+):(?P<line>\d+)| from (?P<object>.+))?$"
)
_LWP = re.compile(r"Thread .*\(LWP (\d+)\)")


class Frame(NamedTuple):
    function: str
    arguments: str = ""
    file: str = ""
    line: int = 0
    object: str = ""
    source: str = ""
    """The line itself, where that was asked for and its file is here."""

    @property
    def known(self) -> bool:
        """Whether it is more than an address."""
        return not self.function.startswith("0x")

    def __str__(self) -> str:
        text = f"{self.function} ({self.arguments})" if self.arguments or self.line else self.function
        if self.line:
            return f"{text} at {self.file}:{self.line}"
        return f"{text} in {os.path.basename(self.object)}" if self.object else text

    def as_json(self) -> dict[str, Any]:
        return {"function": self.function, "file": self.file or None, "line": self.line or None,
                "object": self.object or None, "source": self.source or None}  # fmt: skip


def with_lines(frames: Sequence[Frame]) -> list[Frame]:
    """FRAMES with their source lines, for demos of the user's own only: debug information says where those are, and
    that of somebody else may name any file of the user's. Reports are sent around."""
    return [frame._replace(source=_line(frame.file, frame.line)) for frame in frames]


def _line(file: str, number: int) -> str:
    with contextlib.suppress(OSError):
        lines = files.content(file, _LARGEST_SOURCE).split(b"\n") if file else []
        if 0 < number <= len(lines):
            return lines[number - 1].decode("utf-8", "backslashreplace").strip()
    return ""


_VDSO = Frame("a function of the vDSO")


def of_leaf(leaf: DemoLeaf, thread: int | None = None) -> list[Frame]:
    """The call stack of a leaf's thread, by index; of the one whose turn it is if none is named."""
    found = of_thread(leaf.pid, leaf.thread if thread is None else thread, leaf.born)
    return with_lines(found) if own.made(leaf.demo) else found


def of_thread(pid: int, index: int, born: int) -> list[Frame]:
    """Where thread INDEX of a process stands that waits in the engine; innermost frame first."""
    chosen = next((thread for thread in threads.read(pid, born) if thread.index == index), None)
    if chosen is None:
        return []
    caller = _out_of_vdso(pid, chosen)
    return [*([_VDSO] if caller else []), *(_by_gdb(pid, caller or chosen) or by_address(pid, caller or chosen))]


def _out_of_vdso(pid: int, thread: Thread) -> Thread | None:
    """The thread at the call of a function of the vDSO, whose code the engine has replaced and nobody can unwind."""
    regs = thread.regs
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps:
            spans = [line.split()[0].split("-") for line in maps if line.rstrip().endswith("[vdso]")]
        if not any(int(low, 16) <= regs["rip"] < int(high, 16) for low, high in spans):
            return None
        memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            returns_to = int.from_bytes(os.pread(memory, 8, regs["rsp"]), "little")
        finally:
            os.close(memory)
    except OSError:
        return None
    return dataclasses.replace(thread, regs={**regs, "rip": returns_to - 1, "rsp": regs["rsp"] + 8}, ret_pc=returns_to)


def by_address(pid: int, thread: Thread) -> list[Frame]:
    """The call, and where it returns to, which is not always known."""
    places = [thread.regs["rip"]]
    if thread.ret_pc and not thread.regs["rip"] <= thread.ret_pc <= thread.regs["rip"] + 16:
        places.append(thread.ret_pc - 1)
    return [place(pid, pc) for pc in places]


def of_running(pid: int, tid: int) -> list[Frame]:
    """The same for a thread that runs in the program's own code. It is stopped for it, and goes on behind it."""
    text = _gdb([*_sysroot(pid), "-p", str(pid)], ["thread apply all bt " + str(_DEPTH)])
    stack: list[str] = []
    for block in re.split(r"\n(?=Thread )", text):
        match = _LWP.search(block)
        if match and int(match[1]) == tid:
            stack = block.splitlines()
    return _frames(pid, stack)


def _by_gdb(pid: int, thread: Thread) -> list[Frame]:
    with tempfile.TemporaryDirectory(prefix="gdbrr-") as scratch:
        core = Path(scratch) / "core"
        try:
            corefile.write(pid, [thread], core)
            program = os.readlink(f"/proc/{pid}/exe")  # of a script, its interpreter
        except OSError:
            return []
        return _frames(pid, _gdb([*_sysroot(pid), program, str(core)], [f"bt {_DEPTH}"]).splitlines())


def _sysroot(pid: int) -> list[str]:
    """Of a packed demo: its libraries, not this machine's of the same name."""
    brought = names.of(pid)
    return ["-iex", f"set sysroot {brought.root}"] if brought else []


def _gdb(target: Sequence[str], commands: Sequence[str]) -> str:
    tool = shutil.which(os.environ.get("GDBRR_GDB") or "gdb")
    if not tool:
        return ""
    words = [tool, *_QUIET]
    for command in _STYLE:
        words += ["-iex", command]
    words += target
    for command in commands:
        words += ["-ex", command]
    try:
        done = subprocess.run(words, capture_output=True, timeout=_PATIENCE, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace")


def _frames(pid: int, lines: Sequence[str]) -> list[Frame]:
    found: list[Frame] = []
    for line in lines:
        match = _FRAME.match(line.strip())
        if match and int(match["level"]) == len(found):
            at, file, where = int(match["line"] or 0), match["file"] or "", match["object"] or ""
            frame = Frame(match["name"], match["arguments"], file, at, where)
            if frame.function == "??":
                frame = place(pid, int(match["pc"] or "0", 16))
                if not frame.known:
                    break  # what the loader's first code seems to be called by
            if frame.function.startswith("__libc_start_"):
                break  # what calls main says nothing
            found.append(frame)
            if frame.function == "main":
                break
    return found


def place(pid: int, pc: int) -> Frame:
    """FUNCTION at FILE:LINE for an address in the program, else object and offset, else the bare address.

    The process says what is mapped where: a recording that was over before anybody looked does not know it.
    """
    bases = {base: path for path, base in host.mapped_files(pid).items() if base <= pc}
    if not bases:
        return Frame(f"{pc:#x}")
    base = max(bases)
    # A file that is loaded where it was linked (no PIE) knows absolute addresses.
    address = pc - base if host.is_relocatable(bases[base]) else pc
    return _source_line(bases[base], address) or Frame(f"{os.path.basename(bases[base])}+{pc - base:#x}")


def _source_line(path: str, address: int) -> Frame | None:
    tool = shutil.which("addr2line")
    if not tool or not os.path.isfile(path):
        return None
    try:
        words = [tool, "-fCe", path, f"{address:#x}"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=_PATIENCE, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return None
    function, _, where = done.stdout.strip().partition("\n")
    if not function or function.startswith("??"):
        return None
    file, _, line = where.partition(" ")[0].rpartition(":")
    return Frame(function, "", file, int(line)) if line.isdigit() and file != "??" else Frame(function, object=path)
