"""gdbrr: reverse debugging of native Linux programs. Importing it imports nothing else.

Runs in: everywhere, GDB's Python included. May call: nothing.
Owns: the version, and `gdbrr.open`.
"""

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """`gdbrr.open(DEMO)` gives scripts a timeline; found late, because it brings the whole controller along."""
    if name == "open":
        from gdbrr.timeline.timeline import open_demo

        return open_demo
    raise AttributeError(f"module 'gdbrr' has no attribute {name!r}")
