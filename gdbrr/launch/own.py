"""What is this user's own: demos and recordings that carry a seal made with a key that nobody else can read.

Runs in: commands outside GDB and the server. May call: errors, files, demo.
Owns: the key, a file in the user's data directory. Anybody can write into a demo that it is of this user and machine;
nobody else can make its seal.
"""

from __future__ import annotations

import os
import pwd
import stat

from gdbrr import files
from gdbrr.quick import texts
from gdbrr.quick.paths import Path
from gdbrr.quick.rows import TYPE_CHECKING, Any
from gdbrr.quick.scopes import suppress

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gdbrr.demo.reader import Demo

_SIZE = 32
_NAME = "gdbrr/key"
SEAL = "seal"
"""In the manifest of a recording that is not packed yet."""


def places() -> Iterator[Path]:
    """Where the key may be, best first: a program that is recorded with another HOME is the same user's. The last place
    is for users without a home that can be written."""
    if os.path.isabs(given := os.environ.get("XDG_DATA_HOME", "")):
        yield Path(given) / _NAME
    with suppress(KeyError):
        yield Path(pwd.getpwuid(os.geteuid()).pw_dir) / ".local/share" / _NAME
    if os.path.isabs(home := os.environ.get("HOME", "")):
        yield Path(home) / ".local/share" / _NAME
    yield Path(f"/var/tmp/gdbrr-{os.geteuid()}/key")


def key() -> bytes | None:
    """The user's key, which is made where there is none; None where no place for it can be written."""
    return next(iter(_keys()), None) or next(filter(None, map(_make, places())), None)


def _keys() -> list[bytes]:
    return [found for place in places() if (found := _read(place))]


def _is_ours(st: os.stat_result, forbidden: int) -> bool:
    return st.st_uid == os.geteuid() and not stat.S_IMODE(st.st_mode) & forbidden


def _read(place: Path) -> bytes | None:
    with suppress(OSError), files.regular(place, follow=False) as file:
        if _is_ours(os.fstat(file.fileno()), 0o077) and _is_ours(os.lstat(place.parent), 0o022):
            found = file.read(_SIZE + 1)
            return found if len(found) == _SIZE else None
    return None


def _make(place: Path) -> bytes | None:
    """A new key there, or the one that somebody has made meanwhile."""
    fresh = place.with_name(f".key.{os.urandom(8).hex()}")
    with suppress(OSError):
        for folder in (*reversed(place.parent.parents[:2]), place.parent):  # a home that is not there is not made
            with suppress(FileExistsError):
                folder.mkdir(mode=0o700)
        with files.new(fresh) as file:
            file.write(os.urandom(_SIZE))
        try:
            os.link(fresh, place)  # never over one that is there: demos are sealed with it
        finally:
            fresh.unlink()
    return _read(place)


def made(demo: Demo) -> bool:
    """Whether this user has made DEMO, and it is as it was then."""
    from gdbrr.demo import seal  # brings zstandard along, which the start of a recording need not wait for

    if demo.is_own is None:
        demo.is_own = any(seal.fits(demo.fileno(), key) for key in _keys())
    return demo.is_own


def recorded(directory: Path) -> bool:
    """Whether this user's recorder has made the recording in DIRECTORY."""
    from gdbrr.demo import pack

    try:
        log = os.lstat(directory / "log")
        manifest = texts.loads(files.content(directory / "manifest.json", pack.LARGEST, follow=False).decode())
        tag = manifest.pop(SEAL)
        return any(tag == _of_recording(manifest, log, key) for key in _keys())
    except (OSError, ValueError, RecursionError, AttributeError, KeyError, TypeError):
        return False


def sealed(manifest: Mapping[str, Any], log: Path, key: bytes | None) -> dict[str, Any]:
    """The manifest of a recording that logs to LOG, with a seal if there is a key."""
    return {**manifest, SEAL: _of_recording(manifest, os.lstat(log), key)} if key else {**manifest}


def _of_recording(manifest: Mapping[str, Any], log: os.stat_result, key: bytes) -> str:
    """Of what is recorded, and of the very file that it is logged to."""
    from gdbrr.quick.hashes import blake2b

    seen = blake2b(key=key, digest_size=_SIZE, person=b"gdbrr recording")
    seen.update(f"{log.st_dev} {log.st_ino} ".encode() + texts.dumps(manifest, sort_keys=True).encode())
    return seen.hexdigest()
