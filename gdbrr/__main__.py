"""`python -m gdbrr` is the command `gdbrr`; so is this file, run by itself.

Runs in: a command of its own, and the server's process. May call: gdbrr.cli.main only.
Owns: where modules are found when nobody has said so (`python -IS`): beside this one, and beside the interpreter.
"""

import gc
import sys

# What importing makes stays, and looking through it again and again takes a tenth of a short run.
gc.set_threshold(50_000)

if not __package__:
    sys.path.append(__file__.rpartition("/gdbrr/")[0])
    place = sys.executable.rpartition("/bin/")[0]
    sys.path.append(f"{place}/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages")

from gdbrr.cli.main import run  # noqa: E402

if __name__ == "__main__":
    run()
