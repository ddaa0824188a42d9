"""pathlib.Path for what every run does with a path; the rest is left to pathlib, which is imported then.

Runs in: everywhere, GDB's Python included. May call: the file system.
Owns: nothing. A path of this kind equals pathlib's of the same text.
"""

from __future__ import annotations

import os

from gdbrr.quick.rows import TYPE_CHECKING

__all__ = ["Path"]

if TYPE_CHECKING:
    from pathlib import Path
else:

    class Path:  # an os.PathLike by its __fspath__
        __slots__ = ("_text",)

        def __init__(self, *parts):
            self._text = _plain("/".join(map(os.fspath, parts)) if len(parts) == 1 else os.path.join(*parts or ("",)))

        @staticmethod
        def home():
            return Path(os.path.expanduser("~"))

        def __fspath__(self):
            return self._text

        __str__ = __fspath__

        def __repr__(self):
            return f"Path({self._text!r})"

        def __eq__(self, other):
            if isinstance(other, Path):
                return self._text == other._text
            return self._full() == other if isinstance(other, os.PathLike) else NotImplemented

        def __hash__(self):
            return hash(self._full())

        def __truediv__(self, more):
            return Path(self._text, more)

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return getattr(self._full(), name)

        def _full(self):
            import pathlib

            return pathlib.Path(self._text)

        @property
        def name(self):
            return self._text.rpartition("/")[2].removesuffix("." if self._text == "." else "")

        @property
        def stem(self):
            return self.name.removesuffix(self.suffix)

        @property
        def suffix(self):
            if self.name.startswith("."):
                return self._full().suffix  # another one since Python 3.14
            stem, dot, rest = self.name.rpartition(".")
            return dot + rest if stem and rest else ""

        @property
        def parent(self):
            return Path(self._text[: len(self._text) - len(self.name)])

        def with_name(self, name):
            if not self.name or "/" in name or name in ("", "."):
                return Path(self._full().with_name(name))
            return self.parent / name

        def exists(self):
            return os.path.exists(self._text)

        def is_file(self):
            return os.path.isfile(self._text)

        def is_dir(self):
            return os.path.isdir(self._text)

        def open(self, *how, **more):
            return open(self._text, *how, **more)

        def read_text(self, encoding=None, errors=None):
            with open(self._text, encoding=encoding, errors=errors) as file:
                return file.read()

        def read_bytes(self):
            with open(self._text, "rb") as file:
                return file.read()

        def resolve(self, strict=False):
            return Path(os.path.realpath(self._text, strict=strict))

        def mkdir(self, mode=0o777, parents=False, exist_ok=False):
            if parents or exist_ok:
                return self._full().mkdir(mode, parents, exist_ok)
            os.mkdir(self._text, mode)

        def rmdir(self):
            os.rmdir(self._text)

        def unlink(self, missing_ok=False):
            try:
                os.unlink(self._text)
            except FileNotFoundError:
                if not missing_ok:
                    raise

    def _plain(text):
        """TEXT as pathlib shows it: without doubled slashes and dots."""
        if not text.startswith("/"):
            root = ""
        else:
            root = "//" if text.startswith("//") and not text.startswith("///") else "/"
        if root == "//" or "//" in text or "/." in text or text[:2] in ("./", ".", "") or text[-1:] == "/":
            return root + "/".join(part for part in text.split("/") if part not in ("", ".")) or "."
        return text
