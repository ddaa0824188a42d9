"""functools' cache and cached_property, without functools.

Runs in: everywhere, GDB's Python included. May call: nothing.
Owns: nothing.
"""

from __future__ import annotations

from gdbrr.quick.rows import TYPE_CHECKING

__all__ = ["cache", "cached_property"]

if TYPE_CHECKING:
    from functools import cache, cached_property
else:

    def cache(made):
        known = {}

        def found(*args):
            if args not in known:
                known[args] = made(*args)
            return known[args]

        found.__name__, found.__doc__, found.__wrapped__ = made.__name__, made.__doc__, made
        found.__module__, found.__qualname__ = made.__module__, made.__qualname__
        found.cache_clear = known.clear
        return found

    class cached_property:
        def __init__(self, made):
            self._made = made
            self.__doc__ = made.__doc__

        def __set_name__(self, owner, name):
            self._name = name

        def __get__(self, thing, owner=None):
            if thing is None:
                return self
            return thing.__dict__.setdefault(self._name, self._made(thing))
