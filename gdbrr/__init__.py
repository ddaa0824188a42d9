"""gdbrr: reverse debugging of native Linux programs. Importing it imports nothing else.

Runs in: everywhere, GDB's Python included. May call: nothing.
Owns: the version, and the names that scripts use.
"""

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """What scripts use (docs/api.md); found late, because it brings the whole controller along."""
    if name == "open":
        from gdbrr.timeline.timeline import open_demo

        return open_demo
    if name == "stack":
        from gdbrr.report.stacks import of_leaf

        return of_leaf
    if name in ("Moment", "Point", "PointKind", "Hit", "Interrupted"):
        from gdbrr.timeline import model

        return getattr(model, name)
    raise AttributeError(f"module 'gdbrr' has no attribute {name!r}")
