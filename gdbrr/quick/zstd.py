"""zstandard's compiled module, without the package around it: that imports much to find out that this one is meant.

Runs in: the controller, the server, tests. May call: zstandard.
Owns: nothing.
"""

from __future__ import annotations

from gdbrr.quick.rows import TYPE_CHECKING

__all__ = ["zstandard"]

if TYPE_CHECKING:
    import zstandard
else:
    import os
    import sys

    _NAME = "zstandard.backend_c"

    def _compiled():
        import _frozen_importlib as importlib
        import _frozen_importlib_external as external

        for folder in sys.path:
            for suffix in external.EXTENSION_SUFFIXES:
                path = os.path.join(folder, "zstandard", f"backend_c{suffix}")
                if os.path.isfile(path):
                    loader = external.ExtensionFileLoader(_NAME, path)
                    spec = importlib.ModuleSpec(_NAME, loader, origin=path)
                    found = importlib.module_from_spec(spec)
                    loader.exec_module(found)
                    return found
        raise ImportError(_NAME)

    try:
        zstandard = sys.modules.get("zstandard") or _compiled()
    except (ImportError, AttributeError):
        import zstandard
