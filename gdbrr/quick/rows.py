"""typing.NamedTuple and the names of annotations, without typing: that compiles each annotation.

Runs in: everywhere, GDB's Python included. May call: collections.
Owns: nothing.
"""

from __future__ import annotations

__all__ = ["TYPE_CHECKING", "Any", "NamedTuple"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NamedTuple
else:
    from collections import namedtuple

    Any = object

    class _Made(type):
        """Makes a tuple of what is written as a class."""

        def __new__(cls, name, bases, space):
            fields = space.get("__annotations__", {})
            defaults = [space.pop(field) for field in fields if field in space]
            made = namedtuple(name, fields, defaults=defaults, module=space["__module__"])
            made.__annotations__ = fields
            made.__qualname__ = space["__qualname__"]
            for key, value in space.items():
                if not hasattr(made, key) or key in ("__doc__", "__str__", "__new__", "__repr__", "count", "index"):
                    setattr(made, key, value)
            return made

    NamedTuple = type.__new__(_Made, "NamedTuple", (), {})
