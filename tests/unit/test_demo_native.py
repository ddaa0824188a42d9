"""The native module: built from the headers, only when one of them is newer; abi.py shows what they say."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from gdbrr import abi
from gdbrr.config import tables
from gdbrr.demo import native_build
from gdbrr.errors import GdbrrError


def test_it_is_built_once(tmp_path: Path) -> None:
    out = native_build.build(tmp_path / "_native.abi3.so", work=tmp_path / "work")
    made = out.stat().st_mtime_ns
    assert native_build.build(out, work=tmp_path / "work").stat().st_mtime_ns == made
    assert sorted(p.name for p in tmp_path.iterdir()) == ["_native.abi3.so", "work"]


def test_missing_headers_of_python_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(GdbrrError, match="python3-dev"):
        native_build.build(tmp_path / "_native.abi3.so", work=tmp_path / "work")


def test_a_compiler_that_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "false")
    with pytest.raises(GdbrrError, match=r"false .* failed"):
        native_build.build(tmp_path / "_native.abi3.so", work=tmp_path / "work")
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(GdbrrError, match="not installed"):
        native_build.build(tmp_path / "_native.abi3.so", work=tmp_path / "work")


def test_operations_and_knobs_are_those_of_the_tables() -> None:
    assert {op.number: op.name for op in tables.ops()} == abi.OPS
    knobs = abi.enum_names("enum gr_knob", "GR_KNOB_")
    assert list(knobs.values()) == [knob.name for knob in tables.knobs()]


def test_every_constant_of_the_headers_is_there() -> None:
    text = native_build.declarations()
    names = [line.split()[1] for line in text.splitlines() if line.startswith("#define ")]
    assert {"GR_ABI_VERSION", "GR_UNIT", "GR_EVENT_MAX_HEAD"} <= set(names)
    assert all(isinstance(getattr(abi.lib, name), int) for name in names)


def test_the_control_page_is_shared_between_mappings(tmp_path: Path) -> None:
    with abi.map_ctl(tmp_path / "ctl", create=True) as one, abi.map_ctl(tmp_path / "ctl", write=False) as two:
        one.slot(3).tick = 77
        abi.ffi.memmove(one.slot(0).panic.text, b"why\0rest", 8)
        assert two.slot(3).tick == 77 and abi.text(two.slot(0).panic.text) == "why"
    with pytest.raises(GdbrrError, match="cannot be opened"):
        abi.map_ctl(tmp_path / "ctl", create=True)


@pytest.mark.parametrize(("size", "why"), [(100, "not a control page"), (abi.CTL_SIZE, "ABI version 0")])
def test_what_is_no_control_page(tmp_path: Path, size: int, why: str) -> None:
    (tmp_path / "ctl").write_bytes(bytes(size))
    with pytest.raises(GdbrrError, match=why):
        abi.map_ctl(tmp_path / "ctl")
