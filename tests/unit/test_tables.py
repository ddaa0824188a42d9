"""The tables as Python reads them: whole, consistent, and refused where they are wrong."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gdbrr.config import grammar, schema, tables
from gdbrr.errors import GdbrrError
from harness import ROOT

FX_MAX = 8


def test_calls_stand_in_order_and_once() -> None:
    numbers = [call.nr for call in tables.syscalls()]
    assert numbers == sorted(set(numbers))
    assert len({call.name for call in tables.syscalls()}) == len(numbers)
    # GIVEN the two ranges of x86-64 WHEN nothing is missing THEN they are dense
    assert numbers == [*range(0, 337), *range(424, numbers[-1] + 1)]


@pytest.mark.parametrize("call", tables.syscalls(), ids=lambda call: call.name)
def test_call_is_consistent(call: tables.Syscall) -> None:
    assert call.cls in {cls.name for cls in tables.classes()}
    assert call.nargs <= 6
    assert len(call.effects) <= FX_MAX
    for effect in call.effects:
        positions = effect.numbers[:1] if effect.word in ("MAKES_AT", "BEHIND") else effect.numbers
        assert all(1 <= position <= call.nargs for position in positions)
        if effect.length and effect.length.word in (
            "ARG",
            "ARGX",
            "ARG_PLUS",
            "AT",
            "FDSET",
            "PAGES",
            "NODES",
            "RET_TO",
        ):
            assert 1 <= effect.length.numbers[0] <= call.nargs
    if "BY_FD" in call.flags:
        assert any(effect.word == "FD" for effect in call.effects)
    words = [effect.word for effect in call.effects]
    for effect in call.effects:
        # What AT measures is itself written, and what makes descriptors in memory writes them.
        if effect.length and effect.length.word == "AT":
            size = effect.length.numbers[0]
            writers = [each.word for each in call.effects if each.numbers == (size,)]
            assert "INOUT" in writers or ("IN" in writers and "OUT_ANY" in writers)
        if effect.word == "MAKES_AT":
            assert "OUT" in words
    if "REFUSED" in call.flags:
        assert not call.effects


def test_what_may_be_native_is_let_through_the_fence() -> None:
    """A rule for paths makes any call about a file native that is not lasting; other modes are those of schema.py."""
    absent = {"uselib"}  # from every kernel that a replay runs on
    for call in tables.syscalls():
        paths = any(effect.word == "STR" for effect in call.effects)
        if call.cls == "file" and paths and not {"IRREV", "REFUSED"} & call.flags:
            assert call.name not in tables.fenced() - absent
        if call.name in tables.fenced() and tables.class_by_name()[call.cls].modes[0] == "record":
            assert schema.call_modes(call) == ("record",)


def test_refusals_are_the_refused_calls() -> None:
    refused = [call.name for call in tables.syscalls() if "REFUSED" in call.flags]
    names = [row.name for row in tables.refusals()]
    assert names[: len(refused)] == refused
    # The others are refused by their own code, some only for some arguments.
    special = [call.name for call in tables.syscalls() if "SPECIAL" in call.flags]
    assert names[len(refused) :] == [name for name in special if name in names]
    for row in tables.refusals():
        assert row.reason[0].islower() and not row.reason.endswith(".")
        assert row.way_out[0].isupper() and not row.way_out.endswith(".")


def test_common_calls_are_described() -> None:
    calls = tables.syscall_by_name()
    read = calls["read"]
    assert (read.nr, read.cls, set(read.flags)) == (0, "file", {"BY_FD", "BLOCKS"})
    assert read.effects[1] == tables.Effect("OUT", (2,), tables.Length("RET_TO", (3,)))
    assert calls["epoll_wait"].effects[1] == tables.Effect("OUT", (2,), tables.Length("RETX_TO", (12, 3)))
    assert calls["getrandom"].cls == "random"
    assert tables.syscall_by_nr()[228] is calls["clock_gettime"]


def test_ioctls_are_told_apart() -> None:
    rows = tables.ioctls()
    assert len({row.request for row in rows}) == len(rows)
    assert len({row.name for row in rows}) == len(rows)
    by_name = {row.name: row for row in rows}
    assert by_name["TIOCGWINSZ"].effect == tables.Effect("OUT", (3,), tables.Length("BYTES", (8,)))
    assert by_name["FIOCLEX"].effect is None


def test_small_tables() -> None:
    assert [cls.name for cls in tables.classes()][:3] == ["time", "random", "file"]
    assert tables.ops()[0].name == "NONE" and tables.ops()[3].name == "SYS_START"
    ops = {op.name for op in tables.ops()}
    assert all(row.op in ops and row.version.startswith(("GLIBC_2.", "CXXABI_1.")) for row in tables.wrappers())
    assert {"stack", "turn"} <= {field.name for field in tables.thread_fields()}
    assert tables.knob_by_name()["order"].choices[tables.knob_by_name()["order"].default] == "parallel"
    assert all(knob.min <= knob.default <= knob.max for knob in tables.knobs())


def test_every_kind_of_descriptor_can_be_met() -> None:
    classes = {cls.name for cls in tables.classes()}
    whole: set[str] = set()
    for kind in tables.kinds():
        assert kind.cls in classes
        assert kind.type not in whole, f"{kind.name} stands behind one that fits everything it could be"
        assert all(first <= last <= 0xFFF and low <= high for first, last, low, high in kind.devices)
        whole |= set() if kind.devices else {kind.type}
    assert whole == set(tables.FILE_TYPES)


def test_tables_fit_the_control_page() -> None:
    abi = (ROOT / "preload/abi.h").read_text()
    limits = {name: int(value) for name, value in re.findall(r"#define GR_(\w+_MAX) (\d+)\b", abi)}
    assert tables.syscalls()[-1].nr < limits["SYS_MAX"]
    assert len(tables.classes()) <= limits["CLASS_MAX"]
    assert len(tables.knobs()) <= limits["KNOB_MAX"]
    assert len(tables.kinds()) < limits["KIND_MAX"]


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("4096", 4096), ("0x5401", 0x5401), ("16M", 16 << 20), ("1T", 1 << 40)]
)
def test_parse_number(text: str, number: int) -> None:
    assert grammar.parse_number(text) == number
    assert grammar.parse_number(grammar.with_unit(number)) == number


@pytest.mark.parametrize("text", ["", "M", "-1", "1.5", "16 M", "0x", "1KK", "٣"])
def test_parse_number_refuses(text: str) -> None:
    with pytest.raises(ValueError):
        grammar.parse_number(text)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("SYS(0, read, file, 0, 3", "not a SYS(...) line"),
        ("CLASS(x)", "not a SYS(...) line"),
        ("SYS(0, read, file)", "3 fields"),
        ("SYS(zero, read, file, 0, 3)", "not a number"),
        ("SYS(0, read, file, WAITS, 3)", "unknown flag"),
        ("SYS(0, read, file, 0, 3, OUT(2))", "an argument and a length"),
        ("SYS(0, read, file, 0, 3, OUT(2, BYTES()))", "not a length"),
        ("SYS(0, read, file, 0, 3, TAKES(2))", "not an effect"),
        ("SYS(0, read, file, 0, 3, FD(1)", "not closed"),
    ],
)
def test_wrong_line_is_named(line: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "syscalls.def").write_text(f"// a comment\n\n{line}\n")
    monkeypatch.setattr(tables, "directory", lambda: tmp_path)
    with pytest.raises(GdbrrError) as caught:
        assert all(call.effects for call in tables.syscalls.__wrapped__())
    assert caught.value.message.startswith("syscalls.def:3: ")
    assert what in caught.value.message


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('KNOB(x, int, 5, 6, 7, "help")', "out of its range"),
        ('KNOB(x, float, 5, 1, 7, "help")', "not a type"),
        ('KNOB(x, enum(a|b), c, 0, 0, "help")', "not one of"),
        ("KNOB(x, int, 5, 1, 7, help)", "not a string"),
    ],
)
def test_wrong_knob_is_named(line: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "knobs.def").write_text(line)
    monkeypatch.setattr(tables, "directory", lambda: tmp_path)
    with pytest.raises(GdbrrError, match=what):
        tables.knobs.__wrapped__()


def test_strings_may_hold_commas_and_parentheses() -> None:
    assert grammar.split_fields('a, "b, c) (d", E(1, 2)') == ("a", '"b, c) (d"', "E(1, 2)")


def test_installed_package_finds_its_tables(tmp_path: Path) -> None:
    # GIVEN a package as pip lays it out: no checkout around it, the tables beside the engine
    package = tmp_path / "site" / "gdbrr"
    for name in ("config", "quick"):
        shutil.copytree(ROOT / "gdbrr" / name, package / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("__init__.py", "errors.py"):
        shutil.copy(ROOT / "gdbrr" / name, package / name)
    shutil.copytree(ROOT / "preload/tables", package / "_engine/tables")
    # WHEN it is imported without any third-party package (as in GDB's Python)
    code = f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r}); from gdbrr.config import tables"
    code += "; print(tables.directory(), len(tables.syscalls()))"
    command = [sys.executable, "-I", "-S", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    # THEN
    assert done.stdout.split() == [str(package / "_engine/tables"), str(len(tables.syscalls()))]
