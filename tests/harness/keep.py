"""Keeps the demos of a failed test and says how to replay them.

Runs in: pytest, when a test has failed. May call: cp.
Owns: build/failed; a test's older demos there are replaced.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from harness import BUILD

FAILED = BUILD / "failed"
RECORDING = ".recording"


def demos(place: Path) -> list[Path]:
    """Demos under PLACE, and recordings that were never packed (a killed recorder's)."""
    return sorted(
        path
        for path in place.rglob("*.demo*")
        if (path.suffix == ".demo" and path.is_file()) or (path.suffix == RECORDING and path.is_dir())
    )


def keep(test: str, place: Path, failed: Path = FAILED) -> list[Path]:
    """Copy what TEST left under PLACE to build/failed and return the copies."""
    target = failed / re.sub(r"[^\w.-]+", "_", test).strip("_")
    shutil.rmtree(target, ignore_errors=True)
    kept = []
    for path in demos(place):
        copy = target / path.relative_to(place)
        copy.parent.mkdir(parents=True, exist_ok=True)
        # cp: a recording's log is sparse, and may be called 4 GiB long.
        subprocess.run(["cp", "-a", "--sparse=always", path, copy], stdin=subprocess.DEVNULL, check=True)
        kept.append(copy)
    return kept


def advice(kept: list[Path]) -> str:
    verbs = {".demo": "replay", RECORDING: "info"}
    return "\n".join(f"gdbrr {verbs[path.suffix]} {path}" for path in kept)
