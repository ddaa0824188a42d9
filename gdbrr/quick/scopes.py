"""contextlib's contextmanager and suppress, without contextlib.

Runs in: everywhere, GDB's Python included. May call: nothing.
Owns: nothing.
"""

from __future__ import annotations

from gdbrr.quick.rows import TYPE_CHECKING

__all__ = ["contextmanager", "suppress"]

if TYPE_CHECKING:
    from contextlib import contextmanager, suppress
else:

    class suppress:
        def __init__(self, *kinds):
            self._kinds = kinds

        def __enter__(self):
            return None

        def __exit__(self, kind, value, trace):
            return kind is not None and issubclass(kind, self._kinds)

    class _Scope:
        def __init__(self, steps):
            self._steps = steps

        def __enter__(self):
            for value in self._steps:
                return value
            raise RuntimeError("generator didn't yield")

        def __exit__(self, kind, value, trace):
            if kind is None:
                for _ in self._steps:
                    raise RuntimeError("generator didn't stop")
                return False
            try:
                self._steps.throw(value)
            except StopIteration as stop:
                return stop is not value
            except BaseException as error:
                # A StopIteration cannot leave a generator as it is.
                if error is value or (isinstance(value, StopIteration) and error.__cause__ is value):
                    value.__traceback__ = trace
                    return False
                raise
            raise RuntimeError("generator didn't stop after throw()")

    def contextmanager(steps):
        def made(*args, **named):
            return _Scope(steps(*args, **named))

        made.__name__, made.__doc__, made.__wrapped__ = steps.__name__, steps.__doc__, steps
        made.__module__, made.__qualname__ = steps.__module__, steps.__qualname__
        return made
