"""dataclasses' frozen classes, without dataclasses: that compiles the methods of each class anew.

Runs in: commands outside GDB and the server. May call: nothing.
Owns: nothing. Where there are few classes, or some of another kind, the original serves as well.
"""

from __future__ import annotations

from gdbrr.quick.rows import TYPE_CHECKING

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(*, frozen):
        """FROZEN only. Defaults are values of the class."""
        assert frozen

        def made(cls):
            named = (field for base in reversed(cls.__mro__) for field in getattr(base, "__annotations__", ()))
            cls.__match_args__ = tuple(dict.fromkeys(named))
            for method in (__init__, __eq__, __hash__, __repr__, __setattr__, __delattr__):
                setattr(cls, method.__name__, method)
            return cls

        return made

    def __init__(self, *given, **named):
        fields = type(self).__match_args__
        values = dict(zip(fields, given, strict=False))
        if len(given) > len(fields) or values.keys() & named.keys() or not named.keys() <= set(fields):
            raise TypeError(f"{type(self).__name__}: too much is given")
        values.update(named)
        for field in fields:
            if field not in values:
                try:
                    values[field] = getattr(type(self), field)
                except AttributeError:
                    raise TypeError(f"{type(self).__name__}: {field} is missing") from None
        self.__dict__.update(values)

    def __eq__(self, other):
        return self.__dict__ == other.__dict__ if type(self) is type(other) else NotImplemented

    def __hash__(self):
        return hash(tuple(getattr(self, field) for field in type(self).__match_args__))

    def __repr__(self):
        values = ", ".join(f"{field}={getattr(self, field)!r}" for field in type(self).__match_args__)
        return f"{type(self).__qualname__}({values})"

    def __setattr__(self, name, value):
        raise AttributeError(f"cannot assign to field {name!r}")

    def __delattr__(self, name):
        raise AttributeError(f"cannot delete field {name!r}")
