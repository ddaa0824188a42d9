"""`python -m gdbrr` is the command `gdbrr`.

Runs in: a command of its own, and the server's process. May call: gdbrr.cli.main only.
Owns: nothing.
"""

from gdbrr.cli.main import run

if __name__ == "__main__":
    run()
