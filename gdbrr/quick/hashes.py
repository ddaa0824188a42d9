"""Hashes without hashlib, which loads all of OpenSSL to have them twice.

Runs in: commands outside GDB. May call: _blake2, _sha256 or _sha2; hashlib where those are not there.
Owns: nothing.
"""

from __future__ import annotations

from gdbrr.quick.rows import TYPE_CHECKING

__all__ = ["blake2b", "same", "sha256"]

if TYPE_CHECKING:
    from hashlib import blake2b, sha256
    from hmac import compare_digest as same
else:
    try:
        from _blake2 import blake2b
    except ImportError:
        from hashlib import blake2b

    def sha256(data=b""):
        try:
            from _sha2 import sha256 as made  # Python 3.12
        except ImportError:
            try:
                from _sha256 import sha256 as made
            except ImportError:
                from hashlib import sha256 as made
        return made(data)

    try:
        from _operator import _compare_digest as same
    except ImportError:
        from hmac import compare_digest as same
