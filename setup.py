"""Builds the engine and the native module into the package; everything else is in pyproject.toml.

Runs in: pip's build environment. May call: make, gcc, gdbrr.demo.native_build (through a process of its own).
Owns: what an installed package has below gdbrr/_engine/. A checkout has the same files at preload/ and its root.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent


class BuildWithEngine(build_py):
    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return  # a checkout's own files are used; `make build` makes them
        package = Path(self.build_lib).resolve() / "gdbrr"
        work = ROOT / "build" / "package"
        # An installation is not the place to meet a new compiler's new warning.
        subprocess.run(["make", "-C", ROOT, f"BUILD={work}", "WERROR=", "engine"], stdin=subprocess.DEVNULL, check=True)
        engine = package / "_engine"
        shutil.rmtree(engine, ignore_errors=True)
        (engine / "tables").mkdir(parents=True)
        for file in (work / "libgdbrr.so", work / "gdbrr-launch", work / "gdbrr-vectors.so", ROOT / "gdbinit.py"):
            shutil.copy2(file, engine)
        for table in (ROOT / "preload" / "tables").glob("*.def"):
            shutil.copy2(table, engine / "tables")
        subprocess.run(
            [sys.executable, "-m", "gdbrr.demo.native_build", "--force", "--out", package / "_native.abi3.so"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
            stdin=subprocess.DEVNULL,
            check=True,
        )


class EngineDistribution(Distribution):
    """A wheel of this is for one platform: it holds machine code, though not through ext_modules."""

    def has_ext_modules(self) -> bool:
        return True


setup(cmdclass={"build_py": BuildWithEngine}, distclass=EngineDistribution)
