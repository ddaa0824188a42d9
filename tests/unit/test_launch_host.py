"""What a manifest says about files and machines."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from gdbrr.launch import host


def _readelf(option: str, path: Path) -> str:
    return subprocess.run(
        ["readelf", option, path], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL
    ).stdout


def _program(tmp_path: Path, *flags: str) -> Path:
    source, program = tmp_path / "x.c", tmp_path / "x"
    source.write_text("int main(void) { return 0; }\n")
    subprocess.run(["gcc", *flags, "-o", program, source], check=True, stdin=subprocess.DEVNULL)
    return program


def test_build_id_is_what_readelf_says(tmp_path: Path) -> None:
    program = _program(tmp_path, "-Wl,--build-id")
    found = re.search(r"Build ID: ([0-9a-f]+)", _readelf("-n", program))
    assert found
    assert host.build_id(program) == found[1]


def test_no_build_id_where_there_is_none(tmp_path: Path) -> None:
    assert host.build_id(_program(tmp_path, "-Wl,--build-id=none")) == ""
    assert host.build_id(tmp_path / "x.c") == ""
    assert host.build_id(tmp_path / "nothing") == ""


def test_damaged_elf_has_no_build_id_and_no_traceback(tmp_path: Path) -> None:
    whole = _program(tmp_path).read_bytes()
    cut = tmp_path / "cut"
    for length in (5, 40, 63, 70, 500):
        cut.write_bytes(whole[:length])
        assert host.build_id(cut) == ""
    lying = bytearray(whole)
    lying[32:40] = b"\xff" * 8  # where the program headers are
    cut.write_bytes(lying)
    assert host.build_id(cut) == ""
    assert host.interpreter(cut) == ""


def test_interpreter_and_place(tmp_path: Path) -> None:
    program = _program(tmp_path)
    assert f"[Requesting program interpreter: {host.interpreter(program)}]" in _readelf("-l", program)
    assert host.is_relocatable(program)
    assert not host.is_relocatable(_program(tmp_path, "-no-pie"))
    assert not host.is_relocatable(tmp_path / "x.c")


def test_mapped_objects_of_a_process() -> None:
    found = {row["path"]: row for row in host.mapped_objects(os.getpid())}
    libc = next(row for path, row in found.items() if re.search(r"/libc\.so\.6$|/libc-2", str(path)))
    assert libc["build_id"] == host.build_id(str(libc["path"]))
    assert libc["base"] in {int(line.split("-")[0], 16) for line in Path("/proc/self/maps").read_text().splitlines()}
    assert host.mapped_objects(2**22) == []


def test_host_is_named_without_giving_its_id_away() -> None:
    assert host.host_id() == host.host_id()
    assert re.fullmatch("[0-9a-f]{32}", host.host_id())
    machine = Path("/etc/machine-id")
    if machine.exists():
        assert machine.read_text().strip() != host.host_id()
    assert host.facts()["kernel"] == os.uname().release


def test_what_is_known_of_a_process_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {str(row["path"]) for row in host.mapped_objects(os.getpid())}
    monkeypatch.setattr(host, "identity", None)
    assert host.mapped_objects(os.getpid(), known) == []
