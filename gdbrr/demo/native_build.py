"""Builds gdbrr/_native: the C event encoding and the merge, with abi.h as Python sees it.

Runs in: `python -m gdbrr.demo.native_build` and the packaging build. May call: gcc, cffi.
Owns: the cdef, which is made from the headers themselves so that they stay the only truth; what is worked out once from
the tables.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sysconfig
from pathlib import Path

from gdbrr.config.profiles import default_actions
from gdbrr.errors import GdbrrError

ROOT = Path(__file__).resolve().parents[2]
HEADERS = (
    *("preload/abi.h", "preload/log/codec.h", "preload/log/merge.h"),
    *("preload/patch/atomics.h", "preload/patch/decode.h"),
)
SOURCES = ("preload/log/codec.c", "preload/log/merge.c", "preload/patch/atomics.c", "preload/patch/decode.c")
TABLES = tuple(f"preload/tables/{name}.def" for name in ("ops", "knobs", "syscalls", "classes", "fence"))
MODULE = "_native.abi3.so"

_ENUMS = """
enum gr_op {
#define OP(name, ...) GR_OP_##name,
#include "preload/tables/ops.def"
#undef OP
};
enum gr_knob {
#define KNOB(name, ...) GR_KNOB_##name,
#include "preload/tables/knobs.def"
#undef KNOB
};
"""


def _gcc(arguments: list[str], root: Path, text: str | None = None) -> str:
    command = [*shlex.split(os.environ.get("CC", "gcc")), *arguments]
    try:
        done = subprocess.run(command, cwd=root, input=text or "", capture_output=True, text=True)
    except FileNotFoundError:
        raise GdbrrError(f"{command[0]} is not installed", hint="install a C compiler, e.g. apt install gcc") from None
    if done.returncode:
        raise GdbrrError(f"{shlex.join(command)} failed:\n{done.stderr.rstrip()}", hint="mend that and build again")
    return done.stdout


def declarations(root: Path = ROOT) -> str:
    """All types, functions and GR_ constants of the headers, in the C that cffi can parse."""
    text = "\n".join((root / name).read_text() for name in HEADERS)
    own = re.sub(r"^#(include|pragma)\b.*$", "", text, flags=re.MULTILINE)
    types = _gcc(["-E", "-P", "-I.", "-"], root, own + _ENUMS)
    names = dict.fromkeys(re.findall(r"^#define (GR_\w+)[ \t]+\S", own, flags=re.MULTILINE))
    return types + "".join(f"#define {name} ...\n" for name in names)


def build(out: Path | None = None, root: Path = ROOT, work: Path | None = None, force: bool = False) -> Path:
    """Build the module at `out` (gdbrr/_native.abi3.so of the checkout) if a source is newer; returns its path."""
    out = out or root / "gdbrr" / MODULE
    work = work or root / "build" / "native"
    inputs = [root / name for name in (*HEADERS, *SOURCES, *TABLES)] + [Path(__file__)]
    if not force and out.exists() and all(path.stat().st_mtime <= out.stat().st_mtime for path in inputs):
        return out
    include = Path(sysconfig.get_path("include"))
    if not (include / "Python.h").exists():
        raise GdbrrError(f"Python's C headers are not in {include}", hint="install them, e.g. apt install python3-dev")
    import cffi

    builder = cffi.FFI()
    actions = default_actions()
    builder.cdef(declarations(root) + f"static const uint8_t gr_default_actions[{len(actions)}];\n")
    builder.set_source(
        "gdbrr._native",
        '#include "preload/log/merge.h"\n#include "preload/patch/atomics.h"\n#include "preload/patch/decode.h"\n'
        + _ENUMS
        + f"static const uint8_t gr_default_actions[] = {{ {', '.join(map(str, actions))} }};\n",
    )
    work.mkdir(parents=True, exist_ok=True)
    generated = work / "_native.c"
    builder.emit_c_code(str(generated))
    # Made beside the old one and renamed over it: a process that has the old one mapped keeps it whole.
    fresh = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        _gcc(
            ["-std=gnu11", "-O3", "-fPIC", "-shared", "-fvisibility=hidden", "-DNDEBUG", "-Wall", f"-I{include}", "-I."]
            + [str(generated), *SOURCES, "-o", str(fresh)],
            root,
        )
        os.replace(fresh, out)
    finally:
        fresh.unlink(missing_ok=True)
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description="Build gdbrr/_native, if a source is newer.")
    parser.add_argument("--force", action="store_true", help="build even if nothing changed")
    parser.add_argument("--out", type=Path, help=f"where to put {MODULE} (default: the package)")
    args = parser.parse_args()
    try:
        print(os.path.relpath(build(args.out, force=args.force)))
    except GdbrrError as error:
        print(f"native_build: {error}")
        return error.exit_code
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
