"""Whether a demo was replayed and did the same: a mark beside it, for the demo itself is never changed.

Runs in: commands outside GDB. May call: the file system.
Owns: NAME.demo.verified, which names the contents that were replayed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

SUFFIX = ".verified"


def mark_of(demo: Path) -> Path:
    return demo.with_name(demo.name + SUFFIX)


def mark(demo: Path) -> None:
    """Note that DEMO was replayed to its end. Where nothing can be written it stays unverified."""
    draft = mark_of(demo).with_suffix(f"{SUFFIX}.{os.getpid()}")
    with contextlib.suppress(OSError):
        draft.write_text(_contents(demo) + "\n")
        draft.replace(mark_of(demo))
    with contextlib.suppress(OSError):
        draft.unlink(missing_ok=True)


def is_marked(demo: Path) -> bool:
    try:
        return mark_of(demo).read_text().strip() == _contents(demo)
    except (OSError, UnicodeDecodeError):
        return False


def _contents(demo: Path) -> str:
    with open(demo, "rb") as file:
        return hashlib.blake2b(file.read(), digest_size=32).hexdigest()
