"""What of gdbrr.ingdb needs no GDB: the link to the server, settings, what is printed, the page of commands."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gdbrr.config.tables import Knob
from gdbrr.errors import GdbrrError
from gdbrr.ingdb import docs, text
from gdbrr.ingdb.link import Link, command_line, find_python, socket_directory
from gdbrr.ingdb.params import Settings
from harness import ROOT

KNOBS = (
    Knob("epoch_ticks", "int", 4096, 16, 1 << 30, "operations in an epoch"),
    Knob("log_limit", "bytes", 4 << 30, 1 << 20, 1 << 40, "bytes of log"),
    Knob("order", "enum", 0, 0, 1, "how threads run", ("parallel", "serial")),
    Knob("fast", "bool", 0, 0, 1, "quickly"),
)


# ---------------------------------------------------------------- the page


def test_the_page_of_commands_is_fresh() -> None:
    assert docs.path() == ROOT / "docs" / "commands.md"
    assert docs.main(["--check"]) == 0


def test_a_stale_page_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(docs, "path", lambda: tmp_path / "commands.md")
    with pytest.raises(GdbrrError, match="stale"):
        docs.main(["--check"])
    assert docs.main([]) == 0
    assert docs.main(["--check"]) == 0


# ---------------------------------------------------------------- the interpreter


def checkout(place: Path) -> Path:
    (place / "preload").mkdir(parents=True)
    (place / "pyproject.toml").touch()
    (place / "gdbrr").mkdir()
    return place / "gdbrr"


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_a_checkout_uses_its_own_environment(tmp_path: Path) -> None:
    package = checkout(tmp_path)
    with pytest.raises(GdbrrError) as caught:
        find_python("", package)
    assert str(caught.value) == f"gdbrr is not built. Try: make -C {tmp_path} build"
    python = executable(tmp_path / ".venv" / "bin" / "python")
    assert find_python("", package) == str(python)


def test_a_package_uses_the_interpreter_it_is_installed_for(tmp_path: Path) -> None:
    package = tmp_path / "lib" / "python3.99" / "site-packages" / "gdbrr"
    package.mkdir(parents=True)
    with pytest.raises(GdbrrError, match=r"no python3\.99 was found"):
        find_python("", package)
    python = executable(tmp_path / "bin" / "python3")
    with pytest.raises(GdbrrError):
        find_python("", package)  # a prefix's python3 is another version, unless it is a virtual environment's
    (tmp_path / "pyvenv.cfg").touch()
    assert find_python("", package) == str(python)
    python = executable(tmp_path / "bin" / "python3.99")
    assert find_python("", package) == str(python)


def test_the_setting_wins(tmp_path: Path) -> None:
    python = executable(tmp_path / "python")
    assert find_python(str(python), checkout(tmp_path / "x")) == str(python)


def test_the_server_is_the_packages_own_code(tmp_path: Path) -> None:
    """Neither files in the program's directory nor its PYTHON* variables get into the server."""
    for name in ("gdbrr", "argparse", "runpy"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong one')")
    env = {"PYTHONPATH": str(tmp_path), "PYTHONHOME": str(tmp_path)}
    command = command_line(sys.executable, ["--version"])
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout.startswith("gdbrr "), done.stderr) == (True, "")


def test_the_socket_directory_is_a_fresh_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    found = [socket_directory() for _ in range(2)]
    assert {each.parent for each in found} == {tmp_path}
    assert found[0] != found[1]
    monkeypatch.setenv("XDG_RUNTIME_DIR", "relative")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert socket_directory().parent == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_the_server_removes_the_directory_it_made(tmp_path: Path) -> None:
    socket = tmp_path / "fresh" / "gdb"
    (tmp_path / "no.demo").touch()
    command = command_line(sys.executable, ["serve", "--socket", str(socket), str(tmp_path / "no.demo")])
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60)
    assert done.returncode == 1
    assert not socket.parent.exists()


# ---------------------------------------------------------------- questions


def reply(answer: Any) -> Link:
    return Link(lambda packet: json.dumps(answer).encode().hex())


def test_a_question_is_hex_of_json() -> None:
    sent: list[str] = []

    def send(packet: str) -> str:
        sent.append(packet)
        return b'{"ok": {"x": 1}}'.hex()

    assert Link(send).request("arm", epoch=3) == {"x": 1}
    name, _, body = sent[0].partition(":")
    assert (name, json.loads(bytes.fromhex(body))) == ("qGdbrr", {"verb": "arm", "epoch": 3})


def test_the_servers_error_keeps_its_way_out() -> None:
    with pytest.raises(GdbrrError) as caught:
        reply({"error": "no", "hint": "try: yes"}).request("arm")
    assert str(caught.value) == "no. Try: yes"


@pytest.mark.parametrize("answer", ["", "E01", "zz", b"no json".hex(), b"[1]".hex()])
def test_what_is_no_answer_is_an_error(answer: str) -> None:
    with pytest.raises(GdbrrError, match="rr-replay FILE"):
        Link(lambda packet: answer).request("status")


# ---------------------------------------------------------------- settings


def test_settings_know_the_knobs() -> None:
    settings = Settings(KNOBS)
    assert settings.options() == []
    settings.set("epoch-ticks", "512")
    settings.set("log-limit", "16M")
    settings.set("order", "serial")
    settings.set("verbose", "on")
    assert settings.options() == ["--set", "epoch_ticks=512", "--set", "log_limit=16M", "--set", "order=serial"]
    assert settings.verbose


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("epoch-ticks", "1", "epoch-ticks cannot be '1'. It goes from 16 to 1G"),
        ("epoch-ticks", "many", "epoch-ticks cannot be 'many'. It goes from 16 to 1G"),
        ("order", "random", "order cannot be 'random'. It is one of parallel, serial"),
        ("fast", "yes", "fast cannot be 'yes'. It is one of on, off"),
    ],
)
def test_a_wrong_value_is_refused_and_not_kept(name: str, value: str, error: str) -> None:
    settings = Settings(KNOBS)
    before = dict(settings.values)
    with pytest.raises(GdbrrError) as caught:
        settings.set(name, value)
    assert (str(caught.value), settings.values) == (error, before)


