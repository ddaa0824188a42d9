"""The layers of the architecture, as data and as two checks that return complaints.

Runs in: test_layers.py. May call: sources.py.
Owns: the order of the layers. A change here is a change of docs/architecture.md.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from lint import sources

# A module's rank is that of its longest prefix here. What has rank 0 may be imported by everybody.
PYTHON_RANKS = {
    "gdbrr": 0,
    "gdbrr.errors": 0,
    "gdbrr.files": 0,
    "gdbrr.quick": 0,
    "gdbrr.abi": 0,
    "gdbrr._native": 0,
    "gdbrr.timeline.model": 0,
    "gdbrr.demo": 1,
    "gdbrr.config": 1,
    "gdbrr.rsp.packet": 1,
    "gdbrr.rsp.request": 1,
    "gdbrr.ctl": 2,
    "gdbrr.launch": 2,
    "gdbrr.timeline": 3,
    "gdbrr.rsp": 4,
    "gdbrr.server": 5,
    "gdbrr.sessions": 5,
    "gdbrr.report": 6,
    "gdbrr.sparse": 6,
    "gdbrr.cli": 7,
    "gdbrr.ingdb": 7,
    "gdbrr.__main__": 8,
}
STRANGERS = {"gdbrr.cli", "gdbrr.ingdb"}
INGDB_MAY_IMPORT = (
    "gdbrr.errors",
    "gdbrr.quick",
    "gdbrr.config.tables",
    "gdbrr.config.grammar",
    "gdbrr.timeline.model",
    "gdbrr.ingdb",
    "gdb",
)
# `gdbrr.open` is offered by the package itself; it is imported when first used.
EXEMPT = {"gdbrr"}

C_RANKS = {
    "abi.h": 0,
    "tables": 0,
    "core": 1,
    "log": 2,
    "ctl": 3,
    "heap": 3,
    "patch": 3,
    "replay": 4,
    "digest": 5,
    "signal": 5,
    "syscall": 6,
    "sync": 6,
    "count": 6,
    "watch": 6,
    "ckpt": 7,
    "init.c": 8,
    "carried.c": 8,
    "carried.h": 8,
    "fence.c": 8,
    "fence.h": 8,
    "front.c": 8,
    "libraries.c": 8,
    "libraries.h": 8,
    "launch.c": 8,
    "random.c": 8,
    "random.h": 8,
    "tracer.c": 8,
    "tracer.h": 0,
    "vectors.c": 8,
}


def part(module: str) -> str:
    """The longest known prefix: the part of the architecture that MODULE belongs to."""
    names = module.split(".")
    for length in range(len(names), 0, -1):
        prefix = ".".join(names[:length])
        if prefix in PYTHON_RANKS and (prefix != "gdbrr" or module == "gdbrr"):
            return prefix
    return ""


def python_complaints(modules: Mapping[str, str]) -> list[str]:
    """MODULES: source by module name."""
    complaints = []
    edges: dict[tuple[str, str], str] = {}
    for module, source in modules.items():
        here = part(module)
        if not here:
            complaints.append(f"{module} belongs to no layer: give it one in tests/lint/layers.py")
            continue
        for name in sources.imports(source, module):
            top = name.split(".")[0]
            if top == "gdb" and here != "gdbrr.ingdb":
                complaints.append(f"{module} imports gdb; only gdbrr.ingdb may")
            if here == "gdbrr.ingdb" and not may_run_in_gdb(name):
                complaints.append(f"{module} imports {name}, which GDB's Python need not have")
            there = part(name) if top == "gdbrr" else ""
            # `from gdbrr import __version__` is the package itself.
            if not there and top == "gdbrr":
                there = "gdbrr"
            if not there or there == here or module in EXEMPT:
                continue
            if PYTHON_RANKS[there] > PYTHON_RANKS[here] or {here, there} == STRANGERS:
                complaints.append(f"{module} imports {name}: {here} is not above {there}")
            edges[here, there] = f"{module} imports {name}"
    complaints.extend(cycles(edges))
    return complaints


def may_run_in_gdb(name: str) -> bool:
    if name.split(".")[0] in sys.stdlib_module_names:
        return True
    if name in {"gdbrr", "gdbrr.__version__", "gdbrr.config", "gdbrr.timeline"}:
        return True
    # `from gdbrr.errors import GdbrrError` names something inside an allowed module.
    return any(name == allowed or name.startswith(f"{allowed}.") for allowed in INGDB_MAY_IMPORT)


def cycles(edges: Mapping[tuple[str, str], str]) -> list[str]:
    """Parts of one rank may use each other in one direction only."""
    return [
        f"{text}, but also {edges[there, here]}"
        for (here, there), text in sorted(edges.items())
        if here < there and (there, here) in edges
    ]


def c_part(path: str) -> str:
    """PATH is relative to preload/."""
    return path.split("/")[0]


def c_complaints(files: Mapping[str, str]) -> list[str]:
    """FILES: source by path relative to preload/."""
    complaints = []
    edges: dict[tuple[str, str], str] = {}
    for path, source in files.items():
        here = c_part(path)
        if here not in C_RANKS:
            complaints.append(f"{path} belongs to no layer: give it one in tests/lint/layers.py")
            continue
        for name in sources.includes(source):
            beside = f"{path.rpartition('/')[0]}/{name}".lstrip("/")
            target = name if name in files or name.startswith("tables/") else beside
            there = c_part(target)
            if there not in C_RANKS:
                complaints.append(f"{path} includes {name}, which is not a file of preload/")
                continue
            if there == here:
                continue
            if C_RANKS[there] > C_RANKS[here]:
                complaints.append(f"{path} includes {name}: {here} is not above {there}")
            edges[here, there] = f"{path} includes {name}"
    complaints.extend(cycles(edges))
    return complaints
