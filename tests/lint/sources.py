"""Which files are the project's, and what they import or include.

Runs in: the tests of this folder. May call: git, where the checkout has it; the file system otherwise.
Owns: nothing.
"""

from __future__ import annotations

import ast
import fnmatch
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from harness import ROOT

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def project_files(root: Path = ROOT) -> list[Path]:
    """Every file that is, or would be, committed."""
    try:
        command = ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError):  # no git, or a checkout that is not a clone
        pass
    else:
        names = listed.stdout.decode().split("\0")
        return sorted(path for path in (root / name for name in names if name) if path.is_file())
    return sorted(path for path in root.rglob("*") if path.is_file() and not ignored(path.relative_to(root)))


def ignored(path: Path) -> bool:
    """What .gitignore says, where there is no git to ask."""
    verdict = path.parts[0] == ".git"
    for pattern in (ROOT / ".gitignore").read_text().split():
        if matches(path, pattern.lstrip("!")):
            verdict = not pattern.startswith("!")
    return verdict


def matches(path: Path, pattern: str) -> bool:
    if pattern.startswith("/"):
        return fnmatch.fnmatch(str(path), pattern.strip("/")) or str(path).startswith(pattern.lstrip("/"))
    return any(fnmatch.fnmatch(name, pattern.rstrip("/")) for name in path.parts)


def python_files(*folders: str) -> list[Path]:
    tops = [ROOT / folder for folder in folders]
    return [path for path in project_files() if path.suffix == ".py" and any(path.is_relative_to(top) for top in tops)]


def c_files() -> list[Path]:
    return [
        path for path in project_files() if path.suffix in (".c", ".h", ".S") and path.is_relative_to(ROOT / "preload")
    ]


def module_name(path: Path, root: Path = ROOT) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(source: str, module: str) -> Iterator[str]:
    """Absolute names of the modules SOURCE imports, wherever in the file it does so.

    `from package import name` gives package.name: what the name is, a module or not, is for the caller to see.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module.split(".")[: -node.level]
                base = ".".join([*package, base] if base else package)
            yield from (f"{base}.{alias.name}" for alias in node.names)


def includes(source: str) -> list[str]:
    return INCLUDE.findall(source)
