"""Whether a demo was replayed and did the same: a mark beside it, for the demo itself is never changed.

Runs in: commands outside GDB. May call: the file system.
Owns: NAME.demo.verified, which names the contents that were replayed.
"""

from __future__ import annotations

from gdbrr import files
from gdbrr.errors import GdbrrError
from gdbrr.quick.hashes import blake2b
from gdbrr.quick.paths import Path
from gdbrr.quick.scopes import suppress

SUFFIX = ".verified"
_LARGEST = 1 << 10
_PIECE = 1 << 20


def mark_of(demo: Path) -> Path:
    return demo.with_name(demo.name + SUFFIX)


def mark(demo: Path) -> None:
    """Note that DEMO was replayed to its end. Where nothing can be written it stays unverified."""
    with suppress(OSError, GdbrrError):
        files.write(mark_of(demo), _contents(demo) + "\n")


def is_marked(demo: Path) -> bool:
    try:
        return files.content(mark_of(demo), _LARGEST).strip() == _contents(demo).encode()
    except OSError:
        return False


def _contents(demo: Path) -> str:
    seen = blake2b(digest_size=32)
    with files.regular(demo) as file:
        while piece := file.read(_PIECE):
            seen.update(piece)
    return seen.hexdigest()
