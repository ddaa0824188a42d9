"""Where the built engine is, in a checkout or in an installed package, and where GDB; what the loader is told.

Runs in: commands outside GDB and the server. May call: errors, launch; the file system.
Owns: the values of LD_PRELOAD; which LD_* variables of a demo are obeyed.
"""

from __future__ import annotations

import os

from gdbrr.errors import GdbrrError
from gdbrr.launch import host
from gdbrr.quick.paths import Path
from gdbrr.quick.rows import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

PACKAGE = Path(__file__).resolve().parent.parent
_PADDING = 256


class Engine(NamedTuple):
    library: Path
    launcher: Path

    @property
    def vectors(self) -> Path:
        """What gdbserver loads (preload/vectors.c)."""
        return self.launcher.with_name("gdbrr-vectors.so")

    def preload(self, users: str = "") -> str:
        """The value of LD_PRELOAD, with what the user had there behind the engine.

        The path is padded with slashes, because its length moves the program's stack and the loader's heap: a
        demo must also fit an engine that lives elsewhere.
        """
        path = str(self.library)
        if any(char in path for char in " :"):
            raise GdbrrError(
                f"gdbrr lies in a directory whose name the loader cannot take: {self.library.parent}",
                "move it to a path without spaces and colons",
            )
        length = len(path.encode("utf-8", "surrogateescape"))
        padded = "/" * (-length % _PADDING) + path
        return f"{padded}:{users}" if users else padded


def find() -> Engine:
    """The engine of this checkout, else the one that the package brought along."""
    for place in (PACKAGE.parent / "preload", PACKAGE / "_engine"):
        engine = Engine(place / "libgdbrr.so", place / "gdbrr-launch")
        if all(file.is_file() for file in (engine.library, engine.launcher, engine.vectors)):
            return engine
    raise GdbrrError("the engine is not built", "in a checkout run `make build`; else install gdbrr again")


def for_gdbserver(env: Mapping[str, str]) -> dict[str, str]:
    """The environment of a gdbserver, which loads preload/vectors.c."""
    vectors, users = find().vectors, env.get(_PRELOAD)
    return {**env, _PRELOAD: f"{vectors}:{users}" if users else str(vectors)}


def gdbinit() -> Path:
    """What a user sources."""
    for place in (PACKAGE.parent / "gdbinit.py", PACKAGE / "_engine" / "gdbinit.py"):
        if place.is_file():
            return place
    raise GdbrrError("gdbinit.py is missing", "install gdbrr again")


def gdb() -> str:
    """The GDB to use."""
    import shutil  # brings compression along, which the start of a recording need not wait for

    name = os.environ.get("GDBRR_GDB") or "gdb"
    found = shutil.which(name)
    if not found:
        raise GdbrrError(f"there is no {name}", hint="install it (Debian, Ubuntu: apt-get install gdb gdbserver)")
    return found


# ---------------------------------------------------------------- what the loader obeys
_PATH, _PRELOAD, _AUDIT = "LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT"
_OBEYED = (_PATH, "LD_BIND_NOW", "LD_DYNAMIC_WEAK")
"""INVARIANT(loader-obeys-little): a demo is somebody else's text, so of these variables only those count that lead to
the recorded libraries, in a demo of this user and machine, or of one whom the user trusts after they were shown, and
while the libraries are the recorded ones. The others print, write files, or choose code by names that nobody compares.
"""


def refuse_audit(env: Mapping[str, str]) -> None:
    """In front of a recording: it would begin behind what these libraries do."""
    if env.get(_AUDIT):
        raise GdbrrError(
            "a program with LD_AUDIT cannot be recorded: its libraries run in front of the engine, unseen",
            "unset LD_AUDIT",
        )


def preloads(env: Mapping[str, str]) -> list[str]:
    """The files that LD_PRELOAD of a recording names."""
    return [
        os.path.realpath(word) for word in env.get(_PRELOAD, "").replace(" ", ":").split(":") if os.path.isabs(word)
    ]


def obeys(env: Mapping[str, str]) -> bool:
    """Whether the environment of a recording decides which libraries are loaded."""
    return bool(env.keys() & {_PATH, _PRELOAD})


def environment(manifest: Mapping[str, Any]) -> list[str]:
    """The recorded environment, without LD_PRELOAD.

    The first letter of LD_* names that are not obeyed is changed: the strings stay as long as they were, so the stack
    stays where it was.
    """
    names = {entry.partition("=")[0] for entry in manifest["env"]}
    if _AUDIT in names:
        raise GdbrrError(
            f"the recording was made with {_AUDIT}, which is not honoured from a demo", f"record again without {_AUDIT}"
        )
    if names & {_PATH, _PRELOAD} and "carried" not in manifest:
        _check_same(manifest)
    result = []
    for entry in manifest["env"]:
        name = entry.partition("=")[0]
        if name != _PRELOAD:
            result.append("_" + entry[1:] if name.startswith("LD_") and name not in _OBEYED else entry)
    return result


def preloaded(manifest: Mapping[str, Any]) -> str:
    """The user's own LD_PRELOAD while recording."""
    env: dict[str, str] = dict(entry.partition("=")[::2] for entry in manifest["env"])
    known = {row["path"] for row in manifest.get("objects", ())}
    for path in preloads(env) if "carried" not in manifest else ():
        if path not in known:
            raise GdbrrError(
                f"{path}, which {_PRELOAD} of the demo names, is none of the recorded libraries",
                "record the program again",
            )
    return env.get(_PRELOAD, "")


def _check_same(manifest: Mapping[str, Any]) -> None:
    for row in manifest.get("objects", ()):
        recorded, path = row.get("build_id", ""), row["path"]
        if recorded and os.path.isabs(path) and host.build_id(path) != recorded:
            raise GdbrrError(
                f"{path} is not the library that was recorded, and the demo finds it by a variable of its own",
                "put that one back, or record the program again",
            )


def ignored(manifest: Mapping[str, Any]) -> list[str]:
    """Variables of the recording that its replay does not obey."""
    names = [entry.partition("=")[0] for entry in manifest["env"]]
    return [name for name in names if name.startswith("LD_") and name not in (*_OBEYED, _PRELOAD)]


def shown(manifest: Mapping[str, Any]) -> str:
    """For whoever is asked to trust a demo: what is obeyed, a line each."""
    rows = [entry for entry in manifest["env"] if entry.partition("=")[0] in (_PATH, _PRELOAD)]
    return "".join(f"  its loader obeys:  {entry!r}\n" for entry in rows)
