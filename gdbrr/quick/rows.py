"""typing.NamedTuple and the names of annotations, without typing and collections: those compile each annotation.

Runs in: everywhere, GDB's Python included. May call: nothing.
Owns: nothing.
"""

from __future__ import annotations

__all__ = ["TYPE_CHECKING", "Any", "NamedTuple"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NamedTuple
else:
    from _collections import _tuplegetter

    Any = object

    class _Made(type):
        """Makes a tuple of what is written as a class."""

        def __new__(cls, name, bases, space):
            fields = space.get("__annotations__", {})
            defaults = {field: space.pop(field) for field in fields if field in space}
            for number, field in enumerate(fields):
                space[field] = _tuplegetter(number, f"Alias for field number {number}")
            if "__new__" not in space and fields:
                space["__new__"] = _new
            row = {
                "__slots__": (),
                "_fields": tuple(fields),
                "__match_args__": tuple(fields),
                "_field_defaults": defaults,
            }
            return type(name, (tuple,), {**_METHODS, **row, **space})

    def _new(cls, /, *given, **named):
        """Compiles what makes a row, when the first one is made: of most kinds a short run makes none."""
        row = next(base for base in cls.__mro__ if "_field_defaults" in base.__dict__)
        fields = f"{', '.join(row._fields)},"
        made = eval(f"lambda _cls, {fields}: _new(_cls, ({fields}))", {"_new": tuple.__new__, "__name__": row.__name__})
        made.__defaults__ = tuple(row._field_defaults.values())
        made.__name__ = "__new__"
        row.__new__ = made
        return made(cls, *given, **named)

    @classmethod
    def _make(cls, values):
        made = tuple.__new__(cls, values)
        if len(made) != len(cls._fields):
            raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
        return made

    def _replace(self, /, **values):
        made = self._make(map(values.pop, self._fields, self))
        if values:
            raise ValueError(f"Got unexpected field names: {list(values)!r}")
        return made

    def _asdict(self):
        return dict(zip(self._fields, self, strict=True))

    def _repr(self):
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._asdict().items())})"

    def _given(self):
        return tuple(self)

    _METHODS = {
        "_make": _make, "_replace": _replace, "_asdict": _asdict, "__repr__": _repr, "__getnewargs__": _given,
    }  # fmt: skip

    NamedTuple = type.__new__(_Made, "NamedTuple", (), {})