# ---------------------------------------------------------------- what is printed

STATUS = {"moment": "120", "ticks": 512, "epoch": 3, "epochs": 9, "live": False, "approximate": False}


@pytest.mark.parametrize(
    ("change", "place", "line"),
    [
        ({}, (2, "worker", "a.c:41"), 'tick 120 of 512 (23%), epoch 3 of 9, thread 2 "worker", a.c:41'),
        ({"moment": "120:0x401136#2"}, (1, "", ""), "tick 120:0x401136#2 of 512 (23%), epoch 3 of 9, thread 1"),
        ({"approximate": True}, (0, "", ""), "tick 120 of 512 (23%), epoch 3 of 9, approximate"),
        ({"moment": "0", "ticks": 0, "epoch": None}, (0, "", ""), "tick 0 of 0"),
        ({"live": True}, (1, "main", "a.c:2"), 'recording: 512 ticks so far, thread 1 "main", a.c:2'),
        ({"live": True, "ticks": 1}, (1, "", ""), "recording: 1 tick so far, thread 1"),
        ({"live": True, "unrecorded": True}, (1, "", ""), "recorded: 512 ticks, thread 1"),
    ],
)
def test_when(change: dict[str, Any], place: tuple[int, str, str], line: str) -> None:
    assert text.when({**STATUS, **change}, *place) == line


def test_when_another_thread_is_selected() -> None:
    line = 'tick 120 of 512 (23%), epoch 3 of 9, thread 2 "worker", a.c:41'
    assert text.when(STATUS, 2, "worker", "a.c:41", 2) == line
    assert text.when(STATUS, 2, "worker", "a.c:41", 1) == f"{line}, while thread 1 is selected"


def test_epochs_show_times_where_they_are_known() -> None:
    rows = [{"index": 0, "start": 0, "end": 8, "bytes": 1500, "time": 0.25, "checkpoint": False}]
    assert text.epochs(rows, None).splitlines() == [
        "  epoch  from tick  operations  events    began",
        "  e0             0           8  1.5 kB  0.250 s",
    ]


@pytest.mark.parametrize(("tick", "before"), [(0, 0), (256, 25), (511, 49), (512, 50)])
def test_a_bar_shows_where_one_stands(tick: int, before: int) -> None:
    shown = text.bar({"moment": f"{tick}:0x401136#2", "ticks": 512})
    assert shown == "[" + "=" * before + ">" + " " * (50 - before) + f"] {tick} of 512"


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0 B"), (999, "999 B"), (18200, "18.2 kB"), (5 * 10**6, "5.0 MB"), (2 * 10**9, "2.0 GB")]
)
def test_size(count: int, shown: str) -> None:
    assert text.size(count) == shown


# ---------------------------------------------------------------- GDB's Python


def loaded_in_gdb() -> list[Path]:
    """The files of gdbrr that sourcing gdbinit.py loads."""
    files = [path for path in (ROOT / "gdbrr" / "ingdb").rglob("*.py") if path.name != "docs.py"]
    others = ("__init__.py", "errors.py", "config/__init__.py", "config/tables.py", "config/grammar.py",
              "quick/__init__.py", "quick/kept.py", "quick/paths.py", "quick/rows.py",
              "timeline/__init__.py", "timeline/model.py")  # fmt: skip
    return [ROOT / "gdbinit.py", *files, *(ROOT / "gdbrr" / name for name in others)]


def test_the_list_of_what_gdb_loads_is_true() -> None:
    script = "import sys, gdbrr.ingdb.commands, gdbrr.ingdb.params, gdbrr.ingdb.link, gdbrr.ingdb.text\n"
    script += "print(*(m.__file__ for n, m in sys.modules.items() if n.partition('.')[0] == 'gdbrr'), sep='\\n')"
    loaded = subprocess.check_output([sys.executable, "-c", script], text=True, cwd=ROOT, timeout=60)
    assert {Path(line) for line in loaded.splitlines()} <= set(loaded_in_gdb())


@pytest.mark.parametrize("path", loaded_in_gdb(), ids=lambda path: str(path.relative_to(ROOT)))
def test_gdbs_python_may_be_3_9(path: Path) -> None:
    """Python 3.9 has no match statement, and types cannot be joined by | where the code runs."""
    tree: ast.AST = ast.parse(path.read_text(), feature_version=(3, 9))
    if "from __future__ import annotations" in path.read_text():
        tree = _Bare().visit(tree)
    types = {"int", "str", "bool", "float", "bytes", "None"}
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            assert ast.unparse(node.right) not in types, f"{path}:{node.lineno}"
            assert ast.unparse(node.left) not in types, f"{path}:{node.lineno}"


class _Bare(ast.NodeTransformer):
    """Takes out the annotations: nobody evaluates them."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)


def test_what_a_thread_calls_itself_is_no_word_to_the_terminal() -> None:
    line = text.when(STATUS, 2, "a\x1b[2Jb\n", "a.c:41")
    assert 'thread 2 "a\\x1b[2Jb\\n"' in line and line.isprintable()
    assert text.change("x", "1", "2", 2, "\x1b]0;", "").isprintable()
