"""The command's frame: verbs are found, errors are one line, interruptions have their status, starting is cheap."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from gdbrr.cli import VERBS, main
from gdbrr.errors import GdbrrError
from harness import ROOT
from harness.run import gdbrr

HEAVY = ("zstandard", "cffi", "pygments", "prompt_toolkit")


def add_nothing_but_the_name(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    subparsers.add_parser("record", help="for this test")


def use_verb(monkeypatch: pytest.MonkeyPatch, error: BaseException | None = None, status: int = 0) -> None:
    """`record` becomes a verb that raises ERROR, or returns STATUS."""

    def verb_main(_args: argparse.Namespace) -> int:
        if error:
            raise error
        return status

    monkeypatch.setattr(main, "load", lambda _verb: SimpleNamespace(add=add_nothing_but_the_name, main=verb_main))


def test_help_lists_every_verb() -> None:
    text = gdbrr("--help").expect(0).out
    for verb in VERBS:
        assert f"\n    {verb} " in text
    assert "gdbrr record -o crash.demo" in text


@pytest.mark.parametrize("verb", VERBS)
def test_verb_explains_itself(verb: str) -> None:
    text = gdbrr(verb, "--help").expect(0).out
    assert text.startswith(f"usage: gdbrr {verb}")


def test_no_arguments_show_help() -> None:
    assert gdbrr().expect(0).out.startswith("usage: gdbrr")


def test_version() -> None:
    assert gdbrr("--version").expect(0).out == "gdbrr 0.1.0\n"


def test_unknown_verb_names_the_nearest() -> None:
    result = gdbrr("recrod").expect(2)
    assert result.err == "gdbrr: there is no verb 'recrod'. Did you mean record?\n"


def test_error_is_one_line_with_its_verb(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    use_verb(monkeypatch, GdbrrError("the disk is full", "free some space", exit_code=7))
    assert main.main(["record"]) == 7
    assert capsys.readouterr().err == "gdbrr record: the disk is full. Free some space\n"


def test_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    use_verb(monkeypatch, ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        main.main(["record"])


def test_status_of_the_verb_is_the_command_s(monkeypatch: pytest.MonkeyPatch) -> None:
    use_verb(monkeypatch, status=139)
    assert main.main(["record"]) == 139


def test_interruption_is_130_and_silent(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    use_verb(monkeypatch, KeyboardInterrupt())
    assert main.main(["record"]) == 128 + signal.SIGINT
    assert capsys.readouterr().err == ""


def test_reader_that_has_gone_is_no_error() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as closed_pipe:
        result = subprocess.run(
            [sys.executable, "-m", "gdbrr", "doctor", "--json"],
            stdout=closed_pipe,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            cwd=ROOT,
            timeout=60,
            check=False,
        )
    assert (result.returncode, result.stderr) == (128 + signal.SIGPIPE, b"")


def test_starting_to_record_imports_nothing_heavy(tmp_path: Path) -> None:
    script = tmp_path / "start.py"
    script.write_text(
        "import sys\n"
        "from gdbrr.cli import main\n"
        "main.build_parser(['record'])\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


@pytest.mark.parametrize("more", [{}, {"LC_CTYPE": "C"}, {"LC_CTYPE": "C.UTF-8", "PYTHONPATH": "/nonexistent"}])
def test_the_command_leaves_the_environment_as_it_is(tmp_path: Path, more: dict[str, str]) -> None:
    """Python sets LC_CTYPE where the locale is C, a shell PWD."""
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **more}
    command = [ROOT / ".venv" / "bin" / "gdbrr", "record", "-o", tmp_path / "x.demo", "/usr/bin/env"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=True)
    assert dict(line.split("=", 1) for line in done.stdout.splitlines()) == env


def test_the_command_may_be_a_link_and_the_checkout_elsewhere(tmp_path: Path) -> None:
    elsewhere = tmp_path / "a checkout" / ".venv" / "bin"
    elsewhere.mkdir(parents=True)
    shutil.copy2(ROOT / ".venv" / "bin" / "gdbrr", elsewhere)
    (tmp_path / "link").symlink_to(elsewhere / "gdbrr")
    done = subprocess.run([tmp_path / "link"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (127, "gdbrr: this checkout is not whole. Run: make build\n")
    (elsewhere / "python").write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    (elsewhere / "python").chmod(0o755)
    done = subprocess.run([tmp_path / "link", "a", "b c", ""], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"-IS\n{tmp_path / 'a checkout'}/gdbrr/__main__.py\na\nb c\n\n"
