"""Imports and includes go downwards only."""

from harness import ROOT
from lint import layers, sources


def test_python_imports_go_downwards() -> None:
    modules = {sources.module_name(path): path.read_text() for path in sources.python_files("gdbrr")}
    assert len(modules) > 5
    assert layers.python_complaints(modules) == []


def test_gdbinit_needs_nothing_but_gdb_s_python() -> None:
    names = set(sources.imports((ROOT / "gdbinit.py").read_text(), "gdbinit"))
    assert "gdb" in names
    assert [name for name in names if not layers.may_run_in_gdb(name)] == []


def test_c_includes_go_downwards() -> None:
    files = {str(path.relative_to(ROOT / "preload")): path.read_text() for path in sources.c_files()}
    assert len(files) > 5
    assert layers.c_complaints(files) == []


def test_check_sees_upward_import() -> None:
    assert layers.python_complaints({"gdbrr.demo.reader": "def f():\n    from gdbrr.launch import record\n"}) == [
        "gdbrr.demo.reader imports gdbrr.launch.record: gdbrr.demo is not above gdbrr.launch"
    ]


def test_check_sees_relative_import() -> None:
    assert len(layers.python_complaints({"gdbrr.demo.reader": "from ..server import Server\n"})) == 1


def test_check_sees_gdb_outside_of_ingdb() -> None:
    assert layers.python_complaints({"gdbrr.cli.debug": "import gdb\n"}) == [
        "gdbrr.cli.debug imports gdb; only gdbrr.ingdb may"
    ]


def test_check_sees_third_party_import_in_ingdb() -> None:
    assert len(layers.python_complaints({"gdbrr.ingdb.link": "import zstandard, gdb, json\n"})) == 1


def test_check_keeps_cli_and_ingdb_apart() -> None:
    assert len(layers.python_complaints({"gdbrr.cli.debug": "from gdbrr.ingdb import link\n"})) == 1


def test_check_sees_cycle_within_a_rank() -> None:
    complaints = layers.python_complaints(
        {"gdbrr.ctl.client": "import gdbrr.launch.spawn\n", "gdbrr.launch.spawn": "import gdbrr.ctl.client\n"}
    )
    assert len(complaints) == 1


def test_check_sees_module_without_a_layer() -> None:
    assert len(layers.python_complaints({"gdbrr.utils": ""})) == 1


def test_check_sees_upward_include() -> None:
    files = {"core/raw.h": '#include "log/codec.h"\n', "log/codec.h": '#include "abi.h"\n', "abi.h": ""}
    assert layers.c_complaints(files) == ["core/raw.h includes log/codec.h: core is not above log"]


def test_check_sees_upward_include_through_a_relative_path() -> None:
    files = {"core/raw.h": "", "core/thread.h": '#include "raw.h"\n#include "init.c"\n', "init.c": ""}
    assert layers.c_complaints(files) == ["core/thread.h includes init.c: core is not above init.c"]
