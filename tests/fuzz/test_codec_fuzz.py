"""The C codec and merge on random bytes, under the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUDGET = 20_000


def test_no_bytes_make_the_codec_or_the_merge_misbehave(tmp_path: Path) -> None:
    sources = ["tests/fuzz/codec_fuzz.c", "preload/log/codec.c", "preload/log/merge.c"]
    flags = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]
    flags += ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    program = tmp_path / "codec_fuzz"
    subprocess.run(["gcc", *flags, *sources, "-o", str(program)], cwd=ROOT, check=True, timeout=120)
    done = subprocess.run([str(program), str(BUDGET)], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{BUDGET}\n"
