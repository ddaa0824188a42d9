"""What a user sources: `source gdbinit.py` brings gdbrr's commands into GDB.

Runs in: GDB's Python, from a checkout (beside gdbrr/) or an installed package (below gdbrr/).
May call: gdbrr.ingdb only.
Owns: how GDB's Python finds the package: by path, so that nothing beside it (another Python's packages) is in reach.
"""

import importlib
import importlib.util
import os
import sys

import gdb


def _find_package(here):
    """The directory gdbrr/ that this file belongs to."""
    while True:
        package = os.path.join(here, "gdbrr")
        if os.path.isdir(os.path.join(package, "ingdb")):
            return package
        if here == os.path.dirname(here):
            raise gdb.GdbError("gdbrr: its package is not beside gdbinit.py. Try: install gdbrr again")
        here = os.path.dirname(here)


def _import_package(package):
    spec = importlib.util.spec_from_file_location(
        "gdbrr", os.path.join(package, "__init__.py"), submodule_search_locations=[package]
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["gdbrr"] = module
    spec.loader.exec_module(module)


def _load():
    if sys.version_info < (3, 9):  # noqa: UP036  (GDB's Python need not be the project's)
        raise gdb.GdbError("gdbrr: GDB's Python is older than 3.9. Try: gdbrr doctor")
    if "gdbrr.ingdb" in sys.modules:
        return  # sourced before
    if "gdbrr" not in sys.modules:
        # Not __file__: sourced by a script in Python, that is the script.
        _import_package(_find_package(os.path.dirname(os.path.realpath(_load.__code__.co_filename))))
    importlib.import_module("gdbrr.ingdb").load()


_load()
