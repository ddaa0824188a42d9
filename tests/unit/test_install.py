"""`pip install .` from a clean checkout: the command, the engine and gdbinit.py work from anywhere."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path

import pytest

from harness import ROOT, programs
from harness.run import Result, run
from lint import sources

pytestmark = pytest.mark.limit(300)

BACK = ("watch turns", "reverse-continue", "print turns")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment's bin/, with gdbrr installed. Its requirements are borrowed from the tests' environment."""
    place = tmp_path_factory.mktemp("install")
    checkout = place / "checkout"
    for path in sources.project_files():
        copy = checkout / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copy)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    run(*pip, "wheel", "--no-build-isolation", "--no-deps", "-w", place, checkout, limit=200).expect(0)
    [wheel] = place.glob("gdbrr-*.whl")
    run(sys.executable, "-m", "venv", place / "env", limit=100).expect(0)
    python = place / "env" / "bin" / "python"
    run(python, "-m", "pip", "--disable-pip-version-check", "install", "--no-deps", wheel, limit=100).expect(0)
    # Behind the environment's own packages, and without .pth files: the checkout stays out of reach.
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])").expect(0).out.strip()
    Path(site, "requirements.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    shutil.rmtree(checkout)
    return place / "env" / "bin"


def gdbrr(installed: Path, *words: str) -> Result:
    environment = {"PYTHONPATH": "", "HOME": str(installed.parent)}
    return run(installed / "gdbrr", *words, cwd=installed.parent, env=environment)


def test_command_runs_from_another_directory(installed: Path) -> None:
    assert gdbrr(installed, "--version").expect(0).out.startswith("gdbrr ")
    assert "doctor" in gdbrr(installed, "--help").expect(0).out


def test_profiles_came_along(installed: Path) -> None:
    text = gdbrr(installed, "profiles").expect(0).out
    for name in ("default", "full", "sparse", "server", "game"):
        assert name in text
    gdbrr(installed, "profiles", "show", "sparse").expect(0)


def test_engine_and_native_module_came_along(installed: Path) -> None:
    text = gdbrr(installed, "doctor").out
    [line] = [line for line in text.splitlines() if line.split()[1:2] == ["engine"]]
    assert str(installed.parent) in line
    script = "import gdbrr.abi; from gdbrr.launch import engine; print(gdbrr.abi.__file__, engine.find().launcher)"
    result = run(installed / "python", "-c", script, cwd=installed.parent, env={"PYTHONPATH": ""}).expect(0)
    for path in result.out.split():
        assert path.startswith(str(installed.parent))
        assert Path(path).exists()
    assert os.access(result.out.split()[1], os.X_OK)


@pytest.mark.needs("gdb")
def test_gdbinit_works_from_the_package(installed: Path) -> None:
    script = "from gdbrr.launch import engine; print(engine.gdbinit())"
    place = run(installed / "python", "-c", script, cwd=installed.parent, env={"PYTHONPATH": ""}).expect(0).out.strip()
    assert place.startswith(str(installed.parent))
    command = ("gdb", "-nx", "-batch", "-ex", f"source {place}", "-ex", "help rr-back")
    result = run(*command, cwd=installed.parent).expect(0)
    assert "Go back in time" in result.out
    assert result.err == ""


@pytest.mark.needs("gdb", "gdbserver")
def test_going_back_works_from_the_package(installed: Path, tmp_path: Path) -> None:
    """The server runs under the environment's Python, which GDB's own knows nothing of."""
    script = "from gdbrr.launch import engine; print(engine.gdbinit())"
    place = run(installed / "python", "-c", script, cwd=tmp_path, env={"PYTHONPATH": ""}).expect(0).out.strip()
    words: list[str | Path] = ["gdb", "-nx", "-batch"]
    for command in (f"source {place}", "break puts_total", "rr-start", *BACK):
        words += ["-ex", command]
    environment = {"PYTHONPATH": "", "HOME": str(tmp_path)}
    result = run(*words, programs.build("spine"), cwd=tmp_path, env=environment, limit=100).expect(0)
    assert "$1 = 39" in result.out, result.describe()


def test_program_is_recorded_and_replayed(installed: Path, tmp_path: Path) -> None:
    run(installed / "gdbrr", "record", "-o", "echo.demo", "/bin/echo", "recorded words", cwd=tmp_path).expect(0)
    result = run(installed / "gdbrr", "replay", "echo.demo", cwd=tmp_path).expect(0)
    assert result.out == "recorded words\n"
