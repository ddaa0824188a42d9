"""What type checkers see of the native module that gdbrr/demo/native_build.py builds.

Runs in: nowhere. May call: nothing.
Owns: nothing; the declarations are those of preload/abi.h, which cffi checks at run time.
"""

from typing import Any

ffi: Any
lib: Any
